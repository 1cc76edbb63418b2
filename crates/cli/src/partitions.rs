//! Partitions of a disk image that hold LUKS volumes, and the commands that open them.
//!
//! Every number in a partition table is another's word: none is followed outside of the image, chains of
//! logical partitions end where they are too long or come back, and only a bounded part of a table is read.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use scrim_backend::Backend;
use scrim_luks::probe;

use crate::commands::note;
use crate::storage::is_remote;

/// The sizes of a disk's sector in which its tables may count, in bytes.
const SECTORS: [u64; 2] = [512, 4096];
/// Where an MBR, and the first sector of a logical partition, has its four entries.
const MBR_ENTRIES: Range<usize> = 446..510;
const MBR_ENTRY: usize = 16;
/// Most logical partitions that are looked for.
const LOGICAL_MAX: u32 = 64;
/// Most entries of a GPT that are looked at; as many as programs make.
const GPT_ENTRIES_MAX: u32 = 128;
/// Bytes of a GPT's header that are used.
const GPT_HEADER: usize = 92;
/// Start of an entry in a GPT; what follows is its name.
const GPT_ENTRY: usize = 48;
/// Bytes of a partition in which a LUKS header is known: up to the secondary of the usual size.
const LOOK: usize = (16 << 10) + 6;

/// A partition with a LUKS header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LuksPartition {
    /// Its number in the table, as the kernel counts: logical ones from 5 on.
    pub(crate) number: u32,
    /// Where it lies in the image, in bytes.
    pub(crate) range: Range<u64>,
}

/// The partitions of an image that hold LUKS volumes, in the order of their numbers. What cannot be read
/// counts as not there.
pub(crate) fn luks_partitions(image: &dyn Backend) -> Vec<LuksPartition> {
    let size = image.info().size;
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for sector in SECTORS {
        let all = gpt(image, sector).unwrap_or_else(|| mbr(image, sector));
        for (number, range) in all {
            let range = range.start..range.end.min(size);
            // Where a GPT overlaps an MBR, or an entry another, the first one counts.
            if range.start == 0 || range.is_empty() || !seen.insert(range.start) {
                continue;
            }
            if holds_luks(image, &range) {
                found.push(LuksPartition { number, range });
            }
        }
    }
    found.sort_by_key(|partition| partition.number);
    found
}

fn holds_luks(image: &dyn Backend, range: &Range<u64>) -> bool {
    let len = usize::try_from(range.end - range.start).unwrap_or(LOOK);
    let start = read(image, range.start, len.min(LOOK)).unwrap_or_default();
    matches!(probe(&start), Some(1 | 2))
}

fn read(image: &dyn Backend, offset: u64, len: usize) -> Option<Vec<u8>> {
    let end = offset.checked_add(len as u64)?;
    if end > image.info().size {
        return None;
    }
    let mut bytes = vec![0; len];
    image.read_at(offset, &mut bytes).ok()?;
    Some(bytes)
}

/// The partitions of a GPT, of the one at the start or else of its copy at the end; `None` where there is
/// neither. UEFI specification, section 5.3.
fn gpt(image: &dyn Backend, sector: u64) -> Option<Vec<(u32, Range<u64>)>> {
    let last = (image.info().size / sector).checked_sub(1)?;
    [1, last]
        .into_iter()
        .find_map(|lba| gpt_at(image, sector, lba))
}

fn gpt_at(image: &dyn Backend, sector: u64, lba: u64) -> Option<Vec<(u32, Range<u64>)>> {
    let header = read(image, lba.checked_mul(sector)?, GPT_HEADER)?;
    if !header.starts_with(b"EFI PART") {
        return None;
    }
    let entries = le64(&header, 72)?.checked_mul(sector)?;
    let number = le32(&header, 80)?.min(GPT_ENTRIES_MAX);
    let len = le32(&header, 84)?;
    if !(128..=4096).contains(&len) {
        return None;
    }
    let mut partitions = Vec::new();
    for index in 0..number {
        let at = entries.checked_add(u64::from(index) * u64::from(len))?;
        let Some(entry) = read(image, at, GPT_ENTRY) else {
            break;
        };
        let (Some(first), Some(last)) = (le64(&entry, 32), le64(&entry, 40)) else {
            break;
        };
        let is_used = entry[..16].iter().any(|&byte| byte != 0);
        let start = first.checked_mul(sector);
        let end = last.checked_add(1).and_then(|end| end.checked_mul(sector));
        if let (true, Some(start), Some(end)) = (is_used, start, end) {
            partitions.push((index + 1, start..end));
        }
    }
    Some(partitions)
}

/// The partitions of an MBR, primary and logical ones.
fn mbr(image: &dyn Backend, sector: u64) -> Vec<(u32, Range<u64>)> {
    let mut partitions = Vec::new();
    for (number, entry) in (1..).zip(entries(image, 0, sector)) {
        match entry.kind {
            0 => {}
            kind if is_extended(kind) => {
                partitions.extend(logical(image, entry.start, sector));
            }
            _ => partitions.push((number, entry.range())),
        }
    }
    partitions
}

/// The logical partitions of an extended one that starts at `extended`, in bytes: each is described by a
/// sector before it, which names the next one.
fn logical(image: &dyn Backend, extended: u64, sector: u64) -> Vec<(u32, Range<u64>)> {
    let mut partitions = Vec::new();
    let mut visited = BTreeSet::new();
    let mut at = extended;
    while partitions.len() < LOGICAL_MAX as usize && visited.insert(at) {
        let mut next = None;
        for entry in entries(image, at, sector) {
            match entry.kind {
                0 => {}
                kind if is_extended(kind) => next = next.or(extended.checked_add(entry.start)),
                _ => {
                    let number = 5 + u32::try_from(visited.len() - 1).unwrap_or(u32::MAX - 5);
                    let Some(start) = at.checked_add(entry.start) else {
                        continue;
                    };
                    partitions.push((number, start..start.saturating_add(entry.len)));
                }
            }
        }
        match next {
            Some(next) if visited.len() < LOGICAL_MAX as usize => at = next,
            _ => break,
        }
    }
    partitions
}

/// An entry of an MBR, in bytes.
struct Entry {
    kind: u8,
    start: u64,
    len: u64,
}

impl Entry {
    fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.len)
    }
}

/// The entries of the table in the sector at `at`.
fn entries(image: &dyn Backend, at: u64, sector: u64) -> Vec<Entry> {
    let bytes = read(image, at, 512).filter(|bytes| bytes.ends_with(b"\x55\xaa"));
    let table = bytes
        .as_deref()
        .map_or(&[][..], |bytes| &bytes[MBR_ENTRIES]);
    let entry = |entry: &[u8]| {
        Some(Entry {
            kind: *entry.get(4)?,
            start: u64::from(le32(entry, 8)?) * sector,
            len: u64::from(le32(entry, 12)?) * sector,
        })
    };
    table.chunks(MBR_ENTRY).filter_map(entry).collect()
}

fn is_extended(kind: u8) -> bool {
    matches!(kind, 0x05 | 0x0f | 0x85)
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

/// Says how each of the partitions of an image is opened.
pub(crate) fn show_partitions(image: &Path, partitions: &[LuksPartition]) {
    for partition in partitions {
        let how = HowToOpen { image, partition };
        note(format_args!("{}: {how}", image.display()));
    }
}

/// How to open a partition of an image: `nbdkit` shows it as a device of its own, without root.
struct HowToOpen<'a> {
    image: &'a Path,
    partition: &'a LuksPartition,
}

impl fmt::Display for HowToOpen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LuksPartition { number, range } = self.partition;
        let image = shell_word(&self.image.display().to_string());
        let plugin = match is_remote(self.image) {
            true => "nbd",
            false => "file",
        };
        let len = range.end - range.start;
        writeln!(
            f,
            "partition {number}, {len} bytes at byte {}, has a LUKS header; open it with:",
            range.start
        )?;
        writeln!(
            f,
            "  nbdkit --unix partition{number}.sock --filter=offset {plugin} {image} offset={} range={len}",
            range.start
        )?;
        write!(
            f,
            "  scrim open 'nbd+unix:///?socket=partition{number}.sock' NAME"
        )
    }
}

/// A text as one word of a shell.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use scrim_backend::MemoryBackend;

    const MIB: u64 = 1 << 20;

    fn put(image: &mut [u8], at: u64, bytes: &[u8]) {
        let at = usize::try_from(at).unwrap();
        image[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn luks_at(image: &mut [u8], at: u64) {
        put(image, at, b"LUKS\xba\xbe\0\x02");
    }

    /// Writes an entry of the table in the sector at `at`; start and length in sectors of 512 bytes.
    fn entry(image: &mut [u8], at: u64, index: u64, kind: u8, start: u64, len: u64) {
        let entry = at + 446 + 16 * index;
        put(image, entry + 4, &[kind]);
        put(
            image,
            entry + 8,
            &u32::try_from(start).unwrap().to_le_bytes(),
        );
        put(
            image,
            entry + 12,
            &u32::try_from(len).unwrap().to_le_bytes(),
        );
        put(image, at + 510, b"\x55\xaa");
    }

    fn found(image: Vec<u8>) -> Vec<(u32, Range<u64>)> {
        let found = luks_partitions(&MemoryBackend::new(image));
        found.into_iter().map(|p| (p.number, p.range)).collect()
    }

    #[test]
    fn primary_and_logical_partitions_are_found() {
        let mut image = vec![0; 16 << 20];
        entry(&mut image, 0, 0, 0x83, 2048, 2048);
        entry(&mut image, 0, 1, 0x83, 4096, 2048);
        entry(&mut image, 0, 2, 0x05, 8192, 16384);
        luks_at(&mut image, 2 * MIB);
        let chain = 4 * MIB;
        entry(&mut image, chain, 0, 0x83, 2048, 1024);
        entry(&mut image, chain, 1, 0x05, 4096, 4096);
        luks_at(&mut image, chain + MIB);
        entry(&mut image, chain + 2 * MIB, 0, 0x83, 2048, 1024);
        luks_at(&mut image, chain + 3 * MIB);
        let expected = [
            (2, 2 * MIB..3 * MIB),
            (5, 5 * MIB..5 * MIB + MIB / 2),
            (6, 7 * MIB..7 * MIB + MIB / 2),
        ];
        assert_eq!(found(image), expected);
    }

    #[test]
    fn a_gpt_is_read_by_both_sizes_of_a_sector_and_from_its_copy() {
        for sector in SECTORS {
            for copy in [false, true] {
                let mut image = vec![0; 8 << 20];
                let size = image.len() as u64;
                entry(&mut image, 0, 0, 0xee, 1, 16383);
                let (header, entries) = match copy {
                    false => (sector, 2 * sector),
                    true => (size - sector, size - 20480),
                };
                put(&mut image, header, b"EFI PART");
                put(&mut image, header + 72, &(entries / sector).to_le_bytes());
                put(&mut image, header + 80, &128u32.to_le_bytes());
                put(&mut image, header + 84, &128u32.to_le_bytes());
                let second = entries + 128;
                put(&mut image, second, &[7; 16]);
                put(&mut image, second + 32, &(MIB / sector).to_le_bytes());
                put(
                    &mut image,
                    second + 40,
                    &(2 * MIB / sector - 1).to_le_bytes(),
                );
                luks_at(&mut image, MIB);
                assert_eq!(found(image), [(2, MIB..2 * MIB)], "{sector} {copy}");
            }
        }
    }

    #[test]
    fn tables_that_lie_are_left() {
        // A chain that comes back to itself, and one that leads out of the image.
        for next in [0, 2048, u64::from(u32::MAX)] {
            let mut image = vec![0; 8 << 20];
            entry(&mut image, 0, 0, 0x0f, 2048, 8192);
            entry(&mut image, MIB, 0, 0x83, 64, 64);
            entry(&mut image, MIB, 1, 0x05, next, 64);
            entry(&mut image, 2 * MIB, 1, 0x05, 0, 64);
            luks_at(&mut image, MIB + 64 * 512);
            let expected = MIB + 64 * 512..MIB + 128 * 512;
            assert_eq!(found(image), [(5, expected)]);
        }
        // Entries on top of each other count once; what ends behind the image ends with it.
        let mut image = vec![0; 4 << 20];
        for index in 0..4 {
            entry(&mut image, 0, index, 0x83, 2048, u64::from(u32::MAX));
        }
        luks_at(&mut image, MIB);
        assert_eq!(found(image), [(1, MIB..4 * MIB)]);
        // A GPT with more and larger entries than there can be.
        for (entries, number, len) in [(2, u32::MAX, 4096), (u64::MAX, 1, 128), (2, 9, u32::MAX)] {
            let mut image = vec![0xff; 1 << 20];
            put(&mut image, 512, b"EFI PART");
            put(&mut image, 512 + 72, &u64::to_le_bytes(entries));
            put(&mut image, 512 + 80, &number.to_le_bytes());
            put(&mut image, 512 + 84, &len.to_le_bytes());
            assert_eq!(found(image), []);
        }
        for len in [0, 1, 511, 512, 513, 4096] {
            assert_eq!(found(vec![0xff; len]), []);
        }
    }

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        assert_eq!(shell_word("/a/disk-1.img"), "/a/disk-1.img");
        assert_eq!(shell_word("my disk"), "'my disk'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word("-d"), "'-d'");
        assert_eq!(shell_word(""), "''");
    }
}
