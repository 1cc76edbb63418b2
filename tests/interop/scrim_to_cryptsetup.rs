//! Volumes that Scrim made, used and changed by `cryptsetup`.

use crate::support::{PYTHON, assert_same, have, noise};
use crate::volume::{CHEAP, Case, Image, LUKS1, LUKS2, PAYLOAD, USUAL};

const TOOLS: [&str; 3] = ["cryptsetup", "nbdcopy", PYTHON];

/// `cryptsetup` knows the volume, shows what was asked for, and changes its key slots.
fn check(case: Case, seed: u64) {
    let image = Image::made_by_scrim(case);
    let place = &image.place;
    let header = image.header();
    let what = format!("{case:?}");

    place.cryptsetup(&format!("isLuks --type luks{} {header}", case.version));
    let uuid = place.cryptsetup(&format!("luksUUID {header}"));
    assert_eq!(uuid, place.scrim(["luksUUID", header]), "{what}");
    assert!(image.cryptsetup_accepts("key"), "{what}");
    assert!(!image.cryptsetup_accepts("other"), "{what}");
    let shown = image.dump();
    for expected in expected_in_dump(case) {
        assert!(
            shown.contains(&expected),
            "{what}: no {expected:?} in {shown}"
        );
    }
    let before = std::fs::read(place.path(header)).unwrap();
    place.cryptsetup(&format!("repair {header}"));
    let after = std::fs::read(place.path(header)).unwrap();
    assert_same(&after, &before, "nothing to repair");

    let payload = image.fill_with_noise(seed);
    assert_same(&image.decrypt_independently(), &payload, &what);
    place.cryptsetup(&format!("luksAddKey {CHEAP} --key-file key {header} other"));
    assert!(image.cryptsetup_accepts("other"), "{what}");
    place.cryptsetup(&format!("luksKillSlot --key-file other {header} 0"));
    assert!(!image.scrim_accepts("key"), "{what}");
    assert_same(&image.read_with("other"), &payload, &what);
}

/// Lines of `luksDump`, with single spaces.
fn expected_in_dump(case: Case) -> Vec<String> {
    let Case {
        key_bits, sector, ..
    } = case;
    let offset = case.default_offset();
    if case.version == 1 {
        vec![
            "Version: 1 Cipher name: aes Cipher mode: xts-plain64 Hash spec: sha256".to_owned(),
            format!("Payload offset: {} MK bits: {key_bits}", offset / 512),
            "Key Slot 0: ENABLED Iterations: 1000".to_owned(),
            "AF stripes: 4000 Key Slot 1: DISABLED".to_owned(),
        ]
    } else {
        let cost = match case.pbkdf {
            "pbkdf2" => "PBKDF: pbkdf2 Hash: sha256 Iterations: 1000".to_owned(),
            argon2 => format!("PBKDF: {argon2} Time cost: 4 Memory: 64 Threads: 1"),
        };
        vec![
            "Version: 2 Epoch:".to_owned(),
            "Metadata area: 16384 [bytes] Keyslots area: 16744448 [bytes]".to_owned(),
            format!("offset: {offset} [bytes] length: (whole device)"),
            format!("cipher: aes-xts-plain64 sector: {sector} [bytes]"),
            format!("0: luks2 Key: {key_bits} bits Priority: normal"),
            cost,
        ]
    }
}

#[test]
fn luks1_is_accepted_and_changed() {
    if have(&TOOLS) {
        for (seed, case) in (1..).zip(LUKS1) {
            check(case, seed);
        }
    }
}

#[test]
fn luks2_is_accepted_and_changed() {
    if have(&TOOLS) {
        for (seed, case) in (1..).zip(LUKS2) {
            check(case, seed);
        }
    }
}

/// Sectors between the usual sizes, other IVs, hashes, offsets and slots.
#[test]
fn rarer_options_are_understood_alike() {
    if !have(&TOOLS) {
        return;
    }
    for (options, sector, iv, start) in [
        (
            "--sector-size 1024 --hash sha512",
            1024,
            "plain64",
            16 << 20,
        ),
        (
            "--sector-size 2048 --cipher aes-xts-plain64be",
            2048,
            "plain64be",
            16 << 20,
        ),
        (
            "--sector-size 512 --offset 8192 -S 7 --label a",
            512,
            "plain64",
            4 << 20,
        ),
        (
            "--type luks1 --cipher aes-xts-plain --hash sha1 -S 7",
            512,
            "plain",
            2 << 20,
        ),
    ] {
        let image = Image::made_by_scrim(USUAL);
        let place = &image.place;
        place.sparse("disk.img", start + PAYLOAD as u64);
        let format = format!("format {options} {CHEAP} -d key disk.img");
        place.scrim(format.split(' '));
        assert!(image.cryptsetup_accepts("key"), "{options}");
        let payload = image.fill_with_noise(4);
        image.dump_volume_key();
        let args = format!("decrypt disk.img {start} 0 {PAYLOAD} {sector} aes-xts-{iv} volume-key");
        let decrypted = place.script("sectors.py", args.split(' '), b"");
        assert_same(&decrypted, &payload, options);
        let shown = place.cryptsetup("luksDump disk.img");
        assert_eq!(place.scrim(["dump", "disk.img"]), shown, "{options}");
    }
}

/// The whole of `cryptsetup`'s tools for headers, on a volume of Scrim's.
#[test]
fn headers_can_be_converted_backed_up_and_reencrypted() {
    if !have(&TOOLS) {
        return;
    }
    let image = Image::made_by_scrim(LUKS1[1]);
    let place = &image.place;
    let payload = image.fill_with_noise(2);
    place.cryptsetup("convert --type luks2 disk.img");
    assert_same(&image.read(), &payload, "converted to LUKS2");
    place.cryptsetup("convert --type luks1 disk.img");
    assert_same(&image.read(), &payload, "converted back");

    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    let payload = image.fill_with_noise(3);
    place.cryptsetup("config --label new --subsystem tests disk.img");
    place.cryptsetup("token add --key-description some:key disk.img");
    place.cryptsetup("luksHeaderBackup disk.img --header-backup-file backup");
    image.reencrypt();
    assert_same(&image.read(), &payload, "reencrypted");
    assert_same(&image.decrypt_independently(), &payload, "reencrypted");
    let shown = place.scrim(["dump", "disk.img"]);
    assert_eq!(shown, place.cryptsetup("luksDump disk.img"));
    assert!(
        shown.contains("new") && shown.contains("luks2-keyring"),
        "{shown}"
    );
}

/// A key with every kind of byte, and one of the largest size.
#[test]
fn keys_are_written_alike() {
    if !have(&TOOLS) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    let all: Vec<u8> = (0..=255).rev().collect();
    let large = noise(8 << 20, 1);
    for (name, key) in [("all", all), ("large", large)] {
        place.write(name, &key);
        let format = format!("format -q {} disk.img --key-file {name}", USUAL.options());
        place.scrim(format.split(' '));
        assert!(image.cryptsetup_accepts(name), "{name}");
        assert!(!image.cryptsetup_accepts("key"));
    }
}
