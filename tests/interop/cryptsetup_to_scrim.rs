//! Volumes that `cryptsetup` made and changed, opened by Scrim.

use crate::support::{PYTHON, assert_same, have, noise};
use crate::volume::{CHEAP, Case, Image, LUKS1, LUKS2, PAYLOAD, USUAL};

const TOOLS: [&str; 3] = ["cryptsetup", "nbdcopy", PYTHON];

/// The ciphertext that Scrim writes is what an independent XTS with the dumped key expects, and the
/// other way round.
fn check_payload(case: Case, seed: u64) {
    let image = Image::made_by_cryptsetup(case);
    let what = format!("{case:?}");
    let written = image.fill_with_noise(seed);
    assert_same(&image.decrypt_independently(), &written, &what);
    let encrypted = noise(PAYLOAD, seed + 100);
    image.encrypt_independently(&encrypted);
    assert_same(&image.read(), &encrypted, &what);
    assert!(!image.scrim_accepts("other"), "{what}");
}

#[test]
fn luks1_payloads_are_what_an_independent_xts_says() {
    if have(&TOOLS) {
        for (seed, case) in (1..).zip(LUKS1) {
            check_payload(case, seed);
        }
    }
}

#[test]
fn luks2_payloads_are_what_an_independent_xts_says() {
    if have(&TOOLS) {
        for (seed, case) in (1..).zip(LUKS2) {
            check_payload(case, seed);
        }
    }
}

/// `plain` counts in 32 bits and starts again after 2 TiB; the others do not.
#[test]
fn ivs_hold_beyond_two_tib() {
    if !have(&[&TOOLS[..], &["qemu-io"]].concat()) {
        return;
    }
    const AT: u64 = (2 << 40) - 2048;
    for iv in ["plain", "plain64", "plain64be"] {
        let image = Image::made_by_cryptsetup(USUAL);
        let place = &image.place;
        place.sparse("disk.img", (16 << 20) + (2 << 40) + (1 << 20));
        place.cryptsetup(&format!(
            "luksFormat --sector-size 512 {CHEAP} --cipher aes-xts-{iv} --key-file key disk.img"
        ));
        let uri = image.open_with("key", "large", &[]);
        let (done, said) = place.qemu_io(&uri, &format!("write -P 0x5a {AT} 4096"));
        assert!(done, "{said}");
        place.close("large");
        image.dump_volume_key();
        let args = format!("decrypt disk.img 16777216 {AT} 4096 512 aes-xts-{iv} volume-key");
        let plaintext = place.script("sectors.py", args.split(' '), b"");
        assert_same(&plaintext, &[0x5a; 4096], iv);
    }
}

/// Key slots come and go, and the payload stays.
fn check_a_life(case: Case) {
    let image = Image::made_by_cryptsetup(case);
    let place = &image.place;
    place.write("third", b"with \0 and \n in it");
    let payload = image.fill_with_noise(7);
    let header = image.header();
    let cost = format!("{CHEAP} --key-file");

    place.cryptsetup(&format!(
        "luksAddKey {cost} key --key-slot 5 {header} other"
    ));
    assert_same(&image.read_with("other"), &payload, "a key in slot 5");
    place.cryptsetup(&format!(
        "luksChangeKey {cost} key --key-slot 0 {header} third"
    ));
    assert!(!image.scrim_accepts("key"));
    assert_same(&image.read_with("third"), &payload, "a changed key");
    place.cryptsetup(&format!("luksAddKey {cost} third {header} key"));
    assert!(image.scrim_accepts("key"));
    place.cryptsetup(&format!("luksRemoveKey {header} third"));
    assert!(!image.scrim_accepts("third"));
    place.cryptsetup(&format!("luksKillSlot --key-file key {header} 5"));
    assert!(!image.scrim_accepts("other"));
    assert_same(&image.read(), &payload, "what is left");

    place.cryptsetup(&format!(
        "luksHeaderBackup {header} --header-backup-file backup"
    ));
    place.cryptsetup(&format!("luksErase {header}"));
    let output = place.run_with_input("scrim", ["test-passphrase", header], b"x\n");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    place.cryptsetup(&format!(
        "luksHeaderRestore {header} --header-backup-file backup"
    ));
    assert_same(&image.read(), &payload, "a restored header");
}

#[test]
fn luks1_with_a_life_behind_it() {
    if have(&TOOLS) {
        check_a_life(LUKS1[1]);
    }
}

#[test]
fn luks2_with_a_life_behind_it() {
    if have(&TOOLS) {
        check_a_life(USUAL);
    }
}

#[test]
fn slots_are_tried_by_priority_and_by_number() {
    if !have(&TOOLS) {
        return;
    }
    let image = Image::made_by_cryptsetup(USUAL);
    let place = &image.place;
    for slot in [3, 31] {
        place.cryptsetup(&format!(
            "luksAddKey {CHEAP} --key-file key --key-slot {slot} disk.img other"
        ));
    }
    place.cryptsetup("config --label secret --subsystem tests disk.img");
    place.cryptsetup("config --priority ignore --key-slot 0 disk.img");
    place.cryptsetup("config --priority prefer --key-slot 31 disk.img");
    let test = |words: &str| {
        let args = ["test-passphrase", "disk.img"].into_iter();
        let output = place.run_with_input("scrim", args.chain(words.split(' ')), b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    assert!(test("-d other").1.contains("key slot 31 unlocked"));
    assert!(test("-d other -S 3").1.contains("key slot 3 unlocked"));
    assert!(test("-d key -S 0").1.contains("key slot 0 unlocked"));
    assert_eq!(test("-d key").0, Some(2), "an ignored slot is left alone");
    assert_eq!(test("-d key -S 3").0, Some(2));
    let dump = place.scrim(["dump", "disk.img"]);
    assert_eq!(dump, place.cryptsetup("luksDump disk.img"));
}

/// Passphrases and key files are cut alike.
#[test]
fn keys_are_read_alike() {
    if !have(&TOOLS) {
        return;
    }
    let image = Image::made_by_cryptsetup(USUAL);
    let place = &image.place;
    let long = noise(5000, 3);
    place.write("long", &long);
    let format = format!("luksFormat {} disk.img", USUAL.options());
    place.cryptsetup(&format!(
        "{format} --key-file long --keyfile-offset 11 --keyfile-size 4097"
    ));
    place.write("part", &long[11..11 + 4097]);
    assert!(image.scrim_accepts("part") && !image.scrim_accepts("long"));
    place.scrim("test-passphrase disk.img -d long --keyfile-offset 11 -l 4097".split(' '));

    // A typed passphrase: up to the newline, at most 512 bytes.
    let typed = "ä".repeat(256);
    let lines = format!("{typed}\nnot this");
    let words: Vec<_> = format.split(' ').chain(["--batch-mode"]).collect();
    let made = place.run_with_input("cryptsetup", words, lines.as_bytes());
    assert!(made.status.success(), "{made:?}");
    let test = ["test-passphrase", "disk.img"];
    let opened = place.run_with_input("scrim", test, lines.as_bytes());
    assert!(opened.status.success(), "{opened:?}");
    place.write("typed", &typed);
    assert!(image.scrim_accepts("typed"));
}

#[test]
fn a_header_in_a_file_of_two_mib() {
    if !have(&TOOLS) {
        return;
    }
    for case in [LUKS1[3], LUKS2[1]] {
        let image = Image::made_by_cryptsetup(case);
        let place = &image.place;
        std::fs::remove_file(place.path("head.img")).unwrap();
        place.run("fallocate", ["-l", "2M", "head.img"]);
        let options = case.options();
        place.cryptsetup(&format!("luksFormat {options} --key-file key disk.img"));
        let payload = image.fill_with_noise(5);
        assert_same(&image.decrypt_independently(), &payload, "two MiB");
    }
}

/// A backup of a header is a header, with its data where the header says.
#[test]
fn a_backup_serves_as_a_detached_header() {
    if !have(&TOOLS) {
        return;
    }
    for case in [LUKS1[0], USUAL] {
        let image = Image::made_by_cryptsetup(case);
        let place = &image.place;
        let payload = image.fill_with_noise(6);
        place.cryptsetup("luksHeaderBackup disk.img --header-backup-file backup");
        place.cryptsetup("luksErase disk.img");
        let uri = image.open_with("key", "rescued", &["--header", "backup", "--readonly"]);
        assert_same(&place.copy_out(&uri), &payload, "rescued");
        place.close("rescued");
    }
}

#[test]
fn converted_volumes_keep_their_payload() {
    if !have(&TOOLS) {
        return;
    }
    let image = Image::made_by_cryptsetup(LUKS1[1]);
    let payload = image.fill_with_noise(8);
    image.place.cryptsetup("convert --type luks2 disk.img");
    let image = Image {
        case: Case {
            version: 2,
            ..image.case
        },
        ..image
    };
    assert_same(&image.read(), &payload, "converted to LUKS2");
    assert_same(
        &image.decrypt_independently(),
        &payload,
        "converted to LUKS2",
    );
}

#[test]
fn a_reencrypted_volume_keeps_its_payload() {
    if !have(&TOOLS) {
        return;
    }
    let image = Image::made_by_cryptsetup(USUAL);
    let payload = image.fill_with_noise(9);
    let old_key = image.dump_volume_key();
    if image.reencrypt() {
        assert_ne!(image.dump_volume_key(), old_key);
        assert_same(&image.read(), &payload, "reencrypted");
        assert_same(&image.decrypt_independently(), &payload, "reencrypted");
    }
}

/// A header may ask for what Scrim has not: it is shown, and named when the volume is refused.
#[test]
fn other_ciphers_are_refused_by_name() {
    if !have(&TOOLS) {
        return;
    }
    let image = Image::made_by_cryptsetup(USUAL);
    let place = &image.place;
    for (options, name) in [
        ("--cipher aes-cbc-essiv:md5 --key-size 256", "md5"),
        ("--cipher aes-ctr-eboiv --key-size 256", "eboiv"),
        ("--cipher aes-xts-eboiv --key-size 256", "aes-xts-eboiv"),
        (
            "--type luks1 --cipher aes-ctr-benbi --key-size 128",
            "aes-ctr-benbi",
        ),
    ] {
        place.cryptsetup(&format!(
            "luksFormat {options} {CHEAP} --key-file key disk.img"
        ));
        let shown = place.scrim(["dump", "disk.img"]);
        assert_eq!(shown, place.cryptsetup("luksDump disk.img"), "{options}");
        let args = ["open", "disk.img", "secret", "--key-file", "key"];
        let output = place.run_with_input("scrim", args, b"");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains(name), "{said}");
    }
}

/// A device of no whole number of sectors: what is left over is left alone.
#[test]
fn odd_sizes_are_rounded_down_alike() {
    if !have(&TOOLS) {
        return;
    }
    for extra in [512, 100, 4095] {
        for maker in ["cryptsetup luksFormat", "scrim format"] {
            let image = Image::made_by_cryptsetup(USUAL);
            let place = &image.place;
            let size = (16 << 20) + PAYLOAD + extra;
            place.sparse("disk.img", size as u64);
            place.run(
                "bash",
                ["-c", &format!("{maker} -q {CHEAP} -d key disk.img")],
            );
            assert!(image.dump().contains("sector: 512 [bytes]"), "{maker}");
            assert!(image.cryptsetup_accepts("key"), "{maker}");
            let payload = noise(PAYLOAD + extra / 512 * 512, 1);
            image.fill(&payload);
            assert_same(&image.read(), &payload, "an odd size");
            assert_eq!(
                std::fs::metadata(place.path("disk.img")).unwrap().len(),
                size as u64
            );
        }
    }
}

/// While a volume is between two keys, nobody but `cryptsetup` knows which sector has which.
#[test]
fn a_volume_in_reencryption_is_refused() {
    if !have(&TOOLS) {
        return;
    }
    let image = Image::made_by_cryptsetup(USUAL);
    image.place.cryptsetup(&format!(
        "reencrypt --init-only {CHEAP} --key-file key disk.img"
    ));
    let args = ["open", "disk.img", "secret", "--key-file", "key"];
    let output = image.place.run_with_input("scrim", args, b"");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    for words in ["0 % of it are done", "reencrypt --resume-only disk.img"] {
        assert!(said.contains(words), "{said}");
    }
}
