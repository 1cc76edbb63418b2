//! Broken media and crashes: flipped bits, missing tails, writes that did not happen.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test fails by panicking, and a table of cases is long"
)]

mod common;

use common::{
    COPY, Memory, OTHER, PASSPHRASE, detached, document, image, luks1_spec, luks2_spec, secret,
    set_checksum, set_json, small_luks2, volume_key,
};
use scrim_luks::{
    Consent, CopyFault, Finding, Header, HeaderCopy, HeaderError, Parsed, Placement, Repair,
    VolumeKey, dump, luks1, luks2, probe,
};
use scrim_seeded::Random;
use serde_json::{Value, json};

fn parse(image: &[u8]) -> Result<Parsed, HeaderError> {
    Header::parse(image, image.len() as u64)
}

/// Returns whether the first slot opens.
fn opens(header: &Header, image: &[u8], passphrase: &str) -> bool {
    header.keyslots().iter().any(|slot| {
        let range = slot.material();
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        let Some(material) = image.get(range) else {
            return false;
        };
        header
            .unlock(slot.id, material, &secret(passphrase))
            .is_ok()
    })
}

fn small_luks1(key: &VolumeKey) -> Vec<u8> {
    let spec = luks1_spec(detached(0));
    image(&luks1::format(&spec, key, &secret(PASSPHRASE)).unwrap().plan)
}

/// Whatever still parses must not panic anywhere, nor show control characters.
fn use_everything(parsed: &Parsed) {
    let header = &parsed.header;
    let text = dump::text(header, "x");
    assert!(
        !text
            .chars()
            .any(|c| c.is_control() && c != '\n' && c != '\t')
    );
    let _ = dump::json(header).to_string();
    for finding in &parsed.findings {
        let _ = finding.to_string();
    }
    if let Ok(segment) = header.data_segment() {
        for len in [0, 3, 1 << 20, u64::MAX] {
            for placement in [Placement::Attached, Placement::Detached] {
                let _ = segment.extent(placement, len);
            }
        }
    }
    for slot in header.keyslots_to_try(None).unwrap_or_default() {
        assert!(header.unlock(slot, &[], &secret("x")).is_err());
    }
    let _ = parsed.repair_plan().map(|plan| plan.map(|plan| plan.end()));
}

/// The other copy serves, unchanged, whichever bit of one flips. (That each flip is noticed is
/// tested beside the checksum, for every bit; here it is every bit of the first 300 bytes, then a
/// sample.)
#[test]
fn a_flipped_bit_in_one_copy_costs_nothing() {
    let good = small_luks2(&volume_key(64));
    let expected = dump::json(&parse(&good).unwrap().header);
    let sample = (0..300 * 8)
        .step_by(3)
        .chain((300 * 8..COPY * 8).step_by(997));
    for bit in sample {
        for (start, copy) in [(0, HeaderCopy::Primary), (COPY, HeaderCopy::Secondary)] {
            let mut image = good[..2 * COPY].to_vec();
            image[start + bit / 8] ^= 1 << (bit % 8);
            let parsed = Header::parse(&image, 1 << 20).unwrap();
            let [Finding::DamagedCopy { copy: found, .. }] = &parsed.findings[..] else {
                panic!("{bit}: {:?}", parsed.findings);
            };
            assert_eq!(*found, copy, "{bit}");
            assert_eq!(dump::json(&parsed.header), expected);
            assert_eq!(parsed.repair.map(|repair| repair.copy), Some(copy));
        }
    }
}

/// LUKS1 has no checksum: a flip is refused, or changes what is shown, or makes the passphrase
/// wrong; or it lies in what nobody reads, behind the NUL of a text or in a free slot.
#[test]
fn a_flipped_bit_in_luks1_never_panics() {
    let good = small_luks1(&volume_key(64));
    let expected = dump::json(&parse(&good).unwrap().header);
    let mut image = good.clone();
    let (mut refused, mut changed) = (0, 0);
    for bit in 0..8 * 592 {
        image[bit / 8] ^= 1 << (bit % 8);
        match parse(&image) {
            Ok(parsed) => {
                use_everything(&parsed);
                changed += usize::from(dump::json(&parsed.header) != expected);
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
        image[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(
        refused > 700 && changed > 1000,
        "{refused} refused, {changed} changed"
    );
}

#[test]
fn a_header_cut_anywhere_is_refused_or_whole() {
    let good = small_luks2(&volume_key(64));
    for len in (0..2 * COPY)
        .step_by(7)
        .chain([4095, 4096, 4097, COPY - 1, COPY, COPY + 1])
    {
        match Header::parse(&good[..len], good.len() as u64) {
            Ok(parsed) => {
                assert!(len >= COPY, "{len}");
                let expected = Some(Repair {
                    copy: HeaderCopy::Secondary,
                    consent: Consent::Ask,
                    overwritten_by: None,
                });
                assert_eq!(parsed.repair, expected);
                use_everything(&parsed);
            }
            Err(error) => assert!(len < COPY, "{len}: {error}"),
        }
    }
    for len in 2 * COPY..2 * COPY + 10 {
        let parsed = Header::parse(&good[..len], good.len() as u64).unwrap();
        assert!(parsed.repair.is_none());
    }
}

fn set_seqid(image: &mut [u8], copy: usize, seqid: u64) {
    let whole = &mut image[copy * COPY..(copy + 1) * COPY];
    whole[16..24].copy_from_slice(&seqid.to_be_bytes());
    set_checksum(whole);
}

#[test]
fn the_newer_copy_is_taken_and_the_older_one_reported() {
    let good = small_luks2(&volume_key(64));
    for (newer, older) in [(0, HeaderCopy::Secondary), (1, HeaderCopy::Primary)] {
        let mut image = good.clone();
        let mut changed = document(&image);
        changed["config"]["flags"] = json!(["allow-discards"]);
        set_json(&mut image, newer, changed.to_string().as_bytes());
        set_seqid(&mut image, newer, 7);
        let parsed = parse(&image).unwrap();
        let expected = Finding::OlderCopy {
            copy: older,
            seqid: 1,
            newer: 7,
        };
        assert_eq!(parsed.findings, [expected]);
        assert_eq!(
            parsed.repair,
            Some(Repair {
                copy: older,
                consent: Consent::NotNeeded,
                overwritten_by: None,
            })
        );
        assert_eq!(parsed.header.flags().len(), 1);

        // The repair makes both alike.
        let mut memory = Memory(image);
        parsed
            .repair_plan()
            .unwrap()
            .unwrap()
            .apply(&mut memory)
            .unwrap();
        let repaired = parse(&memory.0).unwrap();
        assert!(repaired.findings.is_empty() && repaired.repair.is_none());
        assert_eq!(dump::json(&repaired.header), dump::json(&parsed.header));
    }
}

/// A partition table lies partly where the primary has its checksum: that is no torn copy.
#[test]
fn a_partition_table_is_not_overwritten_unasked() {
    let mut image = small_luks2(&volume_key(64));
    image[446..510].fill(7);
    image[510..512].copy_from_slice(b"\x55\xaa");
    let parsed = parse(&image).unwrap();
    let damaged = Finding::DamagedCopy {
        copy: HeaderCopy::Primary,
        fault: CopyFault::Checksum,
    };
    assert_eq!(parsed.findings, [damaged]);
    assert_eq!(
        parsed.repair.map(|repair| repair.consent),
        Some(Consent::Ask)
    );
}

#[test]
fn copies_that_contradict_each_other_are_reported() {
    let mut image = small_luks2(&volume_key(64));
    let mut changed = document(&image);
    changed["config"]["flags"] = json!(["allow-discards"]);
    set_json(&mut image, 1, changed.to_string().as_bytes());
    let parsed = parse(&image).unwrap();
    assert_eq!(parsed.findings, [Finding::CopiesDiffer { seqid: 1 }]);
    assert!(parsed.header.flags().is_empty());
    let secondary = HeaderCopy::Secondary;
    assert_eq!(
        parsed.repair,
        Some(Repair {
            copy: secondary,
            consent: Consent::Ask,
            overwritten_by: None,
        })
    );
}

/// A wiped primary, as `mkfs` or `dd` leaves it: the secondary is found at each of its places, and
/// nothing is written there without asking.
#[test]
fn the_secondary_is_found_without_a_primary() {
    let key = volume_key(64);
    for shift in 0..9 {
        let mut spec = luks2_spec(detached(0));
        spec.metadata_size = Some(0x4000 << shift);
        spec.keyslots_size = Some(256 << 10);
        let made = luks2::format(&spec, &key, &secret(PASSPHRASE)).unwrap();
        let mut image = image(&made.plan);
        let size = 0x4000usize << shift;
        assert_eq!(probe(&image), Some(2));
        image[..size.min(64 << 10)].fill(0xf6);
        // Others that only look like one.
        for decoy in (0..shift)
            .map(|shift| 0x4000usize << shift)
            .filter(|at| at + 8 <= size)
        {
            image[decoy..decoy + 6].copy_from_slice(b"SKUL\xba\xbe");
        }
        assert_eq!(probe(&image), Some(2));
        let parsed = parse(&image).unwrap();
        assert_eq!(dump::json(&parsed.header), dump::json(&made.header));
        let primary = HeaderCopy::Primary;
        let expected = Finding::DamagedCopy {
            copy: primary,
            fault: CopyFault::Magic,
        };
        assert_eq!(parsed.findings, [expected]);
        assert_eq!(
            parsed.repair,
            Some(Repair {
                copy: primary,
                consent: Consent::Ask,
                overwritten_by: None,
            })
        );
        assert!(opens(&parsed.header, &image, PASSPHRASE));
    }
}

#[test]
fn what_is_no_header_is_not_taken_for_one() {
    assert_eq!(probe(b""), None);
    assert_eq!(probe(b"LUKS\xba\xbe"), None);
    assert_eq!(probe(b"LUKS\xba\xbe\0\x03"), Some(3));
    assert_eq!(probe(&[0; 8 << 20]), None);
}

/// Key material of an earlier header is gone when a new header is there.
#[test]
fn old_key_material_is_gone() {
    let old = small_luks2(&volume_key(64));
    let key = volume_key(64);
    let mut spec = luks1_spec(detached(0));
    spec.layout.device_len = old.len() as u64;
    let plan = luks1::format(&spec, &key, &secret(OTHER)).unwrap().plan;
    let mut memory = Memory(old.clone());
    plan.apply(&mut memory).unwrap();
    let kept = old.chunks(512).zip(memory.0.chunks(512)).enumerate();
    for (sector, (old, new)) in kept.skip(2).filter(|(_, (old, _))| old[0..8] != [0; 8]) {
        assert_ne!(old, new, "sector {sector}");
    }
}

/// A header of a million mutations is refused or used, never more.
#[test]
fn mutated_json_never_panics() {
    let good = small_luks2(&volume_key(64));
    let mut random = Random::new(2);
    let base = document(&good);
    let (mut parsed, mut refused) = (0, 0);
    let mut image = good[..2 * COPY].to_vec();
    for _ in 0..3000 {
        let mut mutated = base.clone();
        for _ in 0..=random.index(3) {
            mutate(&mut mutated, &mut random);
        }
        let mut json = mutated.to_string().into_bytes();
        if random.index(4) == 0 {
            let at = random.index(json.len());
            json[at] = b"{}[]\",:0-e\\\0\xff"[random.index(13)];
        }
        json.truncate(COPY - 4096);
        set_json(&mut image, 0, &json);
        match Header::parse(&image, random.next() >> random.index(64)) {
            Ok(found) => {
                use_everything(&found);
                let from_primary = found.repair.is_none_or(|r| r.copy == HeaderCopy::Secondary);
                parsed += usize::from(from_primary);
                refused += usize::from(!from_primary);
            }
            Err(HeaderError::DeviceTooSmall { need, have }) => assert!(need > have),
            Err(error) => panic!("the secondary is whole: {error}"),
        }
    }
    assert!(
        parsed > 100 && refused > 1000,
        "{parsed} parsed, {refused} refused"
    );
}

/// Replaces, removes, repeats or moves something somewhere in the document.
fn mutate(value: &mut Value, random: &mut Random) {
    let children = match value {
        Value::Object(object) => object.len(),
        Value::Array(array) => array.len(),
        _ => 0,
    };
    if children == 0 || random.index(6) == 0 {
        *value = odd_value(random);
        return;
    }
    let child = random.index(children);
    match value {
        Value::Object(object) => {
            let name = object.keys().nth(child).unwrap().clone();
            match random.index(8) {
                0 => drop(object.remove(&name)),
                1 => {
                    let copy = object[&name].clone();
                    let names = ["1", "7", "31", "32", "x", "type", "size", "offset"];
                    object.insert(names[random.index(8)].to_owned(), copy);
                }
                _ => mutate(&mut object[&name], random),
            }
        }
        Value::Array(array) => mutate(&mut array[child], random),
        _ => {}
    }
}

fn odd_value(random: &mut Random) -> Value {
    match random.index(16) {
        0 => json!(null),
        1 => json!(random.next()),
        2 => json!(random.next().to_string()),
        3 => json!((random.next() >> random.index(64)).to_string()),
        4 => json!(random.next() >> random.index(64)),
        5 => json!(-1),
        6 => json!("dynamic"),
        7 => json!({}),
        8 => json!([]),
        9 => json!(["0", "1"]),
        10 => json!("\u{1b}[2J\u{7f}\u{85}"),
        11 => json!("A".repeat(random.index(200))),
        12 => json!(0.5),
        13 => json!("pbkdf2"),
        14 => json!("512"),
        _ => json!({"0": {"0": [[], {}]}}),
    }
}
