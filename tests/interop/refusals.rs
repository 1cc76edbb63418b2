//! Devices that cryptsetup refuses although a copy of a LUKS2 header is whole: Scrim refuses them too, in every
//! command, and `repair` is the way back.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::support::{Place, have};
use crate::volume::CHEAP;

/// Bytes of the image: a header of the usual size, and a MiB of data.
const SIZE: u64 = 17 << 20;
/// Where LUKS2 has its key slots end by default.
const HEADER_END: u64 = 16 << 20;

/// Name of a kind of damage, and the bytes that are written over a volume, each with its offset.
type Damage = (&'static str, Vec<(u64, Vec<u8>)>);

/// CRC-32 as LVM2 has it: reversed polynomial, its own start, and no inversion at the end.
fn lvm_crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0xf597_a6cf, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc: u32, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// CRC-32 as GPT has it.
fn gpt_crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc: u32, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// The first sectors of a physical volume of LVM2: its label is in the second.
fn lvm() -> Vec<u8> {
    let mut start = vec![0; 4096];
    let label = &mut start[512..1024];
    label[..8].copy_from_slice(b"LABELONE");
    label[8..16].copy_from_slice(&1u64.to_le_bytes());
    label[20..24].copy_from_slice(&32u32.to_le_bytes());
    label[24..32].copy_from_slice(b"LVM2 001");
    label[32..64].copy_from_slice(b"0123456789abcdefghijklmnopqrstuv");
    let crc = lvm_crc(&label[20..]);
    label[16..20].copy_from_slice(&crc.to_le_bytes());
    start
}

/// A superblock of XFS with what is checked of one.
fn xfs() -> Vec<u8> {
    let mut start = vec![0; 4096];
    let mut put = |at: usize, bytes: &[u8]| start[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"XFSB");
    put(4, &4096u32.to_be_bytes());
    put(8, &4096u64.to_be_bytes());
    put(32, &[7; 16]);
    put(80, &1u32.to_be_bytes());
    put(84, &1024u32.to_be_bytes());
    put(88, &4u32.to_be_bytes());
    put(100, &4u16.to_be_bytes());
    put(102, &512u16.to_be_bytes());
    put(104, &512u16.to_be_bytes());
    put(106, &8u16.to_be_bytes());
    put(120, &[12, 9, 9, 3, 10, 0, 0, 25]);
    start
}

/// A protective MBR and a GPT without partitions.
fn gpt() -> Vec<u8> {
    let mut start = mbr(0xee);
    start.resize(512 + 92, 0);
    let sectors = SIZE / 512;
    let header = &mut start[512..];
    header[..8].copy_from_slice(b"EFI PART");
    header[8..12].copy_from_slice(&0x1_0000u32.to_le_bytes());
    header[12..16].copy_from_slice(&92u32.to_le_bytes());
    header[24..32].copy_from_slice(&1u64.to_le_bytes());
    header[32..40].copy_from_slice(&(sectors - 1).to_le_bytes());
    header[40..48].copy_from_slice(&34u64.to_le_bytes());
    header[48..56].copy_from_slice(&(sectors - 34).to_le_bytes());
    header[72..80].copy_from_slice(&2u64.to_le_bytes());
    header[80..84].copy_from_slice(&4u32.to_le_bytes());
    header[84..88].copy_from_slice(&128u32.to_le_bytes());
    header[88..92].copy_from_slice(&gpt_crc(&[0; 512]).to_le_bytes());
    let crc = gpt_crc(header);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    start.resize(4096, 0);
    start
}

/// An MBR with one partition of a type.
fn mbr(kind: u8) -> Vec<u8> {
    let mut start = vec![0; 512];
    start[446 + 4] = kind;
    start[446 + 8..446 + 12].copy_from_slice(&1u32.to_le_bytes());
    start[446 + 12..446 + 16].copy_from_slice(&2048u32.to_le_bytes());
    start[510..].copy_from_slice(b"\x55\xaa");
    start
}

/// The first 4 KiB that a program leaves on an empty image.
fn made_by(place: &Place, program: &str, words: &str) -> Vec<u8> {
    place.sparse("other.img", SIZE);
    place.run(program, words.split(' ').chain(["other.img"]));
    let mut start = vec![0; 4096];
    let file = fs::File::open(place.path("other.img")).unwrap();
    file.read_exact_at(&mut start, 0).unwrap();
    start
}

fn damages(place: &Place) -> Vec<Damage> {
    let noise = crate::support::noise(4096, 11);
    let swap = made_by(place, "mkswap", "--quiet");
    let ext = made_by(place, "mke2fs", "-q -F");
    let btrfs_and_torn = vec![(0x1_0040, b"_BHRfS_M".to_vec()), (21_000, vec![1])];
    vec![
        ("nothing", vec![]),
        ("an LVM2 physical volume", vec![(0, lvm())]),
        ("ext2", vec![(0, ext)]),
        ("XFS", vec![(0, xfs())]),
        ("swap", vec![(0, swap)]),
        ("a GPT", vec![(0, gpt())]),
        ("an MBR", vec![(0, mbr(0x83))]),
        ("an MBR without partitions", vec![(0, mbr(0))]),
        ("noise", vec![(0, noise)]),
        ("zeros", vec![(0, vec![0; 4096])]),
        ("zeros for the magic", vec![(0, vec![0; 8])]),
        ("a torn primary", vec![(5000, vec![1])]),
        ("a torn secondary", vec![(21_000, vec![1])]),
        // libblkid wants more of Btrfs than its magic: this one Scrim alone refuses.
        ("Btrfs beside a torn secondary", btrfs_and_torn),
        ("noise over both", vec![(5000, vec![1]), (21_000, vec![1])]),
    ]
}

/// The exit codes of the same three questions, and whether the image was changed by them.
fn asked(place: &Place, program: &str, damaged: &[u8]) -> [i32; 3] {
    let questions = match program {
        "cryptsetup" => ["isLuks", "luksDump", "open --test-passphrase -d key"],
        _ => ["isLuks", "dump", "open --test-passphrase -d key"],
    };
    questions.map(|words| {
        fs::write(place.path("asked.img"), damaged).unwrap();
        let words = words.split(' ').chain(["asked.img"]);
        let output = place.run_with_input(program, words, b"");
        if program == "scrim" {
            let after = fs::read(place.path("asked.img")).unwrap();
            assert!(after == damaged, "a question has changed the image");
        }
        output.status.code().unwrap()
    })
}

#[test]
fn what_has_become_something_else_is_refused_until_it_is_repaired() {
    if !have(&["cryptsetup", "mke2fs", "mkswap"]) {
        return;
    }
    let place = Place::new();
    place.write("key", "open sesame");
    place.sparse("disk.img", SIZE);
    place.cryptsetup(&format!("luksFormat --type luks2 {CHEAP} disk.img key"));
    let whole = fs::read(place.path("disk.img")).unwrap();
    for (name, writes) in damages(&place) {
        let mut damaged = whole.clone();
        for (at, bytes) in writes {
            let at = usize::try_from(at).unwrap();
            damaged[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let codes = asked(&place, "scrim", &damaged);
        let expected = match name {
            "Btrfs beside a torn secondary" => [1; 3],
            _ => asked(&place, "cryptsetup", &damaged),
        };
        assert_eq!(codes, expected, "{name}");
        if codes == [0; 3] || name == "noise over both" {
            continue;
        }
        fs::write(place.path("asked.img"), &damaged).unwrap();
        let open = ["open", "asked.img", "secret", "-d", "key"];
        let opened = place.run_with_input("scrim", open, b"");
        let said = String::from_utf8_lossy(&opened.stderr);
        assert_eq!(opened.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains("use `scrim repair`"), "{name}: {said}");
        assert!(
            fs::read(place.path("asked.img")).unwrap() == damaged,
            "{name}"
        );
        // Not unasked, and whole afterwards.
        let refused = place.run_with_input("scrim", ["repair", "asked.img"], b"");
        assert!(!refused.status.success(), "{name}");
        assert!(
            fs::read(place.path("asked.img")).unwrap() == damaged,
            "{name}"
        );
        place.scrim(["repair", "--batch-mode", "asked.img"]);
        let repaired = fs::read(place.path("asked.img")).unwrap();
        // The magic of Btrfs lies within the only key slot, which a header cannot bring back.
        let expected = match name {
            "Btrfs beside a torn secondary" => [0, 0, 2],
            _ => [0; 3],
        };
        assert_eq!(asked(&place, "scrim", &repaired), expected, "{name}");
        assert_eq!(asked(&place, "cryptsetup", &repaired), expected, "{name}");
    }
}

/// The header and its key slots must be there whole; the data may be missing, which only `open` minds.
#[test]
fn a_device_that_is_too_small_is_refused() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = Place::new();
    place.write("key", "open sesame");
    for version in ["luks1", "luks2"] {
        place.sparse("disk.img", SIZE);
        place.cryptsetup(&format!("luksFormat --type {version} {CHEAP} disk.img key"));
        let whole = fs::read(place.path("disk.img")).unwrap();
        // LUKS1's last key slot ends at sector 8 + 7 * 504 + 500.
        let end = match version {
            "luks1" => (8 + 7 * 504 + 500) * 512,
            _ => HEADER_END,
        };
        for len in [2000, 40_000, end - 1, end, SIZE] {
            let cut = &whole[..usize::try_from(len).unwrap()];
            let codes = asked(&place, "scrim", cut);
            assert_eq!(codes, asked(&place, "cryptsetup", cut), "{version}, {len}");
            assert_eq!(codes == [0; 3], len >= end, "{version}, {len}: {codes:?}");
        }
        fs::write(place.path("asked.img"), &whole[..40_000]).unwrap();
        for words in ["dump", "repair", "header-backup --header-backup-file b"] {
            let words = words.split(' ').chain(["asked.img"]);
            let refused = place.run_with_input("scrim", words, b"");
            let said = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(1), "{said}");
            assert!(said.contains("the device is too small"), "{said}");
        }
    }
}
