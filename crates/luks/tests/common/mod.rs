//! Real `cryptsetup` as the oracle, on image files, without root.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod cut;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scrim_crypt::{CipherSpec, SectorSize};
use scrim_luks::kdf::{Argon2Cost, Hash, Kdf};
use scrim_luks::{
    HEADER_AREA_MAX, Header, Layout, NewKeyslot, Parsed, Placement, Plan, Target, VolumeKey, luks1,
    luks2,
};
use scrim_sys::memory::SecretBytes;
use tempfile::TempDir;

pub(crate) const PASSPHRASE: &str = "correct horse";
pub(crate) const OTHER: &str = "battery staple";

/// Bytes of the volume key, encryption sector, detached or not, key derivation, hash: every pair of
/// values of any two columns occurs in some row.
#[rustfmt::skip]
pub(crate) const LUKS2_PAIRS: [(usize, u32, bool, &str, &str); 9] = [
    (64, 4096, false, "pbkdf2", "sha1"),
    (32, 512, true, "argon2id", "sha1"),
    (32, 4096, true, "argon2i", "sha512"),
    (64, 512, false, "argon2i", "sha256"),
    (32, 512, true, "pbkdf2", "sha256"),
    (64, 4096, false, "argon2id", "sha512"),
    (64, 4096, true, "argon2id", "sha256"),
    (32, 512, false, "pbkdf2", "sha512"),
    (32, 512, false, "argon2i", "sha1"),
];

/// Bytes of the volume key, detached or not, hash: likewise.
pub(crate) const LUKS1_PAIRS: [(usize, bool, &str); 6] = [
    (64, false, "sha512"),
    (32, true, "sha256"),
    (64, true, "sha1"),
    (32, false, "sha1"),
    (32, true, "sha512"),
    (64, false, "sha256"),
];

/// Returns whether `cryptsetup` is there. Without it a test says so and passes, except in CI.
pub(crate) fn have_cryptsetup() -> bool {
    let version = Command::new("cryptsetup")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if version.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "cryptsetup is missing");
    println!("skipped: cryptsetup is missing");
    false
}

/// A directory with the passphrases in key files, removed at the end.
pub(crate) struct Bench {
    dir: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("key"), PASSPHRASE).unwrap();
        fs::write(dir.path().join("other"), OTHER).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A sparse file of `len` bytes.
    pub(crate) fn image(&self, name: &str, len: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(len).unwrap();
        path
    }

    /// Runs `cryptsetup` in the directory, so that `key` and `other` name the key files.
    pub(crate) fn cryptsetup(&self, args: &str) -> Result<String, String> {
        let output = Command::new("cryptsetup")
            .args(args.split_ascii_whitespace())
            .arg("--batch-mode")
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(format!(
                "{args}: {}",
                String::from_utf8_lossy(&output.stderr)
            ))
        }
    }

    /// The volume key of an image, as `cryptsetup` finds it with the key file `key`.
    pub(crate) fn volume_key(&self, image: &str) -> Vec<u8> {
        let file = self.path("volume-key");
        let _ = fs::remove_file(&file);
        self.cryptsetup(&format!(
            "luksDump --dump-volume-key --volume-key-file volume-key --key-file key {image}"
        ))
        .unwrap();
        fs::read(file).unwrap()
    }
}

pub(crate) fn secret(text: &str) -> SecretBytes {
    SecretBytes::copied_from(text.as_bytes())
}

/// Reads the bytes of a device that a program reads before it parses.
pub(crate) fn area(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    bytes.truncate(HEADER_AREA_MAX);
    bytes
}

pub(crate) fn parse(path: &Path) -> Parsed {
    Header::parse(&area(path), fs::metadata(path).unwrap().len()).unwrap()
}

/// Parses an image that must have no faults.
pub(crate) fn parse_sound(path: &Path) -> Header {
    let parsed = parse(path);
    assert!(parsed.findings.is_empty(), "{:?}", parsed.findings);
    assert!(parsed.repair.is_none());
    parsed.header
}

/// The sealed key of a slot, as stored.
pub(crate) fn material(header: &Header, slot: u8, path: &Path) -> Vec<u8> {
    let slot = header.keyslots().iter().find(|one| one.id == slot).unwrap();
    let range = slot.material();
    let mut material = vec![0; usize::try_from(range.end - range.start).unwrap()];
    let file = File::open(path).unwrap();
    file.read_exact_at(&mut material, range.start).unwrap();
    material
}

pub(crate) fn unlock(header: &Header, slot: u8, path: &Path, passphrase: &str) -> Option<Vec<u8>> {
    let material = material(header, slot, path);
    match header.unlock(slot, &material, &secret(passphrase)) {
        Ok(key) => {
            header.verify_volume_key(&key).unwrap();
            Some(key.expose().to_vec())
        }
        Err(scrim_luks::UnlockError::WrongPassphrase { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Opens the first slot that the passphrase fits.
pub(crate) fn unlock_any(header: &Header, path: &Path, passphrase: &str) -> Option<Vec<u8>> {
    let slots = header.keyslots_to_try(None).unwrap();
    slots
        .into_iter()
        .find_map(|slot| unlock(header, slot, path, passphrase))
}

struct FileTarget(File);

impl Target for FileTarget {
    type Error = io::Error;

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A device in memory, which grows.
pub(crate) struct Memory(pub(crate) Vec<u8>);

impl Target for Memory {
    type Error = std::convert::Infallible;

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Self::Error> {
        let start = usize::try_from(offset).unwrap();
        let end = start + bytes.len();
        self.0.resize(self.0.len().max(end), 0);
        self.0[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Applies `plan` to an empty device.
pub(crate) fn image(plan: &Plan) -> Vec<u8> {
    let mut memory = Memory(Vec::new());
    plan.apply(&mut memory).unwrap();
    memory.0
}

/// A small LUKS2 header in an image of its own, with one key slot.
pub(crate) fn small_luks2(key: &VolumeKey) -> Vec<u8> {
    let mut spec = luks2_spec(detached(0));
    spec.keyslots_size = Some(256 << 10);
    spec.keyslot = new_keyslot("sha256", "sha256");
    let formatted = luks2::format(&spec, key, &secret(PASSPHRASE)).unwrap();
    image(&formatted.plan)
}

/// Bytes of a header copy with the default size.
pub(crate) const COPY: usize = 16 << 10;

/// The JSON document of the copy at the start of `image`.
pub(crate) fn document(image: &[u8]) -> serde_json::Value {
    let json = &image[4096..COPY];
    let len = json.iter().position(|&byte| byte == 0).unwrap();
    serde_json::from_slice(&json[..len]).unwrap()
}

/// Replaces the JSON area of one copy and makes its checksum right again.
pub(crate) fn set_json(image: &mut [u8], copy: usize, json: &[u8]) {
    let whole = &mut image[copy * COPY..(copy + 1) * COPY];
    whole[4096..].fill(0);
    whole[4096..4096 + json.len()].copy_from_slice(json);
    set_checksum(whole);
}

/// Makes the checksum of one whole copy right again.
pub(crate) fn set_checksum(whole: &mut [u8]) {
    use sha2::Digest;
    whole[448..512].fill(0);
    let digest = sha2::Sha256::digest(&*whole);
    whole[448..480].copy_from_slice(&digest);
}

/// Changes the JSON of both copies.
pub(crate) fn edit(image: &mut [u8], change: impl FnOnce(&mut serde_json::Value)) {
    let mut document = document(image);
    change(&mut document);
    let json = document.to_string();
    set_json(image, 0, json.as_bytes());
    set_json(image, 1, json.as_bytes());
}

pub(crate) fn apply(plan: &Plan, path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    plan.apply(&mut FileTarget(file)).unwrap();
}

/// A cost that takes no time.
pub(crate) fn cheap(kdf: &str) -> Kdf {
    let cost = Argon2Cost {
        time: 4,
        memory_kib: 32,
        lanes: 1,
    };
    match kdf {
        "argon2i" => Kdf::Argon2i { cost },
        "argon2id" => Kdf::Argon2id { cost },
        hash => Kdf::Pbkdf2 {
            hash: hash.parse().unwrap(),
            iterations: 1000,
        },
    }
}

pub(crate) fn attached(device_len: u64) -> Layout {
    Layout {
        placement: Placement::Attached,
        device_len,
        grows: false,
        data_offset: None,
    }
}

pub(crate) fn detached(device_len: u64) -> Layout {
    Layout {
        placement: Placement::Detached,
        device_len,
        grows: true,
        data_offset: None,
    }
}

/// LUKS2 with cryptsetup's defaults but for the cost.
pub(crate) fn luks2_spec(layout: Layout) -> luks2::FormatSpec {
    luks2::FormatSpec {
        cipher: xts(),
        sector_size: SectorSize::S512,
        digest_hash: Hash::Sha256,
        digest_iterations: 1000,
        keyslot: new_keyslot("argon2id", "sha256"),
        uuid: None,
        label: String::new(),
        subsystem: String::new(),
        flags: Vec::new(),
        layout,
        metadata_size: None,
        keyslots_size: None,
    }
}

/// LUKS1 with cryptsetup's defaults but for the cost.
pub(crate) fn luks1_spec(layout: Layout) -> luks1::FormatSpec {
    luks1::FormatSpec {
        cipher: xts(),
        hash: Hash::Sha256,
        digest_iterations: 1000,
        iterations: 1000,
        slot: None,
        uuid: None,
        layout,
    }
}

pub(crate) fn xts() -> CipherSpec {
    "aes-xts-plain64".parse().unwrap()
}

pub(crate) fn new_keyslot(kdf: &str, af_hash: &str) -> NewKeyslot {
    NewKeyslot {
        slot: None,
        kdf: cheap(kdf),
        af_hash: af_hash.parse().unwrap(),
        cipher: None,
    }
}

pub(crate) fn volume_key(len: usize) -> VolumeKey {
    VolumeKey::generate(len).unwrap()
}
