//! Scrim in the place of cryptsetup: the same command lines, given to both programs, have the same exit codes, headers and
//! answers, and docs/compatibility.md names every action and option.
//!
//! `SCRIM_VECTORS=N` compares another number of command lines; `SCRIM_VECTOR_SEED=S` only one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;

use scrim_seeded::Random;

use crate::newer;
use crate::support::{PYTHON, Place, have, noise, scrim};
use crate::volume::CHEAP;

const VECTORS: u64 = 200;

/// Every action and option that `cryptsetup --help` names is in the page, which says of each what Scrim's parser says.
#[test]
fn the_page_names_what_cryptsetup_has_and_what_scrim_takes() {
    let page = include_str!("../../docs/compatibility.md");
    let place = Place::new();
    let tables = place.scrim(["generate", "compatibility"]);
    for table in tables.trim().split("\n\n") {
        assert!(
            page.contains(table),
            "replace the tables by `scrim generate compatibility`:\n{table}"
        );
    }
    if !have(&["cryptsetup"]) {
        println!("skipped: no cryptsetup to compare the page with");
        return;
    }
    let newer = newer::cryptsetup(&place).map(|program| program.display().to_string());
    for program in newer.iter().map(String::as_str).chain(["cryptsetup"]) {
        demand_named(page, &place.run(program, ["--help"]));
    }
}

/// Demands that the page names all options and actions of a program's help.
fn demand_named(page: &str, help: &str) {
    let named = |word: &str| page.contains(&format!("`{word}`"));
    let lines = help
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-'));
    // Behind the names follows the description.
    let names = lines.filter_map(|line| line.split("  ").next());
    let options: BTreeSet<&str> = names
        .flat_map(|names| names.split(' '))
        .filter_map(option)
        .collect();
    assert!(options.len() > 80, "{options:?}");
    for option in options {
        assert!(named(option), "{option} is not in the page");
    }
    let (_, list) = help.split_once("<action> is one of:\n").unwrap();
    let list = list.lines().take_while(|line| !line.is_empty());
    let actions: Vec<&str> = list
        .filter_map(|line| line.trim().split(' ').next())
        .collect();
    assert!(actions.len() > 20, "{actions:?}");
    for action in actions {
        assert!(named(action), "{action} is not in the page");
    }
}

/// The option that a word of the help begins with.
fn option(word: &str) -> Option<&str> {
    let name = word.split('=').next()?;
    (name.len() > 2 && name.starts_with("--")).then_some(name)
}

/// A plain volume that OpenSSL's ciphers have written, with a key that Python's hashes have made.
#[test]
fn plain_volumes_are_read_and_written_as_others_do() {
    if !have(&[PYTHON, "nbdcopy"]) {
        return;
    }
    let place = Place::new();
    place.write("disk.img", noise(64 << 10, 1));
    let hash = "import hashlib, sys; \
                digests = [hashlib.new('sha1', b'A' * n + b'secret').digest() for n in (0, 1)]; \
                sys.stdout.buffer.write(b''.join(digests)[:32])";
    let key = place
        .command(PYTHON)
        .args(["-c", hash])
        .output()
        .unwrap()
        .stdout;
    place.write("key", &key);
    let (cipher, plaintext) = ("aes-cbc-essiv:sha256", noise(16 << 10, 2));
    // From sector 16 on, with IVs from sector 8 on.
    let turn = |what: &str, input: &[u8]| {
        let line = format!("{what} disk.img 4096 4096 {} 512 {cipher} key", 16 << 10);
        place.script("sectors.py", line.split(' '), input)
    };
    turn("encrypt", &plaintext);
    let options = format!("-c {cipher} -s 256 -o 16 -p 8 -b 32");
    for more in ["-h sha1", "-d key"] {
        let line = format!("plainOpen {options} {more} disk.img old");
        let opened = place.run_with_input(scrim(), line.split(' '), b"secret\n");
        assert!(opened.status.success(), "{opened:?}");
        let uri = String::from_utf8(opened.stdout).unwrap();
        place.run("nbdcopy", [uri.trim(), "plain"]);
        assert!(
            fs::read(place.path("plain")).unwrap() == plaintext,
            "{more}"
        );
        assert!(place.scrim(["status", "old"]).contains("PLAIN"));
        place.write("changed", noise(16 << 10, 3));
        place.run("nbdcopy", ["changed", uri.trim()]);
        place.close("old");
        assert!(turn("decrypt", b"") == noise(16 << 10, 3), "{more}");
        turn("encrypt", &plaintext);
    }
    for (line, said) in [
        (format!("{options} disk.img old"), "--hash is needed"),
        (
            format!("{options} -h sha1 -d key disk.img old"),
            "leave --hash out",
        ),
        (
            "-c aes-xts-plain64 -s 256 -h sha1 -o 999 disk.img old".to_owned(),
            "ends before --offset",
        ),
    ] {
        let words = ["plainOpen"].into_iter().chain(line.split(' '));
        let refused = place.run_with_input(scrim(), words, b"secret");
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && text.contains(said),
            "{line}: {text}"
        );
    }
}

/// By the names that scripts of all ages use; Scrim's engine runs the volume where the kernel cannot.
#[test]
fn a_volume_is_opened_and_closed_by_every_name() {
    let mapper = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/mapper/control");
    if mapper.is_ok() || !have(&["cryptsetup"]) {
        println!("skipped: here the kernel would run the volume");
        return;
    }
    let place = Place::new();
    place.write("key", "secret");
    place.sparse("disk.img", 20 << 20);
    let run = |line: &str| {
        let words = ["cryptsetup"].into_iter().chain(line.split(' '));
        let output = place.run_with_input(scrim(), words, b"");
        let text = [&output.stdout[..], &output.stderr].concat();
        (
            output.status.code().unwrap(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    let succeeds = |line: &str| {
        let (code, text) = run(line);
        assert_eq!(code, 0, "{line}: {text}");
        text
    };
    succeeds(&format!("-q luksFormat {CHEAP} disk.img key"));
    for (open, close) in [
        ("-d key luksOpen disk.img vol", "luksClose vol"),
        ("open --type luks2 disk.img vol --key-file key", "close vol"),
        ("-v open disk.img vol -d key -r", "remove /dev/mapper/vol"),
    ] {
        let text = succeeds(open);
        assert_eq!(
            open.starts_with("-v"),
            text.contains("Command successful."),
            "{text}"
        );
        assert!(succeeds("status /dev/mapper/vol").contains("vol is active"));
        assert_eq!(run(open).0, 5, "{open}: the name is taken");
        succeeds(close);
        let (code, text) = run("status vol");
        assert!(code == 4 && text.contains("vol is inactive"), "{text}");
    }
}

#[test]
fn both_programs_answer_random_command_lines_alike() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seeds = match number("SCRIM_VECTOR_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SCRIM_VECTORS").unwrap_or(VECTORS),
    };
    let fixture = Fixture::new();
    let mut differences = Vec::new();
    let mut succeeded = 0;
    for seed in seeds.clone() {
        let vector = Vector::new(seed);
        let theirs = fixture.run("cryptsetup", &[], &vector);
        let ours = fixture.run(scrim(), &["cryptsetup"], &vector);
        succeeded += u64::from(theirs.code == 0);
        if let Some(difference) = theirs.difference(&ours, &vector) {
            differences.push(format!("seed {seed}: {}: {difference}", vector.line));
        }
    }
    let count = seeds.end - seeds.start;
    assert!(
        differences.is_empty(),
        "{} of {count}:\n{}",
        differences.len(),
        differences.join("\n")
    );
    assert!(
        count < 100 || succeeded > count / 4,
        "only {succeeded} of {count} did anything"
    );
}

/// Images that command lines are given to.
const IMAGES: [&str; 10] = [
    "unbound.img",
    "luks1.img",
    "luks2.img",
    "primary.img",
    "secondary.img",
    "noise.img",
    "empty.img",
    "missing.img",
    "newer1.img",
    "newer2.img",
];

/// Images and keys, of which each program gets a copy.
struct Fixture {
    templates: Place,
}

impl Fixture {
    fn new() -> Self {
        let place = Place::in_memory();
        for key in 0..4 {
            place.write(&format!("key{key}"), format!("passphrase {key}"));
        }
        place.write("none", "");
        place.write("volume-key", [7; 16]);
        place.write("newer-key", [8; 32]);
        place.write(
            "token.json",
            r#"{"type":"other","keyslots":["0"],"note":1}"#,
        );
        place.write("wrong.json", "{");
        let cipher = "--cipher aes-cbc-essiv:sha256 --key-size 128";
        for (image, options) in [
            ("luks1.img", "--type luks1 --offset 4096"),
            ("luks2.img", "--type luks2 --offset 2048 --sector-size 512"),
        ] {
            place.sparse(image, 3 << 20);
            let volume_key = "--volume-key-file volume-key";
            place.cryptsetup(&format!(
                "luksFormat {options} {cipher} {volume_key} {CHEAP} {image} key0"
            ));
            place.cryptsetup(&format!("luksAddKey -S 3 -d key0 {CHEAP} {image} key1"));
        }
        let unbound = "luksAddKey --unbound -S 5 --key-size 256";
        fs::copy(place.path("luks2.img"), place.path("unbound.img")).unwrap();
        place.cryptsetup(&format!("{unbound} -d key0 {CHEAP} unbound.img key2"));
        place.cryptsetup("token import --json-file token.json luks2.img");
        place.cryptsetup("luksHeaderBackup luks2.img --header-backup-file backup2");
        place.cryptsetup("luksHeaderBackup luks1.img --header-backup-file backup1");
        let luks2 = fs::read(place.path("luks2.img")).unwrap();
        for (image, copy) in [("primary.img", 0), ("secondary.img", 16384)] {
            let mut damaged = luks2.clone();
            damaged[copy + 5000] ^= 1;
            place.write(image, damaged);
        }
        make_newer(&place);
        place.write("noise.img", noise(3 << 20, 1));
        place.write("empty.img", "");
        Self { templates: place }
    }

    /// Runs a program on a copy of everything.
    fn run(&self, program: &str, first: &[&str], vector: &Vector) -> Answer {
        let place = Place::in_memory();
        for file in fs::read_dir(self.templates.dir()).unwrap() {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            // Of the images only the one that is used.
            let is_used = !IMAGES.contains(&name.as_str()) || name == vector.image;
            if file.file_type().unwrap().is_file() && is_used {
                fs::copy(file.path(), place.path(&name)).unwrap();
            }
        }
        let words = first.iter().copied().chain(vector.line.split(' '));
        let output = place.run_with_input(program, words, vector.input.as_bytes());
        Answer::new(&place, &output, vector)
    }
}

/// Makes volumes by a newer cryptsetup, or by the host's where that cannot be fetched.
fn make_newer(place: &Place) {
    let program = newer::cryptsetup(place);
    let program = program.as_deref().unwrap_or(Path::new("cryptsetup"));
    let run = |line: &str| place.run(program.to_str().unwrap(), line.split_whitespace());
    for (image, options) in [
        ("newer1.img", "--type luks1 --offset 4096"),
        ("newer2.img", "--type luks2 --offset 4096"),
    ] {
        place.sparse(image, 3 << 20);
        run(&format!(
            "luksFormat -q {options} {CHEAP} --key-size 256 --volume-key-file newer-key {image} key0"
        ));
    }
    run(
        "luksAddKey -q -S 3 -d key0 --pbkdf argon2id --pbkdf-force-iterations 4 --pbkdf-memory 32 --pbkdf-parallel 1 \
         newer2.img key1",
    );
    run("token add --key-description none-of-that-name -S 3 newer2.img");
    run("config --label newer --subsystem system newer2.img");
}

/// A command line, the image that it is about, and standard input.
struct Vector {
    image: &'static str,
    line: String,
    input: &'static str,
}

/// Actions with their arguments; IMAGE, KEY and NEW are replaced.
const ACTIONS: [&str; 33] = [
    "isLuks IMAGE",
    "isLuks --type luks1 IMAGE",
    "isLuks --type luks2 IMAGE -v",
    "luksUUID IMAGE",
    "luksUUID IMAGE --uuid 12345678-1234-1234-1234-123456789abc",
    "luksDump IMAGE",
    "luksDump --dump-json-metadata IMAGE",
    "luksDump --dump-volume-key IMAGE KEY",
    "luksDump --unbound -S 5 IMAGE KEY",
    "open --test-passphrase IMAGE KEY",
    "open --test-passphrase IMAGE -S 3 KEY",
    "open --test-passphrase IMAGE -S 5 KEY",
    "open --test-passphrase --unbound IMAGE KEY",
    "token import --json-file token.json IMAGE",
    "luksOpen --test-passphrase --type luks2 IMAGE KEY",
    "open --test-passphrase IMAGE --volume-key-file volume-key",
    "luksAddKey IMAGE NEW CHEAP KEY",
    "luksAddKey IMAGE NEW CHEAP --volume-key-file volume-key",
    "luksAddKey --unbound --key-size 128 IMAGE NEW CHEAP",
    "luksRemoveKey IMAGE KEY",
    "luksChangeKey IMAGE NEW CHEAP KEY",
    "luksConvertKey IMAGE CHEAP KEY",
    "luksKillSlot IMAGE 3 KEY",
    "luksKillSlot IMAGE 0",
    "luksErase IMAGE",
    "luksFormat --type luks1 --offset 4096 CHEAP IMAGE NEW",
    "luksFormat --type luks2 --offset 2048 --sector-size 4096 CHEAP IMAGE NEW",
    "luksFormat --type luks2 --sector-size 512 --luks2-keyslots-size 512k --align-payload 8 --key-size 256 CHEAP IMAGE NEW",
    "luksHeaderBackup IMAGE --header-backup-file new-backup",
    "luksHeaderRestore IMAGE --header-backup-file backup2",
    "token remove IMAGE --token-id 0",
    "token export IMAGE --token-id 0",
    "config IMAGE --label sticker",
];

/// Options that may come with any action, whether or not it takes them.
const OPTIONS: [&str; 22] = [
    "-q",
    "-v",
    "--debug",
    "--timeout 5",
    "-q -q",
    "--disable-locks",
    "--key-slot 3",
    "--key-slot 9",
    "--key-slot 40",
    "--header luks2.img",
    "--type luks1",
    "--type luks2",
    "--type nothing",
    "--label x",
    "--use-random",
    "-y",
    "--force-password",
    "--tries 1",
    "--sector-size 513",
    "--key-size 7",
    "--hash sha512",
    "--pbkdf argon9",
];

impl Vector {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Most of them are whole volumes.
        let image = match random.index(5) {
            0 => "luks1.img",
            1 => "luks2.img",
            2 => "newer1.img",
            3 => "newer2.img",
            _ => IMAGES[random.index(IMAGES.len())],
        };
        let key = [
            "",
            "-d key0",
            "-d key1",
            "-d key2",
            "-d key3",
            "-d none",
            "-d missing",
            "-d -",
        ][random.index(8)];
        let new = ["", "key2", "key3", "missing"][random.index(4)];
        let action = ACTIONS[random.index(ACTIONS.len())];
        let mut line = action.replace("IMAGE", image).replace("KEY", key);
        line = line.replace("NEW", new).replace("CHEAP", CHEAP);
        if random.index(3) == 0 {
            let option = OPTIONS[random.index(OPTIONS.len())];
            let name = option.split(' ').next().unwrap_or_default();
            let once = !line.contains(name);
            line = match random.index(2) {
                0 if once => format!("{option} {line}"),
                1 if once => format!("{line} {option}"),
                _ => line,
            };
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        Self {
            image,
            line: words.join(" "),
            input: [
                "",
                "passphrase 0",
                "passphrase 0\npassphrase 3\n",
                "passphrase 1\nnew",
                "wrong",
            ][random.index(5)],
        }
    }

    /// True if docs/compatibility.md explains a difference that this command line has.
    fn is_explained(&self, theirs: &Answer, ours: &Answer) -> bool {
        let has = |words: &str| self.line.contains(words);
        let codes = (theirs.code, ours.code);
        // Options that an action does not use.
        let refusals = [
            "is not allowed with",
            "no such type",
            "LUKS1 has no --label",
            "required arguments were not provided",
            "not the type that --type asks for",
        ];
        let refused = ours.code == 1 && refusals.iter().any(|words| ours.said.contains(words))
            || theirs.code == 1
                && ["--use-random", "-y", "--force-password"]
                    .into_iter()
                    .any(has);
        // Unbound key slots: cryptsetup ends with 1 where no passphrase fits, and `luksErase` leaves them.
        let unbound = self.image == "unbound.img" && (codes == (1, 2) || has("luksErase"));
        // Without input, cryptsetup removes a key slot all the same.
        let unproven =
            has("luksKillSlot") && theirs.said.contains("Nothing to read") && ours.code != 0;
        let is_luks1 = ["luks1.img", "newer1.img"].contains(&self.image);
        let luks1 = has("luksConvertKey") && is_luks1 && theirs.code == 1;
        // cryptsetup's `config --label` also removes the subsystem.
        let kept = has("config") && has("--label") && self.image == "newer2.img";
        // Options of one effect, of which the other is not used.
        let unused = ours.code == 1 && ours.said.contains("cannot be used with")
            || ours.said.contains("in every key slot: choose that one");
        let foreign = has("luksHeaderRestore")
            && (ours.said.contains("is not the backup of this volume")
                || ours.said.contains("the device has 0"));
        let narrow = has("luksOpen") && has("--type luks2") && ours.code == 1;
        // Each program names the error that it finds first.
        let first = ["is in use", "is not in use"];
        let theirs_first = ["Nothing to read on input", "please select between"];
        let twofold = theirs.code != 0
            && ours.code != 0
            && (first.iter().any(|words| ours.said.contains(words))
                || theirs_first.iter().any(|words| theirs.said.contains(words)));
        let empty = ours.code == 2 && ours.said.contains("the passphrase is empty");
        refused
            || unbound
            || unproven
            || luks1
            || kept
            || twofold
            || narrow
            || empty
            || unused
            || foreign
    }
}

/// Result of a command line that a program was given.
#[derive(Debug)]
struct Answer {
    code: i32,
    /// Standard output, of actions whose output programs read.
    output: String,
    /// The header afterwards, as cryptsetup shows it, without what is random.
    header: String,
    said: String,
}

impl Answer {
    fn new(place: &Place, output: &Output, vector: &Vector) -> Self {
        let is_read = ["luksUUID", "token export", "--dump-json-metadata"];
        let output_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let text = output_of(&output.stdout);
        let has = |words: &&str| vector.line.contains(*words);
        // Not with cryptsetup's debug messages between.
        let is_read = is_read.iter().any(has) && !has(&"--debug");
        let dump = place
            .command("cryptsetup")
            .args(["luksDump", vector.image])
            .output()
            .unwrap();
        Self {
            code: output.status.code().unwrap(),
            output: if is_read {
                canonical(&text)
            } else {
                String::new()
            },
            header: without_chance(&output_of(&dump.stdout), vector),
            said: output_of(&output.stderr),
        }
    }

    fn difference(&self, ours: &Self, vector: &Vector) -> Option<String> {
        if vector.is_explained(self, ours) {
            return None;
        }
        if self.code != ours.code {
            return Some(format!(
                "codes {} and {}: {} | {}",
                self.code,
                ours.code,
                self.said.trim(),
                ours.said.trim()
            ));
        }
        if self.output != ours.output {
            return Some(format!("answers {:?} and {:?}", self.output, ours.output));
        }
        // A command of Scrim that fails leaves the header as it was; cryptsetup may have begun to write.
        (self.code == 0 && self.header != ours.header).then(|| {
            let (theirs, ours) = (
                only_in(&self.header, &ours.header),
                only_in(&ours.header, &self.header),
            );
            format!("headers: cryptsetup's has {theirs:?}, Scrim's {ours:?}")
        })
    }
}

/// Lines of one text that the other has not.
fn only_in<'a>(one: &'a str, other: &str) -> Vec<&'a str> {
    let others: Vec<&str> = other.lines().collect();
    one.lines().filter(|line| !others.contains(line)).collect()
}

/// JSON without white space and in order, other text as it is.
fn canonical(text: &str) -> String {
    let text = text.replace("Command successful.", "");
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(value) => value.to_string(),
        Err(_) => text.trim_end().to_owned(),
    }
}

/// A dump without salts, digests, key material and what is measured.
fn without_chance(dump: &str, vector: &Vector) -> String {
    let chance = [
        "Salt:",
        "Digest:",
        "MK digest:",
        "MK salt:",
        "MK iterations:",
        "Iterations:",
        "Epoch:",
    ];
    let is_new = vector.line.contains("luksFormat");
    let is_hex = |line: &str| {
        let mut words = line.split_whitespace();
        words.all(|word| word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let kept = dump.lines().filter(|line| {
        let line = line.trim();
        let is_chance = chance.iter().any(|start| line.starts_with(start));
        let is_chance = is_chance || is_hex(line) || is_new && line.starts_with("UUID:");
        !is_chance
    });
    kept.collect::<Vec<_>>().join("\n")
}
