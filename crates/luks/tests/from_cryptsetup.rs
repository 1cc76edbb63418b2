//! Volumes that `cryptsetup` made, read here: headers, volume keys and dumps agree.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test fails by panicking, and a table of cases is long"
)]

mod common;

use std::fs;

use common::{
    Bench, LUKS1_PAIRS, LUKS2_PAIRS, OTHER, PASSPHRASE, have_cryptsetup, parse, parse_sound,
    unlock, unlock_any,
};
use scrim_luks::kdf::Hash;
use scrim_luks::{Header, KeyslotKind, Placement, Priority, UnlockError, Unsupported, dump};
use serde_json::Value;

const ARGON2: &str = "--pbkdf-force-iterations 4 --pbkdf-memory 32 --pbkdf-parallel 1";
const PBKDF2: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
const LUKS1: &str = "--type luks1 --pbkdf-force-iterations 1000";

/// Formats an image and compares everything: both passphrases, the volume key, the dumps.
fn check(options: &str, detached: bool) {
    let bench = Bench::new();
    let data = bench.image("data", 20 << 20);
    let (name, header_path) = if detached {
        bench
            .cryptsetup(&format!(
                "luksFormat {options} --key-file key --header header data"
            ))
            .unwrap();
        ("header", bench.path("header"))
    } else {
        bench
            .cryptsetup(&format!("luksFormat {options} --key-file key data"))
            .unwrap();
        ("data", data)
    };
    let header = parse_sound(&header_path);
    let key = unlock_any(&header, &header_path, PASSPHRASE).expect(options);
    assert_eq!(key, bench.volume_key(name), "{options}");
    assert!(unlock_any(&header, &header_path, OTHER).is_none());

    let segment = header.data_segment().unwrap();
    assert_eq!(segment.key_size, Some(key.len()));
    let placement = if detached {
        Placement::Detached
    } else {
        Placement::Attached
    };
    let extent = segment.extent(placement, 20 << 20).unwrap();
    assert_eq!(extent.end, 20 << 20);
    if detached {
        assert_eq!(extent.start, 0);
        let attached = segment.extent(Placement::Attached, 20 << 20);
        assert!(attached.is_err());
    }

    let theirs = bench.cryptsetup(&format!("luksDump {name}")).unwrap();
    assert_eq!(dump::text(&header, name), theirs, "{options}");
    let uuid = bench.cryptsetup(&format!("luksUUID {name}")).unwrap();
    assert_eq!(header.uuid(), uuid.trim());
    check_json(&bench, &header, name);
}

fn check_json(bench: &Bench, header: &Header, name: &str) {
    let json = dump::json(header);
    assert_eq!(json["version"], header.version());
    assert_eq!(json["uuid"], header.uuid().raw());
    if header.version() == 2 {
        let theirs = bench
            .cryptsetup(&format!("luksDump --dump-json-metadata {name}"))
            .unwrap();
        let theirs: Value = serde_json::from_str(&theirs).unwrap();
        assert_eq!(json["metadata"], theirs);
        // Order too.
        assert_eq!(json["metadata"].to_string(), theirs.to_string());
    }
}

#[test]
fn luks2_in_every_pair_of_options() {
    if !have_cryptsetup() {
        return;
    }
    for (key_size, sector, detached, kdf, hash) in LUKS2_PAIRS {
        let kdf = match kdf {
            "pbkdf2" => PBKDF2.to_owned(),
            argon2 => format!("--pbkdf {argon2} {ARGON2}"),
        };
        let key_bits = 8 * key_size;
        let options = format!(
            "--type luks2 --key-size {key_bits} --sector-size {sector} {kdf} --hash {hash}"
        );
        check(&options, detached);
    }
}

#[test]
fn luks1_in_every_pair_of_options() {
    if !have_cryptsetup() {
        return;
    }
    for (key_size, detached, hash) in LUKS1_PAIRS {
        let key_bits = 8 * key_size;
        check(
            &format!("{LUKS1} --key-size {key_bits} --hash {hash}"),
            detached,
        );
    }
}

/// Which hashes `cryptsetup` has depends on the library it was built with.
#[test]
fn every_hash_that_both_have() {
    if !have_cryptsetup() {
        return;
    }
    let mut checked = 0;
    for hash in Hash::ALL {
        // A small header: most of the time goes into making its key slots area.
        let options = format!("--type luks2 {PBKDF2} --offset 2048 --hash {hash}");
        let bench = Bench::new();
        bench.image("data", 2 << 20);
        match bench.cryptsetup(&format!("luksFormat {options} --key-file key data")) {
            Err(error) if error.contains("not supported") => println!("not in cryptsetup: {hash}"),
            Err(error) => panic!("{error}"),
            Ok(_) => {
                let path = bench.path("data");
                let key = unlock_any(&parse_sound(&path), &path, PASSPHRASE);
                assert_eq!(key, Some(bench.volume_key("data")), "{hash}");
                checked += 1;
            }
        }
    }
    assert!(checked > 5, "{checked}");
}

#[test]
fn every_cipher_that_both_have() {
    if !have_cryptsetup() {
        return;
    }
    for (cipher, bits) in [
        ("aes-xts-plain", 256),
        ("aes-xts-plain64be", 512),
        ("aes-xts-essiv:sha256", 256),
        ("aes-cbc-null", 128),
        ("aes-cbc-benbi", 192),
        ("aes-cbc-eboiv", 256),
        ("aes-cbc-essiv:sha256", 192),
        ("aes-ctr-plain64", 192),
        ("aes-ecb", 192),
        ("aes-plain", 256),
    ] {
        let options = format!("--cipher {cipher} --key-size {bits}");
        check(
            &format!("--type luks1 --pbkdf-force-iterations 1000 {options}"),
            false,
        );
        check(&format!("--type luks2 {PBKDF2} {options}"), false);
    }
}

#[test]
fn other_sizes_and_offsets() {
    if !have_cryptsetup() {
        return;
    }
    for size in ["32k", "1m", "4m"] {
        check(
            &format!("--type luks2 {ARGON2} --luks2-metadata-size {size}"),
            false,
        );
    }
    check(
        &format!("--type luks2 {ARGON2} --luks2-keyslots-size 512k"),
        false,
    );
    check(&format!("--type luks2 {ARGON2} --offset 2048"), false);
    check(
        "--type luks1 --pbkdf-force-iterations 1000 --offset 8192",
        false,
    );
    check(
        "--type luks1 --pbkdf-force-iterations 1000 --key-slot 7",
        false,
    );
    check(&format!("--type luks2 {ARGON2} --key-slot 31"), false);
}

#[test]
fn a_detached_header_in_a_file_of_two_mib() {
    if !have_cryptsetup() {
        return;
    }
    for options in [
        format!("--type luks2 {ARGON2}"),
        "--type luks1 --pbkdf-force-iterations 1000".to_owned(),
    ] {
        let bench = Bench::new();
        bench.image("data", 8 << 20);
        let path = bench.image("header", 2 << 20);
        bench
            .cryptsetup(&format!(
                "luksFormat {options} --key-file key --header header data"
            ))
            .unwrap();
        let header = parse_sound(&path);
        assert_eq!(
            unlock_any(&header, &path, PASSPHRASE),
            Some(bench.volume_key("header"))
        );
    }
}

/// Key slots of every kind, tokens, priorities, labels.
#[test]
fn a_header_with_a_life_behind_it() {
    if !have_cryptsetup() {
        return;
    }
    let bench = Bench::new();
    let path = bench.image("data", 20 << 20);
    let key = "--key-file key";
    bench
        .cryptsetup(&format!(
            "luksFormat --type luks2 {ARGON2} {key} --label l --subsystem s data"
        ))
        .unwrap();
    for step in [
        format!("luksAddKey {ARGON2} {key} data other"),
        format!("luksAddKey {ARGON2} {key} --unbound --key-slot 5 --key-size 256 data other"),
        format!("luksAddKey {PBKDF2} {key} --hash sha512 --key-slot 3 data other"),
        "config --priority prefer --key-slot 1 data".to_owned(),
        "config --priority ignore --key-slot 3 data".to_owned(),
        "token add --key-description some:key --key-slot 1 data".to_owned(),
    ] {
        bench.cryptsetup(&step).unwrap();
    }
    let token = r#"{"type":"own","keyslots":["0","1"],"x":1.5,"deep":{"a":[1,{"b":null}]}}"#;
    fs::write(bench.path("token"), token).unwrap();
    bench
        .cryptsetup("token import --json-file token data")
        .unwrap();

    let header = parse_sound(&path);
    assert_eq!(
        dump::text(&header, "data"),
        bench.cryptsetup("luksDump data").unwrap()
    );
    check_json(&bench, &header, "data");
    let texts = [header.label(), header.subsystem()].map(Option::unwrap);
    assert_eq!(texts, ["l", "s"]);
    assert_eq!(header.tokens()[1].json.by_ref().raw()["deep"]["a"][0], 1);

    let ids: Vec<_> = header
        .keyslots()
        .iter()
        .map(|slot| (slot.id, slot.priority))
        .collect();
    assert_eq!(
        ids,
        [
            (0, Priority::Normal),
            (1, Priority::Prefer),
            (3, Priority::Ignore),
            (5, Priority::Normal)
        ]
    );
    assert_eq!(header.keyslots_to_try(None).unwrap(), [1, 0]);
    assert_eq!(header.keyslots_to_try(Some(3)).unwrap(), [3]);
    let unbound = header.keyslots_to_try(Some(5));
    assert!(matches!(
        unbound,
        Err(UnlockError::UnboundKeyslot { slot: 5 })
    ));
    let unused = header.keyslots_to_try(Some(2));
    assert!(matches!(
        unused,
        Err(UnlockError::UnusedKeyslot { slot: 2 })
    ));

    let volume_key = bench.volume_key("data");
    assert_eq!(
        unlock(&header, 0, &path, PASSPHRASE).as_ref(),
        Some(&volume_key)
    );
    assert_eq!(unlock(&header, 1, &path, OTHER).as_ref(), Some(&volume_key));
    assert_eq!(unlock(&header, 3, &path, OTHER).as_ref(), Some(&volume_key));
    assert_eq!(unlock(&header, 0, &path, OTHER), None);
}

#[test]
fn a_luks1_header_with_a_life_behind_it() {
    if !have_cryptsetup() {
        return;
    }
    let bench = Bench::new();
    let path = bench.image("data", 4 << 20);
    let cost = "--pbkdf-force-iterations 1000 --key-file key";
    bench
        .cryptsetup(&format!("luksFormat --type luks1 {cost} data"))
        .unwrap();
    bench
        .cryptsetup(&format!("luksAddKey {cost} --key-slot 6 data other"))
        .unwrap();
    bench
        .cryptsetup(&format!("luksAddKey {cost} data other"))
        .unwrap();
    bench
        .cryptsetup("luksKillSlot --key-file key data 1")
        .unwrap();
    let header = parse_sound(&path);
    assert_eq!(
        dump::text(&header, "data"),
        bench.cryptsetup("luksDump data").unwrap()
    );
    assert_eq!(header.keyslots_to_try(None).unwrap(), [0, 6]);
    let volume_key = bench.volume_key("data");
    assert_eq!(unlock(&header, 6, &path, OTHER), Some(volume_key));

    bench.cryptsetup("convert --type luks2 data").unwrap();
    let header = parse_sound(&path);
    assert_eq!(header.version(), 2);
    assert_eq!(
        dump::text(&header, "data"),
        bench.cryptsetup("luksDump data").unwrap()
    );
    assert_eq!(
        unlock(&header, 6, &path, OTHER),
        Some(bench.volume_key("data"))
    );
}

#[test]
fn a_volume_in_reencryption_is_shown_but_not_opened() {
    if !have_cryptsetup() {
        return;
    }
    for resilience in ["checksum", "journal", "none"] {
        let bench = Bench::new();
        let path = bench.image("data", 20 << 20);
        bench
            .cryptsetup(&format!(
                "luksFormat --type luks2 {ARGON2} --key-file key data"
            ))
            .unwrap();
        bench
            .cryptsetup(&format!(
                "reencrypt --init-only --resilience {resilience} {ARGON2} --key-file key data"
            ))
            .unwrap();
        let header = parse(&path).header;
        assert_eq!(
            dump::text(&header, "data"),
            bench.cryptsetup("luksDump data").unwrap()
        );
        let kinds = header.keyslots().iter().map(|slot| &slot.kind);
        assert!(
            kinds
                .into_iter()
                .any(|kind| matches!(kind, KeyslotKind::Other(_)))
        );
        let refused = header.data_segment().unwrap_err();
        assert!(matches!(refused, Unsupported::Requirement(_)));
        assert!(
            refused.to_string().contains("reencrypt --resume-only"),
            "{refused}"
        );
        assert!(matches!(
            header.keyslots_to_try(None),
            Err(UnlockError::Unsupported(_))
        ));
    }
}
