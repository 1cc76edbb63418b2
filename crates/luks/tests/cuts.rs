//! A power cut at every write of every header operation: afterwards the header is read, and either
//! every old or every new passphrase opens the volume.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::cell::RefCell;
use std::collections::HashMap;

use common::cut::{Disk, cuts};
use common::{Memory, detached, image, luks1_spec, luks2_spec, new_keyslot, secret, volume_key};
use scrim_luks::kdf::Hash;
use scrim_luks::{
    Edit, Flag, Header, HeaderError, InPlace, KeyslotError, LastKey, NewDigest, NewKeyslot,
    Placement, Plan, Priority, RestoreNote, Token, VolumeKey, luks1, luks2,
};

const A: &str = "a, in slot 0";
const B: &str = "b, in slot 1";
const C: &str = "c, a new one";

/// Opens slots, and remembers what it has tried: most cuts change little.
#[derive(Default)]
struct Opener(RefCell<HashMap<String, bool>>);

impl Opener {
    fn opens(&self, header: &Header, image: &[u8], passphrase: &str) -> bool {
        header.keyslots().iter().any(|slot| {
            let range = slot.material();
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            let Some(material) = image.get(range) else {
                return false;
            };
            let digests = header.digests();
            let content = fingerprint(material);
            let tried = format!("{passphrase} {slot:?} {digests:?} {content}");
            if let Some(known) = self.0.borrow().get(&tried) {
                return *known;
            }
            let key = header.unlock(slot.id, material, &secret(passphrase));
            self.0.borrow_mut().insert(tried, key.is_ok());
            key.is_ok()
        })
    }
}

/// Tells one content from another, faster than a hash would.
fn fingerprint(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).filter_map(|word| word.first_chunk());
    words.fold(0, |sum: u64, word| {
        let mixed = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed.rotate_left(29)
    })
}

/// Passphrases of an operation. After a cut all of `old` or all of `new` open; after the whole operation all
/// of `new` and none of `gone`.
struct Keys {
    old: &'static [&'static str],
    new: &'static [&'static str],
    gone: &'static [&'static str],
}

const STAY: Keys = Keys {
    old: &[A, B],
    new: &[A, B],
    gone: &[C],
};
const ADDED: Keys = Keys {
    old: &[A, B],
    new: &[A, B, C],
    gone: &[],
};
const CHANGED: Keys = Keys {
    old: &[A, B],
    new: &[C, B],
    gone: &[A],
};

/// Checks whether every cut leaves the old keys or the new ones.
fn survives(before: &[u8], plan: &Plan, keys: &Keys, disk: Disk) -> Result<(), String> {
    let opener = Opener::default();
    let mut outcome = Ok(());
    cuts(before, plan, disk, |image, cut| {
        if outcome.is_err() {
            return;
        }
        outcome = Header::parse(image, image.len() as u64)
            .map_err(|error| error.to_string())
            .and_then(|parsed| {
                let all = |set: &[&str]| {
                    let mut set = set.iter();
                    set.all(|passphrase| opener.opens(&parsed.header, image, passphrase))
                };
                let any = |set: &[&str]| {
                    let mut set = set.iter();
                    set.any(|passphrase| opener.opens(&parsed.header, image, passphrase))
                };
                match cut {
                    Some(_) if all(keys.old) || all(keys.new) => Ok(()),
                    None if all(keys.new) && !any(keys.gone) => Ok(()),
                    _ => Err("neither the old nor the new keys open".to_owned()),
                }
            })
            .map_err(|error| format!("{cut:?}: {error}"));
    });
    outcome
}

fn check(name: &str, before: &[u8], plan: &Plan, keys: &Keys) {
    if let Err(error) = survives(before, plan, keys, Disk::Honest) {
        panic!("{name}: {error}");
    }
}

fn header(image: &[u8]) -> Header {
    Header::parse(image, image.len() as u64).unwrap().header
}

fn after(before: &[u8], plan: &Plan) -> Vec<u8> {
    let mut memory = Memory(before.to_vec());
    plan.apply(&mut memory).unwrap();
    memory.0
}

fn new_slot(slot: Option<u8>) -> NewKeyslot {
    NewKeyslot {
        slot,
        ..new_keyslot("sha256", "sha256")
    }
}

/// A header with `A` in slot 0 and `B` in slot 1.
fn two_keys(mut image: Vec<u8>, key: &VolumeKey) -> Vec<u8> {
    let plan = header(&image)
        .add_keyslot(key, &secret(B), &new_slot(None))
        .unwrap()
        .plan;
    image = after(&image, &plan);
    image
}

/// A header with room for `slots` key slots.
fn luks2_image(key: &VolumeKey, slots: u64) -> Vec<u8> {
    let mut spec = luks2_spec(detached(0));
    spec.keyslots_size = Some(slots * (128 << 10));
    spec.keyslot = new_slot(None);
    let made = luks2::format(&spec, key, &secret(A)).unwrap();
    let mut image = image(&made.plan);
    let len = usize::try_from(made.header.header_end()).unwrap();
    image.resize(image.len().max(len), 0);
    two_keys(image, key)
}

fn luks1_image(key: &VolumeKey) -> Vec<u8> {
    let spec = luks1_spec(detached(0));
    two_keys(
        image(&luks1::format(&spec, key, &secret(A)).unwrap().plan),
        key,
    )
}

#[test]
fn key_slots_of_both_versions() {
    let key = volume_key(32);
    for before in [luks1_image(&key), luks2_image(&key, 6)] {
        let version = header(&before).version();
        let check = |name: &str, plan: &Plan, keys: &Keys| {
            check(&format!("LUKS{version} {name}"), &before, plan, keys);
        };
        for slot in [None, Some(6)] {
            let added = header(&before)
                .add_keyslot(&key, &secret(C), &new_slot(slot))
                .unwrap();
            check("add", &added.plan, &ADDED);
        }
        for slot in [None, Some(0), Some(5), Some(6)] {
            let changed = header(&before)
                .change_keyslot(0, &key, &secret(C), &new_slot(slot), InPlace::Refuse)
                .unwrap();
            assert!(!changed.in_place);
            let expected = slot.unwrap_or(if version == 1 { 2 } else { 0 });
            assert_eq!(changed.slot, expected);
            check("change", &changed.plan, &CHANGED);
        }
        let removed = header(&before)
            .remove_keyslots(&[1], LastKey::Keep)
            .unwrap();
        let keys = Keys {
            old: &[A, B],
            new: &[A],
            gone: &[B],
        };
        check("remove", &removed, &keys);
        let none = Keys {
            old: &[A, B],
            new: &[],
            gone: &[A, B],
        };
        check("erase", &header(&before).erase().unwrap(), &none);
        check(
            "wipe unused areas",
            &header(&before).wipe_unused_areas(),
            &STAY,
        );
    }
}

#[test]
fn every_slot_of_luks1_can_be_torn() {
    let key = volume_key(16);
    let mut full = luks1_image_of(&key);
    for slot in 1..8 {
        let added = header(&full)
            .add_keyslot(
                &key,
                &secret(if slot == 1 { B } else { C }),
                &new_slot(Some(slot)),
            )
            .unwrap();
        full = after(&full, &added.plan);
    }
    let refused =
        header(&full).change_keyslot(0, &key, &secret(C), &new_slot(None), InPlace::Refuse);
    assert!(matches!(
        refused,
        Err(KeyslotError::InPlaceOnly { slot: 0 })
    ));
    let changed = header(&full)
        .change_keyslot(0, &key, &secret(C), &new_slot(None), InPlace::Allow)
        .unwrap();
    assert!(changed.in_place && changed.slot == 0);
    // The key in the slot is at risk, the others are not.
    let others = Keys {
        old: &[B],
        new: &[B, C],
        gone: &[A],
    };
    check("LUKS1 change in place", &full, &changed.plan, &others);
    for slot in 2..8 {
        let removed = header(&full)
            .remove_keyslots(&[slot], LastKey::Keep)
            .unwrap();
        check("LUKS1 remove", &full, &removed, &Keys { gone: &[], ..STAY });
    }
}

fn luks1_image_of(key: &VolumeKey) -> Vec<u8> {
    let mut spec = luks1_spec(detached(0));
    spec.cipher = "aes-cbc-essiv:sha256".parse().unwrap();
    image(&luks1::format(&spec, key, &secret(A)).unwrap().plan)
}

#[test]
fn luks2_without_room_is_overwritten_in_place_only_if_allowed() {
    let key = volume_key(32);
    let before = luks2_image(&key, 2);
    let full = header(&before).add_keyslot(&key, &secret(C), &new_slot(None));
    assert!(matches!(full, Err(KeyslotError::NoRoom { .. })));
    let refused =
        header(&before).change_keyslot(0, &key, &secret(C), &new_slot(None), InPlace::Refuse);
    assert!(matches!(
        refused,
        Err(KeyslotError::InPlaceOnly { slot: 0 })
    ));
    let changed = header(&before)
        .change_keyslot(0, &key, &secret(C), &new_slot(None), InPlace::Allow)
        .unwrap();
    assert!(changed.in_place);
    let others = Keys {
        old: &[B],
        new: &[B, C],
        gone: &[A],
    };
    check("LUKS2 change in place", &before, &changed.plan, &others);
}

#[test]
fn everything_else_that_luks2_can_change() {
    let key = volume_key(32);
    let before = luks2_image(&key, 6);
    let edits = [
        Edit::Uuid(None),
        Edit::Label("a label".to_owned()),
        Edit::Flags(Flag::ALL.to_vec()),
        Edit::Priority {
            slot: 1,
            priority: Priority::Prefer,
        },
        Edit::AddToken {
            id: 3,
            token: Token::keyring("a key", &[0, 1]),
        },
    ];
    for edit in &edits {
        let plan = header(&before).edit(std::slice::from_ref(edit)).unwrap();
        check(&format!("{edit:?}"), &before, &plan, &STAY);
    }
    let plan = header(&before).edit(&edits).unwrap();
    check("all edits", &before, &plan, &STAY);

    let digest = NewDigest {
        hash: Hash::Sha256,
        iterations: 1000,
    };
    let unbound = header(&before)
        .add_unbound_keyslot(&volume_key(16), &secret(C), &new_slot(None), digest)
        .unwrap();
    check("add unbound", &before, &unbound.plan, &STAY);
    let luks1 = luks1_image(&key);
    let plan = header(&luks1).edit(&edits[..1]).unwrap();
    check("LUKS1 UUID", &luks1, &plan, &STAY);
}

/// An operation on a header of which one copy is damaged or older keeps the better one until the
/// new one is durable.
#[test]
fn the_only_good_copy_is_never_the_first_to_go() {
    let key = volume_key(32);
    let good = luks2_image(&key, 6);
    for copy in 0..2 {
        let mut damaged = good.clone();
        damaged[copy * common::COPY + 5000] ^= 1;
        let mut older = after(&good, &header(&good).edit(&[Edit::Uuid(None)]).unwrap());
        let stale = copy * common::COPY..(copy + 1) * common::COPY;
        older[stale.clone()].copy_from_slice(&good[stale]);
        for before in [damaged, older] {
            let changed = header(&before)
                .change_keyslot(0, &key, &secret(C), &new_slot(None), InPlace::Refuse)
                .unwrap();
            check("change with one copy", &before, &changed.plan, &CHANGED);
            let parsed = Header::parse(&before, before.len() as u64).unwrap();
            let repair = parsed.repair_plan().unwrap().unwrap();
            check("repair", &before, &repair, &STAY);
        }
    }
}

#[test]
fn a_restored_header_is_the_old_or_the_restored_one() {
    let key = volume_key(32);
    for saved in [luks1_image(&key), luks2_image(&key, 6)] {
        let backup = header(&saved).backup(saved.clone()).unwrap();
        // `A` becomes `C`; in LUKS2 twice, so that it comes to lie where `A` was.
        let mut before = saved.clone();
        let mut slot = 0;
        for passphrase in ["meanwhile", C] {
            let changed = header(&before)
                .change_keyslot(
                    slot,
                    &key,
                    &secret(passphrase),
                    &new_slot(None),
                    InPlace::Refuse,
                )
                .unwrap();
            before = after(&before, &changed.plan);
            slot = changed.slot;
            if header(&before).version() == 1 {
                before = luks1_with_c(&saved, &key);
                break;
            }
        }
        let len = before.len() as u64;
        let restore = backup.restore(&before, len, Placement::Detached).unwrap();
        let at_risk = |note: &RestoreNote| matches!(note, RestoreNote::AtRisk { .. });
        assert!(!restore.notes.iter().any(at_risk), "{:?}", restore.notes);
        let keys = Keys {
            old: &[C, B],
            new: &[A, B],
            gone: &[C],
        };
        check("restore", &before, &restore.plan, &keys);
    }
}

/// Where there is no room beside, the note names the key that a cut may lose, and no other is lost.
#[test]
fn what_a_restoration_puts_at_risk_is_named() {
    let key = volume_key(32);
    for saved in [luks1_image(&key), luks2_image(&key, 2)] {
        let backup = header(&saved).backup(saved.clone()).unwrap();
        let changed = header(&saved)
            .change_keyslot(0, &key, &secret(C), &new_slot(Some(0)), InPlace::Allow)
            .unwrap();
        let before = after(&saved, &changed.plan);
        let len = before.len() as u64;
        let restore = backup.restore(&before, len, Placement::Detached).unwrap();
        let at_risk = RestoreNote::AtRisk { slots: vec![0] };
        assert!(restore.notes.contains(&at_risk), "{:?}", restore.notes);
        let keys = Keys {
            old: &[B],
            new: &[A, B],
            gone: &[C],
        };
        check("restore at risk", &before, &restore.plan, &keys);
    }
}

/// Where there is no header, or one of another layout, a cut leaves the old one, the restored one or
/// none.
#[test]
fn a_restoration_from_nothing_or_another_layout() {
    let key = volume_key(32);
    let luks1 = luks1_image(&key);
    let converted = header(&luks1)
        .convert_to_luks2(&luks1, luks1.len() as u64)
        .unwrap();
    let luks2 = after(&luks1, &converted.plan);
    let nothing = vec![0x41; luks2.len()];
    for (saved, before) in [
        (&luks1, &luks2),
        (&luks2, &luks1),
        (&luks1, &nothing),
        (&luks2, &nothing),
    ] {
        let len = saved.len().max(before.len()) as u64;
        let backup_len = usize::try_from(header(saved).backup_len()).unwrap();
        let mut bytes = saved.clone();
        bytes.resize(backup_len, 0);
        let backup = header(saved).backup(bytes).unwrap();
        let restore = backup.restore(before, len, Placement::Detached).unwrap();
        let opener = Opener::default();
        cuts(
            before,
            &restore.plan,
            Disk::Honest,
            |image, cut| match Header::parse(image, len) {
                Ok(parsed) => {
                    assert!(opener.opens(&parsed.header, image, A), "{cut:?}");
                    assert!(opener.opens(&parsed.header, image, B), "{cut:?}");
                }
                Err(error) => assert!(cut.is_some(), "{error}"),
            },
        );
    }
}

/// A header that is made leaves the old one, the new one or none.
#[test]
fn a_new_header_is_whole_or_none() {
    let (old_key, new_key) = (volume_key(32), volume_key(32));
    let device_len = 320 << 10;
    let mut spec = luks2_spec(detached(device_len));
    spec.keyslots_size = Some(256 << 10);
    spec.keyslot = new_slot(None);
    let luks1_spec = luks1_spec(detached(device_len));
    for old in [luks1_image(&old_key), luks2_image(&old_key, 2)] {
        let luks2 = luks2::format(&spec, &new_key, &secret(C)).unwrap();
        let luks1 = luks1::format(&luks1_spec, &new_key, &secret(C)).unwrap();
        for plan in [luks2.plan, luks1.plan] {
            let opener = Opener::default();
            let (mut old_seen, mut none_seen) = (0, 0);
            cuts(&old, &plan, Disk::Honest, |image, cut| match Header::parse(
                image,
                image.len() as u64,
            ) {
                Ok(parsed) if opener.opens(&parsed.header, image, C) => {
                    assert!(!opener.opens(&parsed.header, image, A));
                }
                Ok(parsed) => {
                    assert!(cut.is_some());
                    assert!(opener.opens(&parsed.header, image, A), "{cut:?}");
                    old_seen += 1;
                }
                Err(error) => {
                    assert!(cut.is_some());
                    assert_eq!(error, HeaderError::NotLuks);
                    none_seen += 1;
                }
            });
            assert!(old_seen > 0 && none_seen > 0, "{old_seen} {none_seen}");
        }
    }
}

fn luks1_with_c(saved: &[u8], key: &VolumeKey) -> Vec<u8> {
    let changed = header(saved)
        .change_keyslot(0, key, &secret(C), &new_slot(None), InPlace::Refuse)
        .unwrap();
    after(saved, &changed.plan)
}

#[test]
fn a_converted_header_is_the_old_or_the_converted_one() {
    let key = volume_key(32);
    let luks1 = luks1_image(&key);
    let mut freed = luks1.clone();
    // With slot 0 in the way, which goes to a gap or a free slot; and with nothing in the way.
    let removed = header(&freed).remove_keyslots(&[0], LastKey::Keep).unwrap();
    freed = after(&freed, &removed);
    let only_b = Keys {
        old: &[B],
        new: &[B],
        gone: &[A, C],
    };
    for (before, keys) in [(&luks1, &STAY), (&freed, &only_b)] {
        for device_len in [2 << 20, before.len()] {
            let mut before = before.clone();
            before.resize(device_len, 0);
            let converted = header(&before)
                .convert_to_luks2(&before, device_len as u64)
                .unwrap();
            check("to LUKS2", &before, &converted.plan, keys);
            let luks2 = after(&before, &converted.plan);
            assert_eq!(header(&luks2).version(), 2);
            let back = header(&luks2).convert_to_luks1().unwrap();
            check("to LUKS1", &luks2, &back.plan, keys);
            let luks1 = after(&luks2, &back.plan);
            assert_eq!(header(&luks1).version(), 1);
        }
    }
}

/// The simulation notices a disk that drops what was not synced: without syncs, changing a key
/// loses both.
#[test]
fn a_plan_without_syncs_is_caught() {
    let key = volume_key(32);
    for before in [luks1_image(&key), luks2_image(&key, 6)] {
        let changed = header(&before)
            .change_keyslot(0, &key, &secret(C), &new_slot(None), InPlace::Refuse)
            .unwrap();
        let lying = survives(&before, &changed.plan, &CHANGED, Disk::IgnoresSync);
        assert!(lying.is_err(), "LUKS{}", header(&before).version());
    }
}
