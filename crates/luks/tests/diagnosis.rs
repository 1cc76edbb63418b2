//! Headers that were overwritten or damaged: what is found, and what a repair makes of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::fs;

use common::cut::{Disk, cuts};
use common::{
    Bench, COPY, Memory, OTHER, PASSPHRASE, attached, detached, have_cryptsetup, image, luks1_spec,
    luks2_spec, new_keyslot, secret, volume_key,
};
use scrim_luks::luks1::Fix;
use scrim_luks::{
    Condition, Consent, Diagnosis, Header, HeaderCopy, HeaderError, NewKeyslot, Signature, luks1,
    luks2,
};

fn diagnose(image: &[u8]) -> Diagnosis {
    Diagnosis::of(image, image.len() as u64)
}

/// Applies the plan of a diagnosis to an image.
fn repaired(image: &[u8], diagnosis: &Diagnosis) -> Vec<u8> {
    let mut memory = Memory(image.to_vec());
    let plan = diagnosis.plan().unwrap().unwrap();
    plan.apply(&mut memory).unwrap();
    memory.0
}

fn opens(image: &[u8], passphrase: &str) -> bool {
    let header = Header::parse(image, image.len() as u64).unwrap().header;
    header.keyslots().iter().any(|slot| {
        let range = slot.material();
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        let material = &image[range];
        header
            .unlock(slot.id, material, &secret(passphrase))
            .is_ok()
    })
}

fn luks2_image() -> Vec<u8> {
    let mut spec = luks2_spec(attached(20 << 20));
    spec.keyslot = new_keyslot("sha256", "sha256");
    let made = luks2::format(&spec, &volume_key(64), &secret(PASSPHRASE)).unwrap();
    let mut image = image(&made.plan);
    image.resize(20 << 20, 0);
    image
}

/// `PASSPHRASE` in slot 0, `OTHER` in slot 6.
fn luks1_image() -> Vec<u8> {
    let key = volume_key(32);
    let made = luks1::format(&luks1_spec(detached(0)), &key, &secret(PASSPHRASE)).unwrap();
    let image = image(&made.plan);
    let new = NewKeyslot {
        slot: Some(6),
        ..new_keyslot("sha256", "sha256")
    };
    let mut header = made.header;
    let added = header.add_keyslot(&key, &secret(OTHER), &new).unwrap();
    let mut memory = Memory(image);
    added.plan.apply(&mut memory).unwrap();
    memory.0
}

/// A partition table or file system at the start leaves the secondary, from which the primary comes
/// back when the user says so.
#[test]
fn an_overwritten_primary_is_recognised_and_comes_back() {
    let good = luks2_image();
    // The version and the last page of swap space, and the end of its first page.
    let mut swap = [0; 3072];
    (swap[0], swap[4]) = (1, 9);
    swap[3062..].copy_from_slice(b"SWAPSPACE2");
    let others: [(Signature, usize, &[u8]); 9] = [
        (Signature::Gpt, 512, b"EFI PART"),
        (Signature::BootSector, 510, b"\x55\xaa"),
        (Signature::Ext, 1080, b"\x53\xef"),
        (Signature::Xfs, 0, b"XFSB"),
        (Signature::Swap, 1024, &swap),
        (Signature::Lvm, 512, b"LABELONE"),
        (Signature::Lvm, 1536, b"LABELONE"),
        (Signature::F2fs, 1024, b"\x10\x20\xf5\xf2"),
        (Signature::Zeros, 0, b""),
    ];
    for (signature, offset, bytes) in others {
        let mut image = good.clone();
        image[..4096].fill(0);
        image[offset..offset + bytes.len()].copy_from_slice(bytes);
        let parsed = Header::parse(&image, image.len() as u64);
        match signature {
            Signature::Zeros => assert!(parsed.is_ok()),
            by => assert_eq!(
                parsed.unwrap_err(),
                HeaderError::Overwritten {
                    copy: HeaderCopy::Primary,
                    by
                }
            ),
        }
        let diagnosis = diagnose(&image);
        assert_eq!(diagnosis.overwritten_by, Some(signature));
        assert!(matches!(diagnosis.condition, Condition::OneCopy(_)));
        assert_eq!(diagnosis.consent(), Consent::Ask);
        assert!(diagnosis.to_string().contains(&signature.to_string()));
        let image = repaired(&image, &diagnosis);
        let after = diagnose(&image);
        assert!(matches!(after.condition, Condition::Sound(_)), "{after}");
        assert!(after.plan().unwrap().is_none());
        assert!(opens(&image, PASSPHRASE));
    }
    assert_eq!(diagnose(&good).overwritten_by, None);
}

/// Finds the signature beside the secondary of a volume whose primary is damaged behind its first sector.
fn diagnose_torn(mut area: Vec<u8>) -> Option<Signature> {
    area[5000] ^= 1;
    diagnose(&area).overwritten_by
}

/// As in cryptsetup, a signature behind the primary counts for the secondary, too; the two bytes of a boot
/// sector count only where the flags of partitions are possible.
#[test]
fn what_else_is_on_the_device_decides_whether_one_copy_is_used() {
    let refused = |image: &[u8]| match Header::parse(image, image.len() as u64) {
        Ok(_) => None,
        Err(HeaderError::Overwritten { copy, by }) => Some((copy, by)),
        Err(error) => panic!("{error}"),
    };
    let mut image = luks2_image();
    image[0x1_0040..0x1_0048].copy_from_slice(b"_BHRfS_M");
    assert_eq!(refused(&image), None);
    image[COPY + 5000] ^= 1;
    let btrfs = (HeaderCopy::Secondary, Signature::Btrfs);
    assert_eq!(refused(&image), Some(btrfs));
    // The words of a label are no signature.
    let fat = [0, 2, 1, 1, 0, 2, 0, 2, 0x40, 0x0b, 0xf0, 9, 0];
    for (at, words, parameters) in [(54, &b"FAT12   "[..], &fat[..]), (32, b"NXSB", &[])] {
        let mut area = luks2_image();
        area[at..at + words.len()].copy_from_slice(words);
        // FAT needs its parameters, too, where LUKS2 has its size and sequence number.
        area[11..11 + parameters.len()].copy_from_slice(parameters);
        assert_eq!(diagnose_torn(area.clone()), None);
        area[..4].fill(0);
        assert!(diagnose_torn(area).is_some());
    }
    assert_eq!(diagnose(&image).consent(), Consent::Ask);

    let mut image = luks2_image();
    image[..4096].fill(0x41);
    image[510..512].copy_from_slice(b"\x55\xaa");
    assert_eq!(refused(&image), None);
    for flag in [446, 462, 478, 494] {
        image[flag] = 0x80;
    }
    let table = (HeaderCopy::Primary, Signature::Mbr);
    assert_eq!(refused(&image), Some(table));
}

#[test]
fn a_torn_copy_is_repaired_unasked_and_two_are_unusable() {
    let mut image = luks2_image();
    image[5000] ^= 1;
    assert_eq!(diagnose(&image).consent(), Consent::NotNeeded);
    image[COPY + 5000] ^= 1;
    let diagnosis = diagnose(&image);
    let Condition::Unusable { error, remains } = &diagnosis.condition else {
        panic!("{diagnosis}");
    };
    assert!(matches!(error, HeaderError::Luks2 { .. }));
    let copies = [
        (HeaderCopy::Primary, 0),
        (HeaderCopy::Secondary, COPY as u64),
    ];
    assert_eq!(remains[..], copies);
    assert!(diagnosis.plan().unwrap().is_none());

    let nothing = diagnose(&[0; 8192]);
    assert!(matches!(
        nothing.condition,
        Condition::Unusable {
            error: HeaderError::NotLuks,
            ..
        }
    ));
    assert_eq!(nothing.overwritten_by, Some(Signature::Zeros));
    assert!(diagnose(&[]).overwritten_by.is_none());
}

#[test]
fn luks1_fields_that_tell_what_they_were_are_put_right() {
    let good = luks1_image();
    let slot = |number: usize| 208 + 48 * number;
    type Case = (fn(&mut [u8], usize), usize, Fix, bool);
    let damage: [Case; 6] = [
        (|image, _| image[..6].fill(0), 0, Fix::Magic, true),
        (
            |image, at| image[at] ^= 0xff,
            slot(6),
            Fix::Marker {
                slot: 6,
                in_use: true,
            },
            true,
        ),
        (
            |image, at| image[at..at + 4].fill(0x11),
            slot(3),
            Fix::Marker {
                slot: 3,
                in_use: false,
            },
            true,
        ),
        (
            |image, at| image[at + 47] = 0,
            slot(6),
            Fix::Stripes {
                slot: 6,
                stripes: 0xf00,
            },
            true,
        ),
        (
            |image, at| image[at + 40..at + 44].fill(0),
            slot(6),
            Fix::Offset {
                slot: 6,
                from: 0,
                to: 8 + 6 * 256,
            },
            true,
        ),
        (
            |image, at| {
                image[at..at + 4].fill(0);
                image[510..512].copy_from_slice(b"\x55\xaa");
            },
            slot(6),
            Fix::BootSignature { slot: 6 },
            false,
        ),
    ];
    for (write, at, fix, other_opens) in damage {
        let mut image = good.clone();
        write(&mut image, at);
        let diagnosis = diagnose(&image);
        let Condition::Luks1Fields { fixes, .. } = &diagnosis.condition else {
            panic!("{fix:?}: {diagnosis}");
        };
        assert!(fixes.contains(&fix), "{fix:?}: {fixes:?}");
        assert_eq!(diagnosis.consent(), Consent::Ask);
        let after = repaired(&image, &diagnosis);
        assert!(opens(&after, PASSPHRASE), "{fix:?}");
        assert_eq!(opens(&after, OTHER), other_opens, "{fix:?}");
        if other_opens {
            assert!(after == good, "{fix:?}");
        }
        // Cut short, it is repaired again.
        let plan = diagnosis.plan().unwrap().unwrap();
        cuts(&image, &plan, Disk::Honest, |cut, _| {
            let again = diagnose(cut);
            let again = match again.condition {
                Condition::Sound(_) => cut.to_vec(),
                _ => repaired(cut, &again),
            };
            assert!(opens(&again, PASSPHRASE), "{fix:?}");
        });
    }
}

#[test]
fn a_luks1_header_that_tells_nothing_is_unusable() {
    let mut image = luks1_image();
    image[108..112].fill(0xff);
    let diagnosis = diagnose(&image);
    assert!(matches!(diagnosis.condition, Condition::Unusable { .. }));
    assert!(diagnosis.to_string().contains("backup"), "{diagnosis}");
}

/// `cryptsetup` accepts the headers that this crate repairs.
#[test]
fn cryptsetup_accepts_what_is_repaired() {
    if !have_cryptsetup() {
        return;
    }
    let bench = Bench::new();
    let path = bench.path("image");
    let mut luks2 = luks2_image();
    luks2[..4096].fill(0x41);
    let mut luks1 = luks1_image();
    luks1[208 + 48 * 6] ^= 0xff;
    luks1[208 + 48 + 47] ^= 0xff;
    for image in [luks2, luks1] {
        let diagnosis = diagnose(&image);
        fs::write(&path, repaired(&image, &diagnosis)).unwrap();
        bench.cryptsetup("luksDump image").unwrap();
        bench
            .cryptsetup("open --test-passphrase --key-file key image")
            .unwrap();
    }
}
