//! Volumes to test with: every pair of options, cheap to unlock, small.

use std::collections::BTreeSet;
use std::process::Output;

use crate::support::{Place, is_root, noise, scrim, succeeded};

/// Bytes of each test volume's payload.
pub(crate) const PAYLOAD: usize = 2 << 20;

/// The passphrase in `key`, and another one in `other`.
pub(crate) const PASSPHRASE: &str = "open sesame";
pub(crate) const OTHER: &str = "another passphrase";

/// A cost for key slots that are added later.
pub(crate) const CHEAP: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";

/// One way to format a volume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) version: u8,
    pub(crate) cipher: &'static str,
    pub(crate) key_bits: u32,
    pub(crate) sector: usize,
    pub(crate) detached: bool,
    pub(crate) pbkdf: &'static str,
}

const fn case(
    version: u8,
    key_bits: u32,
    sector: usize,
    detached: bool,
    pbkdf: &'static str,
) -> Case {
    Case {
        version,
        cipher: "aes-xts-plain64",
        key_bits,
        sector,
        detached,
        pbkdf,
    }
}

/// LUKS1 has one sector size and one key derivation; what is left are all combinations.
pub(crate) const LUKS1: [Case; 4] = [
    case(1, 256, 512, false, "pbkdf2"),
    case(1, 512, 512, false, "pbkdf2"),
    case(1, 256, 512, true, "pbkdf2"),
    case(1, 512, 512, true, "pbkdf2"),
];

/// Every pair of values of any two columns occurs in some row.
pub(crate) const LUKS2: [Case; 6] = [
    case(2, 256, 512, false, "argon2id"),
    case(2, 512, 4096, true, "argon2id"),
    case(2, 512, 512, true, "argon2i"),
    case(2, 256, 4096, false, "argon2i"),
    case(2, 256, 512, true, "pbkdf2"),
    case(2, 512, 4096, false, "pbkdf2"),
];

/// LUKS2 as `cryptsetup` makes it by default, but for the cost.
pub(crate) const USUAL: Case = case(2, 512, 4096, false, "argon2id");

impl Case {
    /// The options, the same for `cryptsetup` and `scrim`.
    pub(crate) fn options(&self) -> String {
        let Self {
            version,
            cipher,
            key_bits,
            sector,
            pbkdf,
            ..
        } = self;
        let mut options =
            format!("--type luks{version} --cipher {cipher} --key-size {key_bits} --pbkdf {pbkdf}");
        if *version == 2 {
            options += &format!(" --sector-size {sector}");
        }
        options += match *pbkdf {
            "pbkdf2" => " --pbkdf-force-iterations 1000",
            _ => " --pbkdf-force-iterations 4 --pbkdf-memory 64 --pbkdf-parallel 1",
        };
        if self.detached {
            options += " --header head.img";
        }
        options
    }

    /// Where the payload starts by default, in bytes.
    pub(crate) fn default_offset(&self) -> usize {
        match (self.detached, self.version) {
            (true, _) => 0,
            // Eight areas of 4000 keys fit 1 MiB up to this size.
            (false, 1) if self.key_bits <= 192 => 1 << 20,
            (false, 1) => 2 << 20,
            (false, _) => 16 << 20,
        }
    }
}

/// A place with a volume `disk.img` in it, its header in `head.img` where that is detached, and the
/// passphrases.
pub(crate) struct Image {
    pub(crate) place: Place,
    pub(crate) case: Case,
}

impl Image {
    pub(crate) fn made_by_cryptsetup(case: Case) -> Self {
        Self::blank(Place::new(), case).formatted_by_cryptsetup()
    }

    pub(crate) fn made_by_scrim(case: Case) -> Self {
        Self::blank(Place::new(), case).formatted_by_scrim()
    }

    /// As [`made_by_cryptsetup`](Self::made_by_cryptsetup), in memory: for many volumes of which no disk is asked anything.
    pub(crate) fn in_memory_by_cryptsetup(case: Case) -> Self {
        Self::blank(Place::in_memory(), case).formatted_by_cryptsetup()
    }

    /// As [`made_by_scrim`](Self::made_by_scrim), in memory.
    pub(crate) fn in_memory_by_scrim(case: Case) -> Self {
        Self::blank(Place::in_memory(), case).formatted_by_scrim()
    }

    fn formatted_by_cryptsetup(self) -> Self {
        let options = self.case.options();
        let format = format!("luksFormat {options} --key-file key disk.img");
        self.place.cryptsetup(&format);
        self
    }

    fn formatted_by_scrim(self) -> Self {
        let options = self.case.options();
        let format = format!("format {options} --key-file key disk.img");
        self.place.scrim(format.split_whitespace());
        self
    }

    fn blank(place: Place, case: Case) -> Self {
        place.write("key", PASSPHRASE);
        place.write("other", OTHER);
        place.sparse("disk.img", (case.default_offset() + PAYLOAD) as u64);
        Self { place, case }
    }

    /// The file with the header.
    pub(crate) fn header(&self) -> &'static str {
        if self.case.detached {
            "head.img"
        } else {
            "disk.img"
        }
    }

    /// Option that names the detached header, if there is one.
    pub(crate) fn header_option(&self) -> &'static [&'static str] {
        if self.case.detached {
            &["--header", "head.img"]
        } else {
            &[]
        }
    }

    /// Opens it in Scrim with a key file, as `name`; returns the address.
    pub(crate) fn open_with(&self, key: &str, name: &str, more: &[&str]) -> String {
        let args = [self.header_option(), &["--key-file", key], more].concat();
        self.place.open("disk.img", name, &args)
    }

    /// The whole payload, as Scrim serves it.
    pub(crate) fn read_with(&self, key: &str) -> Vec<u8> {
        let uri = self.open_with(key, "reading", &["--readonly"]);
        let bytes = self.place.copy_out(&uri);
        self.place.close("reading");
        bytes
    }

    pub(crate) fn read(&self) -> Vec<u8> {
        self.read_with("key")
    }

    /// Overwrites the payload through Scrim.
    pub(crate) fn fill(&self, bytes: &[u8]) {
        let uri = self.open_with("key", "filling", &[]);
        self.place.copy_in(bytes, &uri);
        self.place.close("filling");
    }

    /// Fills the payload with noise through Scrim; returns the noise.
    pub(crate) fn fill_with_noise(&self, seed: u64) -> Vec<u8> {
        let bytes = noise(PAYLOAD, seed);
        self.fill(&bytes);
        bytes
    }

    /// The payload decrypted without Scrim, with the volume key that `cryptsetup` dumps.
    pub(crate) fn decrypt_independently(&self) -> Vec<u8> {
        self.turn("decrypt", b"")
    }

    /// Overwrites the payload without Scrim.
    pub(crate) fn encrypt_independently(&self, bytes: &[u8]) {
        self.turn("encrypt", bytes);
    }

    fn turn(&self, what: &str, input: &[u8]) -> Vec<u8> {
        self.dump_volume_key();
        let (start, length) = (self.payload_offset(), PAYLOAD);
        let Case { sector, cipher, .. } = self.case;
        let args = format!("{what} disk.img {start} 0 {length} {sector} {cipher} volume-key");
        self.place.script("sectors.py", args.split(' '), input)
    }

    /// Has `cryptsetup` write the volume key to `volume-key`; returns it.
    pub(crate) fn dump_volume_key(&self) -> Vec<u8> {
        let file = self.place.path("volume-key");
        let _ = std::fs::remove_file(&file);
        let header = self.header();
        self.place.cryptsetup(&format!(
            "luksDump --dump-volume-key --key-file key --volume-key-file volume-key {header}"
        ));
        std::fs::read(file).unwrap()
    }

    /// Has `cryptsetup` give a LUKS2 volume a new key and encrypt the payload with it; `false` where
    /// it would not, because only root has the lock files that it wants for this.
    pub(crate) fn reencrypt(&self) -> bool {
        if !is_root() {
            println!("skipped: cryptsetup reencrypts for root only");
            return false;
        }
        let options = format!("--force-offline-reencrypt {CHEAP} --key-file key");
        self.place
            .cryptsetup(&format!("reencrypt {options} disk.img"));
        true
    }

    /// Where the payload starts, as `cryptsetup` understands the header.
    fn payload_offset(&self) -> usize {
        let dump = self.dump();
        let after = |label: &str| {
            let (_, rest) = dump.split_once(label)?;
            rest.split(' ').next()?.parse::<usize>().ok()
        };
        match self.case.version {
            1 => after("Payload offset: ").unwrap() * 512,
            _ => after("offset: ").unwrap(),
        }
    }

    /// Output of `luksDump`, with single spaces.
    pub(crate) fn dump(&self) -> String {
        let dump = self
            .place
            .cryptsetup(&format!("luksDump {}", self.header()));
        dump.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns whether `cryptsetup` accepts a key file.
    pub(crate) fn cryptsetup_accepts(&self, key: &str) -> bool {
        let mut command = self.place.command("timeout");
        command.args(["60", "cryptsetup", "open", "--test-passphrase"]);
        command.args(self.header_option());
        let output = command.args(["--key-file", key, "disk.img"]).output();
        accepted(&output.unwrap())
    }

    /// Returns whether Scrim accepts a key file.
    pub(crate) fn scrim_accepts(&self, key: &str) -> bool {
        let mut command = self.place.command(scrim());
        let args = ["test-passphrase", "--key-file", key, self.header()];
        accepted(&command.args(args).output().unwrap())
    }
}

/// Returns true if the key was accepted, false if no key slot matched; anything else is a failure.
fn accepted(output: &Output) -> bool {
    if output.status.code() == Some(2) {
        return false;
    }
    succeeded("test-passphrase", output);
    true
}

impl Place {
    /// Copies bytes to the start of an open volume and makes them durable.
    pub(crate) fn copy_in(&self, bytes: &[u8], uri: &str) {
        self.write("copied-in", bytes);
        self.run("nbdcopy", ["--flush", "copied-in", uri]);
    }

    /// Copies the whole of an open volume.
    pub(crate) fn copy_out(&self, uri: &str) -> Vec<u8> {
        let file = self.path("copied-out");
        let _ = std::fs::remove_file(&file);
        self.run("nbdcopy", [uri, "copied-out"]);
        std::fs::read(file).unwrap()
    }

    /// Reads with `qemu-io`: whether a command succeeded, and what was said.
    pub(crate) fn qemu_io(&self, uri: &str, command: &str) -> (bool, String) {
        let output = self
            .command("qemu-io")
            .args(["-f", "raw", "-c", command, uri])
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.success(), said)
    }
}

#[test]
fn every_pair_of_options_occurs() {
    let columns: [fn(&Case) -> String; 4] = [
        |case| case.key_bits.to_string(),
        |case| case.sector.to_string(),
        |case| case.detached.to_string(),
        |case| case.pbkdf.to_owned(),
    ];
    for (index, first) in columns.iter().enumerate() {
        for second in &columns[index + 1..] {
            let values = |column: &fn(&Case) -> String| {
                let values: BTreeSet<_> = LUKS2.iter().map(column).collect();
                values.len()
            };
            let pairs = LUKS2.iter().map(|case| (first(case), second(case)));
            let pairs: BTreeSet<_> = pairs.collect();
            assert_eq!(pairs.len(), values(first) * values(second));
        }
    }
}
