//! Options do what they do in cryptsetup, or are refused.

use std::fs;

use crate::support::{Place, have};
use crate::volume::CHEAP;

const PASSPHRASE: &str = "secret";

/// A volume whose passphrase is `PASSPHRASE`.
fn place() -> Place {
    let place = Place::new();
    place.write("key", PASSPHRASE);
    place.sparse("disk.img", 20 << 20);
    place.cryptsetup(&format!("luksFormat --type luks2 {CHEAP} disk.img key"));
    place
}

fn code(place: &Place, program: &str, words: &str, input: &str) -> (i32, String) {
    let output = place.run_with_input(program, words.split_whitespace(), input.as_bytes());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), said)
}

/// A size and an offset hold for a passphrase on standard input, too.
#[test]
fn a_passphrase_on_standard_input_is_cut_as_asked() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = place();
    let inputs = [
        "secret",
        "secretXX",
        "secret\nmore",
        "xxxxxsecretzz",
        "a\nb\nxsecret",
    ];
    let cuts = [
        "",
        "-l 6",
        "-l 3",
        "-l 11",
        "--keyfile-offset 1",
        "--keyfile-offset 5 -l 6",
        "--keyfile-offset 5 -l 7",
        "--keyfile-offset 5",
        "--keyfile-offset 99",
    ];
    let mut opened = 0;
    for cut in cuts {
        for input in inputs {
            let words = format!("open --test-passphrase {cut} disk.img");
            let (judge, _) = code(&place, "cryptsetup", &words, input);
            let (ours, said) = code(&place, "scrim", &words, input);
            // cryptsetup says "no permission" of an input that ends too early, Scrim "wrong parameters".
            assert_eq!(ours == 0, judge == 0, "{cut:?} {input:?}: {said}");
            opened += i32::from(ours == 0);
        }
    }
    assert_eq!(opened, 8);
    // The input after it stays for the next question.
    let words = format!("add-key {CHEAP} -l 6 --new-keyfile-size 3 disk.img");
    let (code_of_add, said) = code(&place, "scrim", &words, "secretnew and more\n");
    assert_eq!(code_of_add, 0, "{said}");
    let words = "open --test-passphrase disk.img";
    assert_eq!(code(&place, "cryptsetup", words, "new").0, 0);
}

#[test]
fn a_key_is_not_removed_by_another_passphrase_than_was_said() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = place();
    let before = fs::read(place.path("disk.img")).unwrap();
    for (words, expected) in [
        ("-q -l 11", 1),
        ("-q -l 5", 2),
        ("-q --keyfile-offset 1", 2),
    ] {
        let words = format!("luksRemoveKey {words} disk.img");
        for program in ["cryptsetup", "scrim"] {
            let (code, said) = code(&place, program, &words, PASSPHRASE);
            assert_eq!(code, expected, "{program} {words}: {said}");
            assert!(
                fs::read(place.path("disk.img")).unwrap() == before,
                "{program} {words}"
            );
        }
    }
}

/// `-h` is `--hash`, not a question for help.
#[test]
fn h_is_the_hash() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = place();
    place.sparse("new.img", 20 << 20);
    let words = format!("format -h sha512 -q {CHEAP} new.img key");
    let (code, said) = code(&place, "scrim", &words, "");
    assert_eq!(code, 0, "{said}");
    let dump = place.cryptsetup("luksDump new.img");
    assert!(dump.contains("Hash:       sha512"), "{dump}");
    place.cryptsetup("open --test-passphrase --key-file key new.img");
    for words in [
        "-?",
        "format -?",
        "token add -?",
        "--help",
        "bench fileserver --help",
        "bench paths --help",
    ] {
        let help = place.scrim(words.split(' '));
        assert!(help.contains("Usage: scrim"), "{words}: {help}");
    }
    let (refused, _) = self::code(&place, "scrim", "close -h", "");
    assert_eq!(refused, 1);
}

/// An option that would have no effect is refused before anything is done.
#[test]
fn what_would_not_be_obeyed_is_refused() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = place();
    let before = fs::read(place.path("disk.img")).unwrap();
    place.write("volume-key", [0; 64]);
    for words in [
        "add-key disk.img -d key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --iter-time 5",
        "add-key disk.img -d key --pbkdf pbkdf2 --pbkdf-memory 1000",
        "add-key disk.img -d key --pbkdf pbkdf2 --pbkdf-parallel 1",
        "add-key disk.img -d key --key-size 512",
        "add-key disk.img -d key --volume-key-file volume-key",
        "add-key disk.img --tries 2 --volume-key-file volume-key",
        "add-key disk.img -d key --unbound --key-size 512",
        "add-key disk.img -S 0 --new-key-slot 2 --volume-key-file volume-key",
        "open disk.img --test-passphrase -d key --nbd unix:s",
        "open disk.img --test-passphrase -d key --foreground",
        "open disk.img --test-passphrase -d key --io-engine plain",
        "open disk.img --test-passphrase -d key --data-path queued",
        "open disk.img --test-passphrase -d key --readonly",
        "open disk.img --test-passphrase -d key --allow-discards",
        "open disk.img --test-passphrase -d key --perf-same_cpu_crypt",
        "open disk.img --test-passphrase -d key --perf-high_priority",
        "open disk.img name --test-passphrase -d key",
        "open secret --tries 2 --table table",
        "open secret --pbkdf-memory-limit 1000 --table table",
        "open secret --pbkdf-time-limit 5 --table table",
        "reencrypt disk.img",
        "tcryptOpen disk.img secret",
        "luksFrmat disk.img",
    ] {
        let (code, said) = code(&place, "scrim", words, "x\nx\n");
        assert_eq!(code, 1, "{words}: {said}");
        assert!(
            !said.contains(" 'encrypt'") && !said.contains("'luksFormat'"),
            "{words}: {said}"
        );
        assert!(
            fs::read(place.path("disk.img")).unwrap() == before,
            "{words}"
        );
    }
}

/// Names of the files that the rows below name: two passphrases of the volume, one that is new, each also within other
/// bytes, and the volume key.
const FILES: [(&str, &str); 5] = [
    ("key", PASSPHRASE),
    ("second", "another"),
    ("new", "newest"),
    ("within", "xxsecretyy"),
    ("newwithin", "xxnewestyy"),
];

/// Options that make a key slot cheap, and the same with both programs.
const ARGON2: &str =
    "--pbkdf argon2id --pbkdf-force-iterations 4 --pbkdf-memory 1024 --pbkdf-parallel 1";

const UUID: &str = "--uuid 7c1c5c50-3f4e-4f0a-9d3c-0a4f5c1b2d3e";

/// Command lines that both programs take, `CHEAP` and so on filled in. Each is run by both, on copies of one volume, and
/// leaves the same behind, or is refused by both.
const ROWS: &[&str] = &[
    "luksFormat -q --type luks1 -s 512 CHEAP UUID new.img key",
    "luksFormat -q SECTOR -c aes-cbc-essiv:sha256 -s 256 CHEAP UUID new.img key",
    "luksFormat -q SECTOR -h sha512 CHEAP UUID new.img key",
    "luksFormat -q --sector-size 512 CHEAP UUID new.img key",
    "luksFormat -q SECTOR -o 65536 CHEAP UUID new.img key",
    "luksFormat -q SECTOR --label a --subsystem b CHEAP UUID new.img key",
    "luksFormat -q SECTOR ARGON2 UUID new.img key",
    "luksFormat -q SECTOR -S 3 CHEAP UUID new.img key",
    "luksFormat -q SECTOR -d within --keyfile-offset 2 -l 6 CHEAP UUID new.img",
    "luksFormat -q SECTOR --header newhead.img CHEAP UUID new.img key",
    "luksFormat -q SECTOR --align-payload 65536 CHEAP UUID new.img key",
    "luksFormat -q --type luks1 -s 512 --align-payload 1 CHEAP UUID new.img key",
    "luksFormat -q --type luks1 -s 512 --align-payload 5 CHEAP UUID new.img key",
    "luksFormat -q --align-payload 5 CHEAP UUID new.img key",
    "luksFormat -q SECTOR -o 32769 CHEAP UUID new.img key",
    "luksFormat -q SECTOR --volume-key-file /dev/zero CHEAP UUID new.img key",
    "luksFormat -q SECTOR --header short.img CHEAP UUID new.img key",
    "luksFormat -q SECTOR --header newhead.img --align-payload 8192 CHEAP UUID new.img key",
    "luksFormat -q --type luks1 -s 512 --header newhead.img --align-payload 8192 CHEAP UUID new.img key",
    "luksFormat -q SECTOR --align-payload 0 CHEAP UUID new.img key",
    "luksFormat -q SECTOR --luks2-metadata-size 64k --luks2-keyslots-size 2m CHEAP UUID new.img key",
    "luksFormat -q SECTOR --luks2-keyslots-size 2m --align-payload 1 CHEAP UUID new.img key",
    "luksFormat -q SECTOR --luks2-metadata-size 5k CHEAP UUID new.img key",
    "luksFormat -q SECTOR --volume-key-file volume-key CHEAP UUID new.img key",
    "luksFormat -q SECTOR --volume-key-file key CHEAP UUID new.img key",
    "luksFormat -q SECTOR --keyslot-cipher aes-cbc-plain64 --keyslot-key-size 256 CHEAP UUID new.img key",
    "open --test-passphrase --volume-key-file volume-key disk.img",
    "open --test-passphrase --volume-key-file volume-key -s 512 disk.img",
    "open --test-passphrase --volume-key-file key disk.img",
    "open --test-passphrase -d key -S 0 disk.img",
    "open --test-passphrase -d key -S 1 disk.img",
    "open --test-passphrase -d key --type luks1 disk.img",
    "open --test-passphrase -d within --keyfile-offset 2 -l 6 -T 1 disk.img",
    "open --test-passphrase -d key --header head.img data.img",
    "luksAddKey -q CHEAP -d key disk.img new",
    "luksAddKey CHEAP -d key --new-keyfile new disk.img",
    "luksAddKey CHEAP -d key --new-keyfile-offset 2 --new-keyfile-size 6 disk.img newwithin",
    "luksAddKey CHEAP -d within --keyfile-offset 2 -l 6 -T 1 disk.img new",
    "luksAddKey CHEAP -d key -S 5 disk.img new",
    "luksAddKey CHEAP -d key -S 1 disk.img new",
    "luksAddKey CHEAP -d second -S 1 --new-key-slot 6 disk.img new",
    "luksAddKey CHEAP -d key -S 1 --new-key-slot 6 disk.img new",
    "luksAddKey CHEAP --volume-key-file volume-key disk.img new",
    "luksAddKey CHEAP --unbound -s 256 -S 7 disk.img new",
    "luksAddKey CHEAP -h sha512 -d key disk.img new",
    "luksAddKey CHEAP --keyslot-cipher aes-cbc-plain64 --keyslot-key-size 256 -d key disk.img new",
    "luksAddKey ARGON2 -d key disk.img new",
    "luksAddKey CHEAP --type luks1 -d key disk.img new",
    "luksAddKey CHEAP --header head.img -d key data.img new",
    "luksAddKey CHEAP --token-only disk.img new",
    "luksAddKey CHEAP --token-only --token-id 4 disk.img new",
    "luksAddKey CHEAP --token-only --token-type luks2-keyring disk.img new",
    "luksAddKey CHEAP --volume-key-file /dev/zero disk.img new",
    "luksChangeKey -q CHEAP -d key disk.img new",
    "luksChangeKey CHEAP -d key -S 0 -T 1 disk.img new",
    "luksChangeKey CHEAP -d key -S 1 disk.img new",
    "luksChangeKey CHEAP -d within --keyfile-offset 2 -l 6 disk.img new",
    "luksChangeKey CHEAP -d key --new-keyfile-offset 2 --new-keyfile-size 6 disk.img newwithin",
    "luksChangeKey CHEAP -h sha512 -d key disk.img new",
    "luksChangeKey ARGON2 -d key disk.img new",
    "luksChangeKey CHEAP --keyslot-cipher aes-cbc-plain64 --keyslot-key-size 256 -d key disk.img new",
    "luksChangeKey CHEAP --type luks1 -d key disk.img new",
    "luksChangeKey CHEAP --header head.img -d key data.img new",
    "luksConvertKey -q ARGON2 -d key disk.img",
    "luksConvertKey ARGON2 -d key -S 1 -T 1 disk.img",
    "luksConvertKey ARGON2 -d second -S 1 disk.img",
    "luksConvertKey CHEAP -h sha512 -d key disk.img",
    "luksConvertKey CHEAP --keyslot-cipher aes-cbc-plain64 --keyslot-key-size 256 -d key disk.img",
    "luksConvertKey ARGON2 -d within --keyfile-offset 2 -l 6 disk.img",
    "luksConvertKey ARGON2 --header head.img -d key data.img",
    "luksRemoveKey -q -T 1 disk.img second",
    "luksRemoveKey -q -d second disk.img",
    "luksRemoveKey -q -d within --keyfile-offset 2 -l 6 disk.img",
    "luksRemoveKey -q --type luks1 disk.img second",
    "luksRemoveKey -q --header head.img data.img key",
    "luksKillSlot -q disk.img 1",
    "luksKillSlot -d key -T 1 disk.img 1",
    "luksKillSlot -d second disk.img 1",
    "luksKillSlot -d within --keyfile-offset 2 -l 6 disk.img 1",
    "luksKillSlot -q --type luks1 disk.img 1",
    "luksKillSlot -q --header head.img data.img 0",
    "luksErase -q disk.img",
    "luksErase -q --header head.img data.img",
    "config -q --priority prefer -S 1 disk.img",
    "config --priority ignore -S 0 disk.img",
    "config --priority prefer -S 4 disk.img",
    "config --label a --subsystem b disk.img",
    "config --header head.img --label a data.img",
    "luksUUID -q UUID disk.img",
    "luksUUID -q UUID --type luks1 disk.img",
    "luksUUID -q UUID --header head.img data.img",
    "convert -q --type luks1 disk.img",
    "convert -q --type luks2 disk.img",
    "convert -q --type luks1 --header head.img data.img",
    "luksHeaderBackup --header-backup-file backup disk.img",
    "luksHeaderBackup --header head.img --header-backup-file backup data.img",
    "luksHeaderRestore -q --header-backup-file of-head head.img",
    "luksHeaderRestore -q --header head.img --header-backup-file of-head data.img",
    "repair -q disk.img",
    "repair -q --type luks1 disk.img",
    "repair -q --header head.img data.img",
    "isLuks disk.img",
    "isLuks -v --type luks1 disk.img",
    "isLuks --header head.img data.img",
    "luksDump --header head.img data.img",
    "luksDump --type luks1 disk.img",
    "luksDump --dump-json-metadata disk.img",
    "luksDump -q --dump-volume-key -d key disk.img",
    "luksDump --dump-volume-key -d within --keyfile-offset 2 -l 6 -S 0 disk.img",
    "luksDump --dump-volume-key --volume-key-file backup -d key disk.img",
    "luksDump --unbound -d key disk.img",
    "token add -q --key-description a disk.img",
    "token add --key-description a -S 1 --token-id 4 disk.img",
    "token add --key-description a --unbound disk.img",
    "token add --key-description a --token-id 0 disk.img",
    "token add --key-description a --token-id 0 --token-replace disk.img",
    "token add --key-description a --header head.img data.img",
    "token remove -q --token-id 0 disk.img",
    "token remove --token-id 3 disk.img",
    "token remove --header head.img --token-id 0 data.img",
    "token import -q --json-file token.json disk.img",
    "token import --json-file token.json -S 1 --token-id 5 disk.img",
    "token import --json-file token.json --token-id 0 disk.img",
    "token import --json-file token.json --token-id 0 --token-replace disk.img",
    "token import --json-file token.json --header head.img data.img",
    "token export --token-id 0 --json-file exported disk.img",
    "token export --token-id 0 --header head.img --json-file exported data.img",
    "token unassign -q --token-id 0 -S 0 disk.img",
    "token unassign --token-id 0 -S 1 disk.img",
    "token unassign --header head.img --token-id 0 -S 0 data.img",
];

/// Command lines with options that cryptsetup ignores; Scrim refuses them.
const IGNORED: &[&str] = &[
    "luksDump --dump-volume-key -d key -S 1 disk.img",
    "luksHeaderBackup --type luks1 --header-backup-file backup disk.img",
    "luksConvertKey ARGON2 --type luks1 -d key disk.img",
    "config --type luks1 --label a disk.img",
    "token add --key-description a --type luks1 disk.img",
    "token remove --type luks1 --token-id 0 disk.img",
    "token import --json-file token.json --type luks1 disk.img",
    "token unassign --type luks1 --token-id 0 -S 0 disk.img",
];

/// A row with an option that cryptsetup lacks: it takes the new key file as the last argument only.
const OWN: &str = "luksChangeKey CHEAP -d key --new-keyfile new disk.img";

/// Options that are Scrim's own, or whose effect is another test's: what is measured, served, limited or asked for at a
/// terminal.
const ELSEWHERE: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "--help",
            "--image-offset",
            "--image-size",
            "--pbkdf-memory-limit",
            "--pbkdf-time-limit",
        ],
    ),
    ("luksFormat", &["--size", "--iter-time"]),
    // Keyrings are those of the tokens, with a newer cryptsetup.
    (
        "luksAddKey",
        &["--iter-time", "--token-timeout", "--volume-key-keyring"],
    ),
    ("luksChangeKey", &["--iter-time"]),
    ("luksConvertKey", &["--iter-time"]),
    ("luksHeaderRestore", &["--replaced-file"]),
    ("config", &["--persistent-flags"]),
    ("luksDump", &["--json", "--tries"]),
];

/// The commands whose options are the rows' alone; `open` serves, too.
const COMPARED: [&str; 20] = [
    "luksFormat",
    "luksAddKey",
    "luksChangeKey",
    "luksConvertKey",
    "luksRemoveKey",
    "luksKillSlot",
    "luksErase",
    "config",
    "luksUUID",
    "convert",
    "luksHeaderBackup",
    "luksHeaderRestore",
    "repair",
    "isLuks",
    "luksDump",
    "token add",
    "token remove",
    "token import",
    "token export",
    "token unassign",
];

fn filled(row: &str) -> String {
    row.replace("CHEAP", CHEAP)
        .replace("ARGON2", ARGON2)
        .replace("SECTOR", "--type luks2 --sector-size 4096")
        .replace("UUID ", &format!("{UUID} "))
        .replace(&format!("luks{UUID} "), "luksUUID ")
}

/// State of the image after the command of a row, as cryptsetup shows it: without random fields, and without the
/// location of a key slot, which each program may choose.
fn left_behind(place: &Place, row: &str) -> Vec<String> {
    let images = ["newhead.img", "new.img", "head.img", "disk.img"];
    let mut named = images.into_iter();
    let image = named
        .find(|image| row.split(' ').any(|word| word == *image))
        .unwrap();
    let output = place.run_with_input("cryptsetup", ["luksDump", image], b"");
    let dump = String::from_utf8(output.stdout).unwrap();
    // The digest's iterations are measured, and the epoch counts the writes.
    let dump = dump.split("Digests:").next().unwrap();
    let is_hex = |line: &str| {
        let is_byte = |word: &str| word.len() == 2 && u8::from_str_radix(word, 16).is_ok();
        let words = || line.split_whitespace();
        words().count() > 4 && words().all(is_byte)
    };
    let free = [
        "Epoch:",
        "Salt:",
        "salt:",
        "digest:",
        "MK iterations:",
        "UUID:",
        "Area offset:",
    ];
    let is_kept = |line: &&str| {
        let is_free = free.iter().any(|word| line.contains(word));
        !is_hex(line) && (!is_free || line.contains(&UUID[7..]))
    };
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut seen: Vec<_> = dump.lines().filter(is_kept).map(words).collect();
    for key in ["key", "second", "new"] {
        let words = format!("open --test-passphrase -d {key} {image}");
        seen.push(format!(
            "{key}: {}",
            code(place, "cryptsetup", &words, "").0
        ));
    }
    for file in ["backup", "exported"] {
        let bytes = fs::read(place.path(file)).ok();
        let sum = bytes.map(|bytes| (bytes.len(), sum(&bytes)));
        seen.push(format!("{file}: {sum:?}"));
    }
    seen
}

/// Tells files apart without printing them.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    })
}

/// The volumes of the rows: one with two passphrases and a token, and one with its header apart.
fn volumes() -> Place {
    let place = Place::in_memory();
    for (name, content) in FILES {
        place.write(name, content);
    }
    // Headers that are small, as each row copies them, with room for eight key slots and more.
    place.sparse("base.img", 8 << 20);
    place.sparse("data.img", 4 << 20);
    let format = format!("luksFormat -q --type luks2 {CHEAP}");
    place.cryptsetup(&format!("{format} --offset 8192 base.img key"));
    place.cryptsetup(&format!("luksAddKey {CHEAP} -d key base.img second"));
    place.cryptsetup(&format!(
        "{format} --luks2-keyslots-size 4063232 --header basehead.img data.img key"
    ));
    place.cryptsetup("token add --key-description base --token-id 0 -S 0 base.img");
    place.cryptsetup("token add --key-description base --token-id 0 -S 0 basehead.img");
    place.cryptsetup("luksHeaderBackup --header-backup-file of-head basehead.img");
    place.cryptsetup("luksDump -q --dump-volume-key -d key --volume-key-file volume-key base.img");
    place.write("token.json", r#"{"type":"mine","keyslots":[],"more":1}"#);
    place
}

/// Runs a row by a program, on copies of the volumes: whether it succeeded, what is there then, and what it said.
fn outcome(place: &Place, program: &str, row: &str) -> (bool, Vec<String>, String) {
    for (from, to) in [("base.img", "disk.img"), ("basehead.img", "head.img")] {
        if row.contains(to) {
            fs::copy(place.path(from), place.path(to)).unwrap();
        }
    }
    for name in ["new.img", "newhead.img", "backup", "exported"] {
        let _ = fs::remove_file(place.path(name));
    }
    place.sparse("new.img", 40 << 20);
    place.sparse("short.img", 4096);
    let (code, said) = code(place, program, &filled(row), "");
    (code == 0, left_behind(place, row), said)
}

#[test]
fn every_option_does_what_it_does_in_cryptsetup() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = volumes();
    let mut differences = Vec::new();
    for row in ROWS {
        let (judge, expected, its) = outcome(&place, "cryptsetup", row);
        let (ours, seen, said) = outcome(&place, "scrim", row);
        if judge != ours || expected != seen {
            let lines: Vec<_> = expected
                .iter()
                .filter(|line| !seen.contains(line))
                .collect();
            let others: Vec<_> = seen
                .iter()
                .filter(|line| !expected.contains(line))
                .collect();
            differences.push(format!(
                "{row}: {judge} {its:?} {lines:?}, and here {ours} {said:?} {others:?}"
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let (_, expected, _) = outcome(
        &place,
        "cryptsetup",
        "luksChangeKey CHEAP -d key disk.img new",
    );
    let (ours, seen, said) = outcome(&place, "scrim", OWN);
    assert!(ours && seen == expected, "{said}");
    let (_, before, _) = outcome(&place, "true", "isLuks disk.img");
    for row in IGNORED {
        assert!(outcome(&place, "cryptsetup", row).0, "{row}");
        let (ours, seen, said) = outcome(&place, "scrim", row);
        assert!(!ours && seen == before, "{row}: {said}");
    }
}

/// Each option of these commands has a row, or is listed as an exception.
#[test]
fn every_option_has_a_row() {
    let place = Place::new();
    for command in COMPARED {
        let help = place.scrim(command.split(' ').chain(["--help"]));
        let options = help.lines().filter_map(|line| {
            let line = line.trim_start();
            let (short, long) = match line.split_once(", --") {
                Some((short, rest)) if short.len() == 2 => (Some(short), rest),
                _ => (None, line.strip_prefix("--")?),
            };
            let end = long.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
            Some((short, format!("--{}", &long[..end.unwrap_or(long.len())])))
        });
        let mut count = 0;
        for (short, long) in options {
            count += 1;
            let of_command = |name: &str| name.is_empty() || name == command;
            let elsewhere = ELSEWHERE.iter().filter(|(name, _)| of_command(name));
            if elsewhere
                .flat_map(|(_, options)| *options)
                .any(|option| *option == long)
            {
                continue;
            }
            let rows = ROWS.iter().chain(IGNORED).chain([&OWN]);
            let mut rows = rows.filter(|row| row.starts_with(&format!("{command} ")));
            let is_there = rows.any(|row| {
                let row = filled(row);
                let mut words = row.split(' ');
                words.any(|word| word == long || Some(word) == short)
            });
            assert!(is_there, "{command} {long} has no row");
        }
        assert!(count > 1, "{command}: {help}");
    }
}
