//! The input is the start of a disk, and its end; the checksums of a GPT in it are made right if the first byte asks for
//! that.
//!
//! The program is no library, so its parser, a file that needs `scrim-backend` only, is taken in.

#![no_main]

#[path = "../../crates/cli/src/storage/partition_table.rs"]
mod partition_table;

use libfuzzer_sys::fuzz_target;
use partition_table::{PartitionTable, TableError};
use scrim_backend::MemoryBackend;

/// Bytes of the disk; the input is a sixth of it at most.
const DISK: usize = 96 << 10;

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| match crc & 1 {
            0 => crc >> 1,
            _ => (crc >> 1) ^ 0xedb8_8320,
        })
    })
}

fn number(disk: &[u8], at: usize, len: usize) -> usize {
    let bytes = disk[at..at + len].iter().rev();
    bytes.fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// Writes right checksums into a GPT's header at `at`, if its own numbers allow it.
fn seal(disk: &mut [u8], at: usize, sector: usize) {
    let count = number(disk, at + 80, 4).saturating_mul(number(disk, at + 84, 4));
    let entries = number(disk, at + 72, 8).saturating_mul(sector);
    if let Some(entries) = disk.get(entries..entries.saturating_add(count)) {
        let sum = crc32(entries);
        disk[at + 88..at + 92].copy_from_slice(&sum.to_le_bytes());
    }
    let len = number(disk, at + 12, 4);
    disk[at + 16..at + 20].fill(0);
    if let Some(header) = disk.get(at..at.saturating_add(len)) {
        let sum = crc32(header);
        disk[at + 16..at + 20].copy_from_slice(&sum.to_le_bytes());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let mut disk = vec![0; DISK];
    let (start, end) = bytes.split_at(bytes.len() / 4 * 3);
    disk[..start.len()].copy_from_slice(start);
    disk[DISK - end.len()..].copy_from_slice(end);
    if choice & 1 != 0 {
        for sector in [512, 4096] {
            seal(&mut disk, sector, sector);
            seal(&mut disk, DISK - sector, sector);
        }
    }
    let image = MemoryBackend::new(disk);
    let holds = |range: &std::ops::Range<u64>| choice & 2 != 0 && range.start == 4096;
    let table = match PartitionTable::read(&image, holds) {
        Ok(table) => table,
        Err(error) => {
            assert!(matches!(
                error,
                TableError::None | TableError::Damaged { .. }
            ));
            assert!(!error.to_string().contains(char::is_control));
            return;
        }
    };
    let size = DISK as u64;
    let mut found = Vec::new();
    for partition in &table.partitions {
        match table.find(partition.number) {
            Ok(range) => found.push(range),
            Err(error) => assert!(!matches!(error, TableError::Unused { .. }), "{error}"),
        }
    }
    assert!(
        found
            .iter()
            .all(|range| range.start > 0 && range.start < range.end && range.end <= size)
    );
    found.sort_by_key(|range| range.start);
    assert!(
        found.windows(2).all(|two| two[0].end <= two[1].start),
        "{found:?}"
    );
    assert!(matches!(table.find(0), Err(TableError::Unused { .. })));
});
