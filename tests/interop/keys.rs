//! Key slots that Scrim adds, changes and removes, checked by `cryptsetup`; every verb and option that its
//! users know.

use std::process::Output;

use crate::support::{assert_same, have, noise, scrim};
use crate::volume::{CHEAP, Case, Image, LUKS1, LUKS2, OTHER, PASSPHRASE, USUAL};

impl Image {
    /// Runs `scrim` with these words on an empty standard input.
    pub(crate) fn try_scrim(&self, words: &str) -> Output {
        self.try_scrim_with(words, b"")
    }

    pub(crate) fn try_scrim_with(&self, words: &str, input: &[u8]) -> Output {
        let words = words.split_whitespace();
        self.place.run_with_input(scrim(), words, input)
    }

    /// Like `try_scrim`, but demands success and returns the output.
    pub(crate) fn must(&self, words: &str) -> String {
        let output = self.try_scrim(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words}: {said}");
        said
    }

    /// Demands this exit code; returns the message.
    pub(crate) fn fails(&self, words: &str, code: i32) -> String {
        let output = self.try_scrim(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words}: {said}");
        said
    }

    /// Returns whether both programs say the same of a key file.
    #[track_caller]
    pub(crate) fn both_accept(&self, key: &str) -> bool {
        let scrim = self.scrim_accepts(key);
        assert_eq!(scrim, self.cryptsetup_accepts(key), "{key}");
        scrim
    }

    pub(crate) fn header_bytes(&self) -> Vec<u8> {
        std::fs::read(self.place.path(self.header())).unwrap()
    }
}

/// Every command that changes key slots, on a header of either program.
fn check(image: &Image) {
    let header = image.header();
    let payload = image.fill_with_noise(5);
    image.place.write("third", "a third one");
    let said = image.must(&format!("add-key {CHEAP} -d key {header} other"));
    assert_eq!(said, format!("{header}: key slot 1 created\n"));
    image.must(&format!(
        "luksAddKey {CHEAP} -d other {header} --new-keyfile third -S 5"
    ));
    for key in ["key", "other", "third"] {
        assert!(image.both_accept(key), "{key}");
    }
    image.must(&format!("luksRemoveKey {header} third"));
    assert!(!image.both_accept("third"));
    image.must(&format!(
        "luksChangeKey -y --force-password {CHEAP} -d other {header} third"
    ));
    assert!(!image.both_accept("other") && image.both_accept("third"));
    let cost = "--pbkdf pbkdf2 --pbkdf-force-iterations 1234";
    image.must(&format!("luksConvertKey {cost} -d third {header}"));
    assert!(
        image.dump().contains("Iterations: 1234"),
        "{}",
        image.dump()
    );
    assert!(image.both_accept("third"));
    image.must(&format!("luksKillSlot -d third {header} 0"));
    assert!(!image.both_accept("key") && image.both_accept("third"));
    assert_same(&image.read_with("third"), &payload, "the payload");
    // And back in cryptsetup's hands.
    image
        .place
        .cryptsetup(&format!("luksAddKey {CHEAP} --key-file third {header} key"));
    assert!(image.both_accept("key"));
}

#[test]
fn key_slots_of_scrim_s_headers_are_changed() {
    if have(&["cryptsetup", "nbdcopy"]) {
        for case in [LUKS1[1], LUKS1[2], LUKS2[0], LUKS2[1], USUAL] {
            check(&Image::in_memory_by_scrim(case));
        }
    }
}

#[test]
fn key_slots_of_cryptsetup_s_headers_are_changed() {
    if have(&["cryptsetup", "nbdcopy"]) {
        for case in [LUKS1[0], LUKS1[3], LUKS2[2], LUKS2[5]] {
            check(&Image::in_memory_by_cryptsetup(case));
        }
    }
}

/// cryptsetup shows the parameters with which a key slot was made.
#[test]
fn key_slots_have_the_cost_and_cipher_that_were_asked_for() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let image = Image::in_memory_by_scrim(USUAL);
    for (options, expected) in [
        (
            "--pbkdf argon2i --pbkdf-force-iterations 5 --pbkdf-memory 96 --pbkdf-parallel 2",
            "PBKDF: argon2i Time cost: 5 Memory: 96 Threads: 2",
        ),
        (
            "--pbkdf pbkdf2 --pbkdf-force-iterations 1001 --hash sha512",
            "PBKDF: pbkdf2 Hash: sha512 Iterations: 1001",
        ),
        (
            "--pbkdf pbkdf2 --pbkdf-force-iterations 1000 --keyslot-cipher aes-cbc-essiv:sha256 \
             --keyslot-key-size 256",
            "Cipher: aes-cbc-essiv:sha256 Cipher key: 256 bits",
        ),
    ] {
        image.must(&format!("add-key {options} -d key disk.img other"));
        assert!(image.dump().contains(expected), "{}", image.dump());
        assert!(image.both_accept("other"), "{options}");
        image.must("remove-key disk.img other");
    }
    let half = "--keyslot-cipher aes-cbc-essiv:sha256";
    image.fails(&format!("add-key {half} -d key disk.img other"), 1);
}

/// A key is added with the volume key instead of a passphrase; an unbound key slot has a key of its own.
#[test]
fn volume_keys_and_unbound_keys_come_from_files() {
    if !have(&["cryptsetup"]) {
        return;
    }
    for case in [LUKS1[0], USUAL] {
        let image = Image::in_memory_by_cryptsetup(case);
        image.dump_volume_key();
        image.must(&format!(
            "add-key {CHEAP} --volume-key-file volume-key disk.img other"
        ));
        assert!(image.both_accept("other"));
        image
            .place
            .write("wrong-key", noise(case.key_bits as usize / 8, 1));
        let wrong = format!("add-key {CHEAP} --volume-key-file wrong-key disk.img other");
        assert!(image.fails(&wrong, 2).contains("not this volume's key"));
        let short = format!("add-key {CHEAP} --volume-key-file key disk.img other");
        assert!(image.fails(&short, 1).contains("--key-size"));
    }
    let image = Image::in_memory_by_scrim(USUAL);
    let (place, add) = (
        &image.place,
        format!("add-key {CHEAP} --unbound --key-size 128"),
    );
    image.must(&format!("{add} -S 4 disk.img other"));
    let dump = image.dump();
    assert!(dump.contains("4: luks2 (unbound) Key: 128 bits"), "{dump}");
    assert!(!image.scrim_accepts("other"), "it does not open the volume");
    let theirs = "luksDump --unbound --key-slot";
    place.cryptsetup(&format!(
        "{theirs} 4 --key-file other --volume-key-file unbound-key disk.img"
    ));
    image.must(&format!(
        "{add} -S 6 --volume-key-file unbound-key disk.img key"
    ));
    place.cryptsetup(&format!(
        "{theirs} 6 --key-file key --volume-key-file again disk.img"
    ));
    let read = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert_eq!(read("unbound-key"), read("again"));
    place.write("third", "a third one");
    image.must(&format!("change-key {CHEAP} -S 4 -d other disk.img third"));
    place.cryptsetup(&format!("{theirs} 4 --key-file third disk.img"));
    image.must("kill-slot -d key disk.img 4");
    image.must("kill-slot -d key disk.img 6");
    assert!(image.both_accept("key"));
    let without = format!("add-key {CHEAP} --unbound disk.img other");
    assert!(image.fails(&without, 1).contains("--key-size"));
}

/// Each passphrase is one line of standard input, as cryptsetup reads it.
#[test]
fn both_passphrases_come_from_standard_input() {
    let image = Image::in_memory_by_scrim(LUKS1[0]);
    let both = format!("{PASSPHRASE}\n{OTHER}\n");
    let output = image.try_scrim_with(&format!("add-key {CHEAP} disk.img"), both.as_bytes());
    assert!(output.status.success(), "{output:?}");
    assert!(image.scrim_accepts("key") && image.scrim_accepts("other"));
    let change = format!("change-key {CHEAP} -d other disk.img -");
    let output = image.try_scrim_with(&change, b"with a\nnewline");
    assert!(output.status.success(), "{output:?}");
    image.place.write("third", "with a\nnewline");
    assert!(image.scrim_accepts("third") && !image.scrim_accepts("other"));
    let remove = image.try_scrim_with("remove-key disk.img", PASSPHRASE.as_bytes());
    assert!(remove.status.success(), "{remove:?}");
    assert!(!image.scrim_accepts("key") && image.scrim_accepts("third"));
}

/// None of these refused commands changes a byte.
#[test]
fn what_is_refused_leaves_the_header_alone() {
    for case in [LUKS1[1], USUAL] {
        let image = Image::in_memory_by_scrim(case);
        let before = image.header_bytes();
        for (line, code, said) in [
            ("add-key -d other disk.img key", 2, "no key available"),
            (
                "add-key -d key disk.img other -S 0",
                1,
                "key slot 0 is in use",
            ),
            (
                "add-key -d key disk.img other -S 40",
                1,
                "there is no key slot 40",
            ),
            ("add-key -d - disk.img -", 1, "standard input"),
            ("add-key -d key disk.img missing", 1, "missing"),
            ("add-key -d key disk.img /dev/null", 2, "empty"),
            ("add-key -d key disk.img other --hash none", 1, "--hash"),
            (
                "change-key -d key disk.img other -S 3",
                1,
                "key slot 3 is not in use",
            ),
            ("change-key -d other disk.img key -S 0", 2, "key slot 0"),
            ("convert-key -d other disk.img", 2, "no key available"),
            ("remove-key disk.img other", 2, "no key available"),
            ("remove-key disk.img key", 5, "all data would be lost"),
            ("kill-slot disk.img 0 -d key", 5, "all data would be lost"),
            ("kill-slot disk.img 1 -d key", 1, "key slot 1 is not in use"),
            ("erase disk.img", 5, "all data would be lost"),
            ("add-key -d key key other", 1, "no LUKS header"),
            ("add-key -d key missing other", 4, "missing"),
        ] {
            let line = line
                .replace("-key ", &format!("-key {CHEAP} "))
                .replace(&format!("remove-key {CHEAP}"), "remove-key");
            let shown = image.fails(&line, code);
            assert!(shown.contains(said), "{line}: {shown}");
            assert_same(&image.header_bytes(), &before, &line);
        }
        for (cost, least) in [
            ("--pbkdf pbkdf2 --pbkdf-force-iterations 999", 1000),
            ("--pbkdf argon2id --pbkdf-force-iterations 3", 4),
            ("--pbkdf argon2id --pbkdf-memory 31", 32),
        ] {
            let shown = image.fails(&format!("add-key -d key {cost} disk.img other"), 1);
            let said = format!("at least {least}");
            assert!(shown.contains(&said) || shown.contains("LUKS1"), "{shown}");
            assert_same(&image.header_bytes(), &before, cost);
        }
    }
}

/// An unbound key may be longer than any that Scrim makes.
#[test]
fn a_long_unbound_key_of_cryptsetup_s_is_in_nobody_s_way() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let image = Image::in_memory_by_scrim(USUAL);
    image.place.write("third", "third");
    let add = format!("luksAddKey {CHEAP} --unbound -s 16384 -S 1 disk.img other");
    image.place.cryptsetup(&add);
    assert!(image.scrim_accepts("key"));
    image.must(&format!("change-key {CHEAP} -S 1 -d other disk.img third"));
    image.place.cryptsetup(
        "luksDump --unbound -S 1 --key-file third --volume-key-file unbound disk.img -q",
    );
    let key = std::fs::metadata(image.place.path("unbound")).unwrap();
    assert_eq!(key.len(), 2048);
    image.must("kill-slot -d key disk.img 1");
    assert!(image.both_accept("key"));
}

/// A change that would write past the end of the truncated header is refused before anything is written,
/// and so is the erasure of key slots that lie there.
#[test]
fn a_truncated_header_is_left_alone_until_it_is_whole() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let image = Image::in_memory_by_scrim(LUKS2[4]);
    let head = image.place.path(image.header());
    let file = std::fs::File::options().write(true).open(head).unwrap();
    file.set_len(200_000).unwrap();
    let before = image.header_bytes();
    let change = format!("add-key {CHEAP} -d key head.img other");
    for line in [&*change, "erase -q head.img"] {
        let said = image.fails(line, 1);
        assert!(said.contains("the device is too small"), "{said}");
        let judge = format!("luks{}", if line == change { "AddKey" } else { "Erase" });
        let judge = image.place.run_with_input(
            "cryptsetup",
            [&*judge, "-q", "head.img"],
            format!("{PASSPHRASE}\n").as_bytes(),
        );
        assert_eq!(judge.status.code(), Some(1), "{judge:?}");
        assert_same(&image.header_bytes(), &before, "refused");
    }
    // As long as it was, what is left of its keys can be erased.
    file.set_len(16 << 20).unwrap();
    image.must("erase -q head.img");
    let refused = image.fails("test-passphrase -d key head.img", 1);
    assert!(refused.contains("no key slot is left"), "{refused}");
}

/// As documented for cryptsetup: without a passphrase, without a question.
#[test]
fn batch_mode_removes_the_last_key_too() {
    if !have(&["cryptsetup"]) {
        return;
    }
    for (case, line) in [
        (LUKS1[1], "kill-slot -q disk.img 0"),
        (USUAL, "kill-slot -q disk.img 0"),
        (LUKS1[1], "remove-key -q disk.img key"),
        (USUAL, "erase -q disk.img"),
        (LUKS1[1], "luksErase --batch-mode disk.img"),
    ] {
        let image = Image::in_memory_by_scrim(case);
        let material = slots_area(&image);
        image.must(line);
        assert_ne!(
            material,
            slots_area(&image),
            "{line}: the area is overwritten"
        );
        let dump = image.dump();
        assert!(
            !dump.contains("ENABLED") && !dump.contains("0: luks2"),
            "{dump}"
        );
        let refused = image.fails("test-passphrase -d key disk.img", 1);
        assert!(refused.contains("no key slot is left"), "{refused}");
        let words = ["open", "--test-passphrase", "-d", "key", "disk.img"];
        let theirs = image.place.run_with_input("cryptsetup", words, b"");
        assert_eq!(theirs.status.code(), Some(1), "{line}: {theirs:?}");
    }
    let image = Image::in_memory_by_scrim(USUAL);
    let wrong = image.try_scrim_with("kill-slot -q disk.img 0", b"wrong\n");
    assert_eq!(
        wrong.status.code(),
        Some(2),
        "a passphrase that is there must fit"
    );
    assert!(image.scrim_accepts("key"));
}

/// Keys of a volume in reencryption can be erased: a user who erases it does not mean to finish that.
#[test]
fn keys_of_a_half_reencrypted_volume_are_erased_but_not_changed() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let image = Image::in_memory_by_scrim(USUAL);
    image.place.cryptsetup(&format!(
        "reencrypt --init-only -q {CHEAP} --key-file key disk.img"
    ));
    let add = format!("add-key {CHEAP} -d key disk.img other");
    assert!(image.fails(&add, 4).contains("online-reencrypt"));
    assert!(
        image
            .fails("kill-slot -q disk.img 0", 4)
            .contains("online-reencrypt")
    );
    let material = slots_area(&image);
    image.must("erase -q disk.img");
    assert_ne!(material, slots_area(&image));
    let dump = image.dump();
    assert!(
        dump.contains("reencrypt (unbound)") && !dump.contains(": luks2"),
        "{dump}"
    );
}

/// Some of the key material of slot 0.
fn slots_area(image: &Image) -> Vec<u8> {
    let at = if image.case.version == 1 { 4096 } else { 32768 };
    image.header_bytes()[at..at + 65536].to_vec()
}

/// A LUKS1 header with every slot in use has no room beside a slot.
#[test]
fn a_full_header_is_only_overwritten_in_place_when_that_is_confirmed() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let image = Image::in_memory_by_scrim(LUKS1[0]);
    for slot in 1..8 {
        image
            .place
            .write(&format!("key{slot}"), format!("passphrase {slot}"));
        image.must(&format!("add-key {CHEAP} -d key disk.img key{slot}"));
    }
    let full = image.fails(&format!("add-key {CHEAP} -d key disk.img other"), 1);
    assert!(full.contains("every key slot is in use"), "{full}");
    let change = format!("change-key {CHEAP} -d key3 disk.img other");
    let refused = image.fails(&change, 5);
    assert!(refused.contains("overwritten where it lies"), "{refused}");
    assert!(image.both_accept("key3"));
    image.must(&format!("{change} -q"));
    assert!(!image.both_accept("key3") && image.both_accept("other"));
}

/// While Scrim serves the volume, and while cryptsetup works on the header too.
#[test]
fn keys_are_changed_while_the_volume_is_open() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    for case in [LUKS1[1], LUKS2[1], USUAL] {
        let image = Image::in_memory_by_scrim(case);
        let header = image.header();
        let uri = image.open_with("key", "secret", &[]);
        let payload = noise(crate::volume::PAYLOAD, 9);
        image.place.copy_in(&payload, &uri);
        image.must(&format!("add-key {CHEAP} -d key {header} other"));
        image.must(&format!("remove-key {header} key"));
        assert_same(&image.place.copy_out(&uri), &payload, "still served");
        image.place.close("secret");
        assert!(!image.both_accept("key"));
        assert_same(&image.read_with("other"), &payload, "opened anew");
    }
}

/// Twenty processes of both programs at once: each waits for its turn.
#[test]
fn changes_at_the_same_time_are_all_made_or_refused() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let image = Image::in_memory_by_scrim(Case {
        pbkdf: "pbkdf2",
        ..USUAL
    });
    let keys: Vec<u8> = (1..=12).collect();
    for key in &keys {
        image
            .place
            .write(&format!("key{key}"), format!("passphrase {key}"));
    }
    let changes: Vec<_> = keys
        .iter()
        .map(|key| {
            let program = if key % 3 == 0 { "cryptsetup" } else { scrim() };
            let line = format!("luksAddKey -q {CHEAP} -d key disk.img key{key} -S {key}");
            let mut command = image.place.command(program);
            command.args(line.split(' ')).spawn().unwrap()
        })
        .collect();
    let made: Vec<bool> = changes
        .into_iter()
        .map(|change| change.wait_with_output().unwrap().status.success())
        .collect();
    for (key, made) in keys.iter().zip(made) {
        if key % 3 != 0 {
            assert_eq!(
                image.both_accept(&format!("key{key}")),
                made,
                "key slot {key}"
            );
        }
    }
    assert!(image.both_accept("key"));
    image.must("repair disk.img");
}
