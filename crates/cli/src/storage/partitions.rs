//! Partitions of a disk image that hold LUKS volumes, and the commands that open them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use scrim_backend::Backend;
use scrim_foreign::Foreign;
use scrim_luks::probe;

use crate::storage::partition_table::{Partition, PartitionTable};
use crate::terminal::{note, shell_word};

/// Bytes of a partition in which a LUKS header is known: up to the secondary of the usual size.
const LOOK: usize = (16 << 10) + 6;

/// The partitions of an image that hold LUKS volumes, in the order of their numbers. A part that cannot be read
/// counts as missing.
pub(crate) fn luks_partitions(image: &dyn Backend) -> Vec<Partition> {
    let size = image.info().size;
    let mut seen = BTreeSet::new();
    let Ok(table) = PartitionTable::read(image, |range| holds_luks(image, range)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for Partition { number, range } in table.partitions {
        let range = range.start..range.end.min(size);
        // If one entry overlaps another, the first one counts.
        let is_new = range.start > 0 && !range.is_empty() && seen.insert(range.start);
        if is_new && holds_luks(image, &range) {
            found.push(Partition { number, range });
        }
    }
    found
}

/// Checks whether a range of an image begins as a LUKS volume.
pub(crate) fn holds_luks(image: &dyn Backend, range: &Range<u64>) -> bool {
    let end = range.end.min(image.info().size);
    let len = end.saturating_sub(range.start).min(LOOK as u64);
    let mut start = vec![0; usize::try_from(len).unwrap_or(0)];
    image.read_at(range.start, &mut start).is_ok() && matches!(probe(&start), Some(1 | 2))
}

/// Prints how each of the partitions of an image is opened.
pub(crate) fn show_partitions(image: &Path, partitions: &[Partition]) {
    for partition in partitions {
        note(format_args!(
            "{}: {}",
            image.display(),
            how_to_open(image, partition)
        ));
    }
}

/// Says where a partition lies, and by which command it is opened.
fn how_to_open(image: &Path, partition: &Partition) -> String {
    let Partition { number, range } = partition;
    let len = range.end - range.start;
    let name = kernel_node(image, *number).map_or_else(
        || image.to_str().map(|image| format!("{image}#{number}")),
        Some,
    );
    let head = format!(
        "partition {number}, {len} bytes at byte {}, has a LUKS header",
        range.start
    );
    match name {
        // A name that a terminal does not show as it is cannot be typed again.
        Some(name) if Foreign::new(name.as_str()).to_string() == name => {
            format!(
                "{head}; open it with:\n  scrim open {} NAME",
                shell_word(&name)
            )
        }
        _ => format!("{head}; open it with the image's name and #{number}"),
    }
}

/// The kernel's device for a partition of a block device, where it has one.
pub(crate) fn kernel_node(image: &Path, number: u32) -> Option<String> {
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
        for len in [0, 1, 511, 512, 513, 4096] {
            assert_eq!(found(vec![0xff; len]), []);
        }
    }
}
