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
    // What comes behind stays for the next question.
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
        "bench paths --help",
    ] {
        let help = place.scrim(words.split(' '));
        assert!(help.contains("Usage: scrim"), "{words}: {help}");
    }
    let (refused, _) = self::code(&place, "scrim", "close -h", "");
    assert_eq!(refused, 1);
}

/// What an option would say in vain is refused before anything is done.
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
