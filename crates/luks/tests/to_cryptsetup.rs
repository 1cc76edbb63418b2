//! Volumes made here, used by `cryptsetup`: it opens them, shows the same, and changes them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test fails by panicking, and a table of cases is long"
)]

mod common;

use std::fs;
use std::path::Path;

use common::{
    Bench, LUKS1_PAIRS, LUKS2_PAIRS, OTHER, PASSPHRASE, apply, area, attached, detached, edit,
    have_cryptsetup, luks1_spec, luks2_spec, new_keyslot, parse_sound, secret, small_luks2, unlock,
    unlock_any, volume_key,
};
use scrim_crypt::SectorSize;
use scrim_luks::kdf::Hash;
use scrim_luks::{
    Edit, Flag, Formatted, Header, InPlace, LastKey, Layout, NewKeyslot, VolumeKey, dump, luks1,
    luks2,
};
use serde_json::json;

const THIRD: &str = "a third passphrase";

/// Writes a header, has `cryptsetup` open, show and change it, then changes it here once more.
fn check(bench: &Bench, name: &str, formatted: &Formatted, key: &VolumeKey) {
    let path = bench.path(name);
    apply(&formatted.plan, &path);
    let made = &formatted.header;
    let header = parse_sound(&path);
    let kind = format!("luks{}", header.version());
    assert_eq!(dump::json(&header), dump::json(made));
    assert_eq!(
        unlock_any(&header, &path, PASSPHRASE).as_deref(),
        Some(key.expose())
    );

    bench
        .cryptsetup(&format!("isLuks --type {kind} {name}"))
        .unwrap();
    let uuid = bench.cryptsetup(&format!("luksUUID {name}")).unwrap();
    assert_eq!(header.uuid(), uuid.trim());
    let theirs = bench.cryptsetup(&format!("luksDump {name}")).unwrap();
    assert_eq!(dump::text(&header, name), theirs);
    assert_eq!(bench.volume_key(name), key.expose());
    test_passphrase(bench, name, "key").unwrap();
    assert!(test_passphrase(bench, name, "other").is_err());

    let cost = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    bench
        .cryptsetup(&format!("luksAddKey {cost} --key-file key {name} other"))
        .unwrap();
    let mut header = parse_sound(&path);
    assert_eq!(
        unlock_any(&header, &path, OTHER).as_deref(),
        Some(key.expose())
    );

    let new = new_keyslot(hash_of(&header), hash_of(&header));
    let plan = header.add_keyslot(key, &secret(THIRD), &new).unwrap().plan;
    apply(&plan, &path);
    fs::write(bench.path("third"), THIRD).unwrap();
    for key_file in ["key", "other", "third"] {
        test_passphrase(bench, name, key_file).unwrap();
    }
    let read = parse_sound(&path);
    assert_eq!(dump::json(&read), dump::json(&header));
    assert_eq!(
        dump::text(&read, name),
        bench.cryptsetup(&format!("luksDump {name}")).unwrap()
    );
}

fn test_passphrase(bench: &Bench, name: &str, key_file: &str) -> Result<String, String> {
    bench.cryptsetup(&format!(
        "open --test-passphrase --key-file {key_file} {name}"
    ))
}

fn hash_of(header: &Header) -> &str {
    match header {
        Header::Luks1(header) => header.hash_spec(),
        Header::Luks2(_) => "sha256",
    }
}

/// Makes and checks a header on a device of `len` bytes that held something else before.
fn check_luks2(len: u64, key_size: usize, change: impl FnOnce(&mut luks2::FormatSpec)) {
    let bench = Bench::new();
    fill(&bench.image("image", len));
    let key = volume_key(key_size);
    let mut spec = luks2_spec(attached(len));
    change(&mut spec);
    let formatted = luks2::format(&spec, &key, &secret(PASSPHRASE)).unwrap();
    check(&bench, "image", &formatted, &key);
}

fn check_luks1(len: u64, key_size: usize, change: impl FnOnce(&mut luks1::FormatSpec)) {
    let bench = Bench::new();
    fill(&bench.image("image", len));
    let key = volume_key(key_size);
    let mut spec = luks1_spec(attached(len));
    change(&mut spec);
    let formatted = luks1::format(&spec, &key, &secret(PASSPHRASE)).unwrap();
    check(&bench, "image", &formatted, &key);
}

fn fill(path: &Path) {
    let len = usize::try_from(fs::metadata(path).unwrap().len()).unwrap();
    fs::write(path, vec![b'A'; len]).unwrap();
}

#[test]
fn luks2_in_every_pair_of_options() {
    if !have_cryptsetup() {
        return;
    }
    for (key_size, sector, is_detached, kdf, hash) in LUKS2_PAIRS {
        let kdf = if kdf == "pbkdf2" { hash } else { kdf };
        let len = if is_detached { 0 } else { 20 << 20 };
        check_luks2(len, key_size, |spec| {
            spec.sector_size = SectorSize::new(sector).unwrap();
            spec.keyslot = new_keyslot(kdf, hash);
            spec.digest_hash = hash.parse().unwrap();
            if is_detached {
                spec.layout = detached(0);
            }
        });
    }
}

#[test]
fn luks2_with_every_setting() {
    if !have_cryptsetup() {
        return;
    }
    check_luks2(20 << 20, 64, |spec| {
        spec.label = "a label".to_owned();
        spec.subsystem = "été".to_owned();
        spec.uuid = Some("a54ad080-5fb3-4fa7-9003-71601896ab02".to_owned());
        spec.flags = Flag::ALL.to_vec();
        spec.keyslot = new_keyslot("whirlpool", "ripemd160");
        spec.keyslot.slot = Some(31);
        spec.digest_hash = Hash::Sha3_256;
    });
    for size in [32 << 10, 4 << 20] {
        check_luks2(20 << 20, 64, |spec| spec.metadata_size = Some(size));
    }
    check_luks2(2 << 20, 64, |spec| spec.layout.data_offset = Some(1 << 20));
    check_luks2(2 << 20, 32, |spec| spec.keyslots_size = Some(512 << 10));
    check_luks2(2 << 20, 64, |spec| {
        let device_len = 2 << 20;
        spec.layout = Layout {
            device_len,
            grows: false,
            ..detached(0)
        };
    });
}

#[test]
fn luks1_in_every_pair_of_options() {
    if !have_cryptsetup() {
        return;
    }
    for (key_size, is_detached, hash) in LUKS1_PAIRS {
        let len = if is_detached { 0 } else { 3 << 20 };
        check_luks1(len, key_size, |spec| {
            spec.hash = hash.parse().unwrap();
            if is_detached {
                spec.layout = detached(0);
            }
        });
    }
    check_luks1(8 << 20, 64, |spec| {
        spec.slot = Some(6);
        spec.layout.data_offset = Some(4 << 20);
        spec.uuid = Some("a54ad080-5fb3-4fa7-9003-71601896ab02".to_owned());
    });
}

#[test]
fn every_cipher_that_both_have() {
    if !have_cryptsetup() {
        return;
    }
    for (cipher, bytes) in [
        ("aes-cbc-essiv:sha256", 24),
        ("aes-ctr-plain64", 16),
        ("aes-ecb", 32),
        ("aes", 32),
    ] {
        check_luks1(3 << 20, bytes, |spec| spec.cipher = cipher.parse().unwrap());
        check_luks2(20 << 20, bytes, |spec| {
            spec.cipher = cipher.parse().unwrap();
        });
    }
    // With key slots of another cipher, the added ones too.
    for (cipher, bytes) in [("cipher_null-ecb", 32), ("capi:ctr(aes)-plain64", 16)] {
        check_luks2(20 << 20, bytes, |spec| {
            spec.cipher = cipher.parse().unwrap();
        });
    }
}

/// The same sizes, offsets and JSON members as `cryptsetup` chooses by itself.
#[test]
fn the_defaults_are_those_of_cryptsetup() {
    if !have_cryptsetup() {
        return;
    }
    let bench = Bench::new();
    let theirs = bench.image("theirs", 20 << 20);
    let cost = "--pbkdf-force-iterations 4 --pbkdf-memory 32 --pbkdf-parallel 1";
    bench
        .cryptsetup(&format!(
            "luksFormat --type luks2 --key-size 512 --sector-size 512 {cost} --key-file key theirs"
        ))
        .unwrap();
    let key = volume_key(64);
    let ours = luks2::format(&luks2_spec(attached(20 << 20)), &key, &secret(PASSPHRASE)).unwrap();
    let blank = |header: &Header| {
        let mut json = dump::json(header);
        for path in [
            "/epoch",
            "/uuid",
            "/metadata/keyslots/0/kdf/salt",
            "/metadata/digests/0/salt",
            "/metadata/digests/0/digest",
        ] {
            *json.pointer_mut(path).unwrap() = json!(null);
        }
        json.to_string()
    };
    assert_eq!(blank(&ours.header), blank(&parse_sound(&theirs)));

    let theirs = bench.image("theirs1", 20 << 20);
    bench
        .cryptsetup(
            "luksFormat --type luks1 --key-size 512 --pbkdf-force-iterations 1000 --key-file key \
             theirs1",
        )
        .unwrap();
    let ours = luks1::format(&luks1_spec(attached(20 << 20)), &key, &secret(PASSPHRASE)).unwrap();
    let blank = |header: &Header| {
        let mut json = dump::json(header);
        for path in ["/uuid", "/mk_digest", "/mk_digest_salt", "/keyslots/0/salt"] {
            *json.pointer_mut(path).unwrap() = json!(null);
        }
        json.to_string()
    };
    assert_eq!(blank(&ours.header), blank(&parse_sound(&theirs)));
}

/// Members that the crate does not know survive its changes.
#[test]
fn unknown_members_and_tokens_are_kept() {
    let key = volume_key(64);
    let mut image = small_luks2(&key);
    edit(&mut image, |document| {
        document["keyslots"]["0"]["later"] = json!({"a": [1, 2.5, "x", null]});
        document["tokens"]["4"] = json!({"type": "own", "keyslots": ["0"], "z": 1, "a": 2});
        document["config"]["later"] = json!(true);
        document["later"] = json!([]);
    });
    let parsed = Header::parse(&image, image.len() as u64).unwrap();
    let mut header = parsed.header;
    let before = dump::json(&header)["metadata"].clone();
    let new = NewKeyslot {
        slot: Some(9),
        ..new_keyslot("sha256", "sha256")
    };
    let small_area = header.add_keyslot(&key, &secret(OTHER), &new);
    assert!(
        small_area.is_err(),
        "the area has room for one key slot only"
    );
    assert_eq!(dump::json(&header)["metadata"], before);

    edit(&mut image, |document| {
        document["config"]["keyslots_size"] = json!("1048576");
    });
    let mut header = Header::parse(&image, 2 << 20).unwrap().header;
    let _ = header.add_keyslot(&key, &secret(OTHER), &new).unwrap();
    let mut after = dump::json(&header)["metadata"].clone();
    after["keyslots"]
        .as_object_mut()
        .unwrap()
        .remove("9")
        .unwrap();
    after["digests"]["0"]["keyslots"]
        .as_array_mut()
        .unwrap()
        .pop();
    after["config"]["keyslots_size"] = before["config"]["keyslots_size"].clone();
    assert_eq!(after.to_string(), before.to_string());

    let document = |header: &Header| dump::json(header)["metadata"].clone();
    let changed = header.change_keyslot(0, &key, &secret(OTHER), &new_slot(), InPlace::Refuse);
    let _ = changed.unwrap();
    let _ = header.remove_keyslots(&[9], LastKey::Keep).unwrap();
    let edits = [
        Edit::Flags(Flag::ALL.to_vec()),
        Edit::Flags(vec![]),
        Edit::AssignToken { id: 4, slot: 0 },
    ];
    let _ = header.edit(&edits).unwrap();
    let mut after = document(&header);
    after["config"]["keyslots_size"] = before["config"]["keyslots_size"].clone();
    for member in ["area", "kdf"] {
        after["keyslots"]["0"][member] = before["keyslots"]["0"][member].clone();
    }
    assert_eq!(after.to_string(), before.to_string());
}

fn new_slot() -> NewKeyslot {
    new_keyslot("argon2id", "sha256")
}

/// Headers that only a crafted image has: what `cryptsetup` prints for them is printed here.
#[test]
fn rare_members_are_shown_alike() {
    if !have_cryptsetup() {
        return;
    }
    let bench = Bench::new();
    let path = bench.image("image", 20 << 20);
    let key = volume_key(64);
    let spec = luks2_spec(attached(20 << 20));
    let formatted = luks2::format(&spec, &key, &secret(PASSPHRASE)).unwrap();
    apply(&formatted.plan, &path);
    let mut image = fs::read(&path).unwrap();
    edit(&mut image, |document| {
        document["segments"]["0"]["size"] = json!("1048576");
        document["segments"]["0"]["iv_tweak"] = json!("2048");
        document["config"]["flags"] = json!(["allow-discards", "no-read-workqueue"]);
        document["config"]["requirements"] = json!({"mandatory": ["one", "two"]});
    });
    fs::write(&path, &image).unwrap();
    let header = parse_sound(&path);
    assert_eq!(
        dump::text(&header, "image"),
        bench.cryptsetup("luksDump image").unwrap()
    );
    assert!(header.keyslots_to_try(None).is_err());
}

/// `cryptsetup` notices an older copy and takes the newer one, as this crate does; after a repair
/// it has nothing to repair.
#[test]
fn repaired_copies_satisfy_cryptsetup() {
    if !have_cryptsetup() {
        return;
    }
    for bad in 0..2 {
        let bench = Bench::new();
        let path = bench.image("image", 20 << 20);
        let key = volume_key(64);
        let spec = luks2_spec(attached(20 << 20));
        let formatted = luks2::format(&spec, &key, &secret(PASSPHRASE)).unwrap();
        apply(&formatted.plan, &path);
        let mut image = fs::read(&path).unwrap();
        image[bad * common::COPY + 5000] ^= 0x10;
        fs::write(&path, &image).unwrap();
        let parsed = common::parse(&path);
        assert_eq!(parsed.findings.len(), 1);
        apply(&parsed.repair_plan().unwrap().unwrap(), &path);
        let repaired = parse_sound(&path);
        assert_eq!(dump::json(&repaired), dump::json(&formatted.header));
        let copies = area(&path);
        assert_ne!(
            copies[104..168],
            copies[common::COPY + 104..common::COPY + 168],
            "salts"
        );
        bench.cryptsetup("luksDump image").unwrap();
        assert_eq!(area(&path)[..2 * common::COPY], copies[..2 * common::COPY]);
        assert!(unlock(&repaired, 0, &path, PASSPHRASE).is_some());
    }
}
