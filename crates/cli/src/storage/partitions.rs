//! Partitions of a disk image that hold LUKS volumes, and the commands that open them.
//!
//! No number in a partition table is trusted: no offset is followed out of the image, chains of logical partitions
//! end where they are too long or come back, and only a bounded part of a table is read.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use scrim_backend::Backend;
use scrim_foreign::Foreign;
use scrim_luks::probe;
use scrim_volume::{CryptTable, Keys, Line, LinearSpec, TargetSpec};

use crate::storage::image::absolute;
use crate::terminal::note;

/// The unit of a table's numbers, in bytes.
const SECTOR: u64 = 512;
/// The sizes of a disk's sector in which its tables may count, in bytes.
const SECTORS: [u64; 2] = [512, 4096];
/// Place of the four entries in an MBR, and in the first sector of a logical partition.
const MBR_ENTRIES: Range<usize> = 446..510;
const MBR_ENTRY: usize = 16;
/// Most sectors with logical partitions that are read, as in Linux.
const LINKS_MAX: usize = 100;
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
    /// Number of the partition in the table, as the kernel counts: logical partitions from 5 on.
    pub(crate) number: u32,
    /// Place of the partition in the image, in bytes.
    pub(crate) range: Range<u64>,
}

/// The partitions of an image that hold LUKS volumes, in the order of their numbers. A part that cannot be read
/// counts as missing.
pub(crate) fn luks_partitions(image: &dyn Backend) -> Vec<LuksPartition> {
    let size = image.info().size;
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for sector in SECTORS {
        let all = gpt(image, sector).unwrap_or_else(|| mbr(image, sector));
        for (number, range) in all {
            let range = range.start..range.end.min(size);
            // If a GPT overlaps an MBR, or one entry another, the first one counts.
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

/// The partitions of an MBR, primary and logical ones, with the numbers that Linux gives them
/// (`block/partitions/msdos.c`).
fn mbr(image: &dyn Backend, sector: u64) -> Vec<(u32, Range<u64>)> {
    let mut partitions = Vec::new();
    let mut links = 0;
    let mut next_number = 5;
    for (number, entry) in (1..).zip(entries(image, 0, sector)) {
        if entry.len == 0 {
            continue;
        }
        if !is_extended(entry.kind) {
            partitions.push((number, entry.range()));
            continue;
        }
        for range in logical(image, &entry.range(), sector, &mut links) {
            partitions.push((next_number, range));
            next_number += 1;
        }
    }
    partitions
}

/// The logical partitions within an extended one: each sector of a chain describes at least none and usually one, and
/// names the next sector. `links` counts the sectors of all chains.
fn logical(
    image: &dyn Backend,
    extended: &Range<u64>,
    sector: u64,
    links: &mut usize,
) -> Vec<Range<u64>> {
    let mut partitions = Vec::new();
    let mut visited = BTreeSet::new();
    let mut link = Some(extended.clone());
    while let Some(here) = link.take()
        && *links < LINKS_MAX
        && visited.insert(here.start)
    {
        *links += 1;
        for (index, entry) in entries(image, here.start, sector).into_iter().enumerate() {
            if entry.len == 0 {
                continue;
            }
            if is_extended(entry.kind) {
                let start = extended.start.checked_add(entry.start);
                let next = start.map(|start| start..start.saturating_add(entry.len));
                link = link.or(next);
                continue;
            }
            let Some(start) = here.start.checked_add(entry.start) else {
                continue;
            };
            let range = start..start.saturating_add(entry.len);
            // Some programs leave stale entries in the last two places.
            let is_within = entry.range().end <= here.end - here.start
                && extended.start <= start
                && range.end <= extended.end;
            if index < 2 || is_within {
                partitions.push(range);
            }
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

/// Prints how each of the partitions of an image is opened.
pub(crate) fn show_partitions(image: &Path, partitions: &[LuksPartition]) {
    for partition in partitions {
        note(format_args!(
            "{}: {}",
            image.display(),
            how_to_open(image, partition)
        ));
    }
}

/// Says where a partition lies, and by which commands it is opened.
fn how_to_open(image: &Path, partition: &LuksPartition) -> String {
    let LuksPartition { number, range } = partition;
    let len = range.end - range.start;
    let head = format!(
        "partition {number}, {len} bytes at byte {}, has a LUKS header",
        range.start
    );
    if let Some(node) = kernel_node(image, *number) {
        return format!(
            "{head}; open it with:\n  scrim open {} NAME",
            shell_word(&node)
        );
    }
    let Some((name, hint)) = name_for_table(image) else {
        return head;
    };
    let line = Line {
        start: 0,
        len: len / SECTOR,
        target: TargetSpec::Linear(LinearSpec {
            device: name,
            offset: range.start / SECTOR,
        }),
    };
    let Ok(table) = CryptTable::from_lines(vec![line]) else {
        return head;
    };
    let table = table.to_text(Keys::Masked);
    let table = String::from_utf8_lossy(table.expose());
    format!(
        "{head}; open it with:{hint}\n  scrim open \"$(scrim open --table {} partition{number})\" NAME\n\
         and close both when it is not needed any more:\n  scrim close NAME && scrim close partition{number}",
        shell_word(table.trim_end())
    )
}

/// The kernel's device for a partition of a block device, where it has one.
fn kernel_node(image: &Path, number: u32) -> Option<String> {
    let is_device = |path: &Path| {
        let found = std::fs::metadata(path).ok();
        found.is_some_and(|found| found.file_type().is_block_device())
    };
    let device = image.canonicalize().ok().filter(|path| is_device(path))?;
    let mut node = device.to_str()?.to_owned();
    if node.ends_with(|c: char| c.is_ascii_digit()) {
        node.push('p');
    }
    node.push_str(&number.to_string());
    is_device(Path::new(&node)).then_some(node)
}

/// The name of an image in a table, and a hint where another name has to stand in for it: a table is text, and a
/// terminal shows no control characters.
fn name_for_table(image: &Path) -> Option<(String, &'static str)> {
    let path = absolute(image).ok()?;
    let plain = path.to_str().filter(|name| {
        let shown = Foreign::new(*name).to_string();
        shown.as_str() == *name && CryptTable::TEXT_MAX / 4 > name.len()
    });
    Some(match plain {
        Some(name) => (name.to_owned(), ""),
        None => (
            "/LINK".to_owned(),
            " (its name has letters that a table cannot have: make a link to it, and name that in the place of /LINK)",
        ),
    })
}

/// A text as one word of a shell.
pub(crate) fn shell_word(text: &str) -> String {
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

    /// Links without a partition, links with two, and a second extended partition.
    #[test]
    fn logical_partitions_are_numbered_as_by_the_kernel() {
        let mut image = vec![0; 32 << 20];
        entry(&mut image, 0, 0, 0x05, 2048, 20480);
        entry(&mut image, 0, 1, 0x0f, 40960, 8192);
        // The first link has no partition, the second one two, and stale entries behind them.
        entry(&mut image, MIB, 1, 0x05, 2048, 16384);
        let second = 2 * MIB;
        entry(&mut image, second, 0, 0x83, 2048, 2048);
        entry(&mut image, second, 1, 0x83, 4096, 2048);
        entry(&mut image, second, 2, 0x83, 0, u64::from(u32::MAX));
        entry(&mut image, 20 * MIB, 0, 0x83, 2048, 2048);
        for at in [3, 4, 21] {
            luks_at(&mut image, at * MIB);
        }
        let mib = |at: u64| at * MIB..(at + 1) * MIB;
        assert_eq!(found(image), [(5, mib(3)), (6, mib(4)), (7, mib(21))]);
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
