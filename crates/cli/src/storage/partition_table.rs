//! Partition tables of disk images: GPT and MBR, with logical partitions.
//!
//! No number in a table is trusted: no offset is followed out of the image, chains of logical partitions end where
//! they are too long or come back, and only a bounded part of a table is read. This file is compiled into a fuzz
//! target too, so it needs nothing else of the program.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use scrim_backend::Backend;

/// The sizes of a disk's sector in which its tables may count, in bytes.
const SECTORS: [u64; 2] = [512, 4096];
/// Place of the four entries in an MBR, and in the first sector of a logical partition.
const MBR_ENTRIES: Range<usize> = 446..510;
const MBR_ENTRY: usize = 16;
/// Kind of the entry that protects a GPT.
const PROTECTIVE: u8 = 0xee;
/// Most sectors with logical partitions that are read, as in Linux.
const LINKS_MAX: usize = 100;
/// Bytes of a GPT's header that are used.
const GPT_HEADER: usize = 92;
/// Bytes of an entry in a GPT before its name.
const GPT_ENTRY: usize = 48;
/// Most bytes of a GPT's entries that are read; programs make 16 KiB.
const GPT_ENTRIES_MAX: u64 = 1 << 20;

/// A partition of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Number in the table, as the kernel counts: logical partitions from 5 on.
    pub(crate) number: u32,
    /// Place in the image, in bytes. It may lead out of the image.
    pub(crate) range: Range<u64>,
}

/// The partition table of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionTable {
    /// True for a GPT, false for an MBR.
    pub(crate) is_gpt: bool,
    /// The sector in which the table counts, in bytes.
    pub(crate) sector: u64,
    /// Reason for which the copy of a GPT at the end of the image was used in place of the one at its start.
    pub(crate) copy_used: Option<Damage>,
    pub(crate) partitions: Vec<Partition>,
    /// Place of the partitions, in bytes: what a GPT calls usable, or all behind an MBR.
    usable: Range<u64>,
}

/// Damage to one copy of a GPT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// It has no signature.
    NoSignature,
    /// A number of its header is out of bounds.
    Field(&'static str),
    /// The checksum of its header is wrong.
    HeaderChecksum,
    /// The checksum of its entries is wrong.
    EntriesChecksum,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSignature => f.write_str("it is missing"),
            Self::Field(field) => write!(f, "its {field} is out of bounds"),
            Self::HeaderChecksum => f.write_str("the checksum of its header is wrong"),
            Self::EntriesChecksum => f.write_str("the checksum of its entries is wrong"),
        }
    }
}

/// Reason for which no partition is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TableError {
    /// The image has neither a GPT nor an MBR.
    None,
    /// Neither copy of the GPT can be used.
    Damaged { primary: Damage, copy: Damage },
    /// The table has no partition with this number.
    Unused { number: u32, used: Vec<u32> },
    /// The partition leads out of the image, or into the table.
    Outside {
        partition: Partition,
        usable: Range<u64>,
    },
    /// Two partitions share bytes.
    Overlap { number: u32, other: u32 },
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("it has no partition table; name the image without a number"),
            Self::Damaged { primary, copy } => write!(
                f,
                "its GPT is damaged ({primary}), and so is the copy at its end ({copy}); repair it with gdisk, or give \
                 the place with --image-offset and --image-size"
            ),
            Self::Unused { number, used } if used.is_empty() => {
                write!(f, "it has no partition {number}; its table is empty")
            }
            Self::Unused { number, used } => {
                let used: Vec<String> = used.iter().map(u32::to_string).collect();
                write!(f, "it has no partition {number}, only {}", used.join(", "))
            }
            Self::Outside { partition, usable } => write!(
                f,
                "partition {} covers bytes {} to {}, and partitions can cover {} to {} there; repair the table, or \
                 make the image as long as it was",
                partition.number,
                partition.range.start,
                partition.range.end,
                usable.start,
                usable.end
            ),
            Self::Overlap { number, other } => write!(
                f,
                "partition {number} shares bytes with partition {other}; repair the table, or give the place with \
                 --image-offset and --image-size"
            ),
        }
    }
}

impl PartitionTable {
    /// Reads the partition table of an image. A part that cannot be read counts as missing.
    ///
    /// A table does not say in which sectors it counts. Both sizes are tried for a GPT, whose place shows it; an MBR
    /// counts in the size with which `holds` finds something in a partition, else in 512 bytes.
    ///
    /// # Errors
    /// When there is none, or both copies of a GPT are damaged.
    pub(crate) fn read(
        image: &dyn Backend,
        holds: impl Fn(&Range<u64>) -> bool,
    ) -> Result<Self, TableError> {
        if let Some(gpt) = gpt(image)? {
            return Ok(gpt);
        }
        let [small, large] = SECTORS.map(|sector| mbr(image, sector));
        let small = small.ok_or(TableError::None)?;
        let fits = |table: &Self| table.partitions.iter().any(|found| holds(&found.range));
        match large {
            Some(large) if !fits(&small) && fits(&large) => Ok(large),
            _ => Ok(small),
        }
    }

    /// Returns the place of a partition, in bytes.
    ///
    /// # Errors
    /// When the table has no such partition, or it overlaps another one or leads out of the image.
    pub(crate) fn find(&self, number: u32) -> Result<Range<u64>, TableError> {
        let found = self.partitions.iter().find(|found| found.number == number);
        let Some(found) = found else {
            let used = self.partitions.iter().map(|found| found.number).collect();
            return Err(TableError::Unused { number, used });
        };
        let (range, usable) = (&found.range, &self.usable);
        if range.is_empty() || range.start < usable.start || range.end > usable.end {
            return Err(TableError::Outside {
                partition: found.clone(),
                usable: usable.clone(),
            });
        }
        let shares = |other: &&Partition| {
            other.number != number && other.range.start < range.end && range.start < other.range.end
        };
        match self.partitions.iter().find(shares) {
            Some(other) => Err(TableError::Overlap {
                number,
                other: other.number,
            }),
            None => Ok(range.clone()),
        }
    }
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

/// The GPT at the start of an image, or else its copy at the end; `None` where no MBR protects one, as in the kernel.
/// UEFI specification, section 5.3.
fn gpt(image: &dyn Backend) -> Result<Option<PartitionTable>, TableError> {
    let entries = mbr_entries(image, 0, 512).unwrap_or_default();
    if !entries.iter().any(|entry| entry.kind == PROTECTIVE) {
        return Ok(None);
    }
    let mut damage = [Damage::NoSignature; 2];
    for place in 0..2 {
        for sector in SECTORS {
            let last = (image.info().size / sector).saturating_sub(1);
            match gpt_at(image, sector, [1, last][place]) {
                Ok(mut table) => {
                    table.copy_used = (place == 1).then_some(damage[0]);
                    return Ok(Some(table));
                }
                Err(Damage::NoSignature) => {}
                Err(found) => damage[place] = found,
            }
        }
    }
    let [primary, copy] = damage;
    Err(TableError::Damaged { primary, copy })
}

fn gpt_at(image: &dyn Backend, sector: u64, lba: u64) -> Result<PartitionTable, Damage> {
    let at = lba.checked_mul(sector).ok_or(Damage::NoSignature)?;
    let header = read(image, at, GPT_HEADER).ok_or(Damage::NoSignature)?;
    if !header.starts_with(b"EFI PART") {
        return Err(Damage::NoSignature);
    }
    let number = |at: usize| u64::from(le32(&header, at).unwrap_or(0));
    let in_bytes = |lba: u64, field| lba.checked_mul(sector).ok_or(Damage::Field(field));
    let len = number(12);
    if !(GPT_HEADER as u64..=sector).contains(&len) {
        return Err(Damage::Field("length"));
    }
    let whole = usize::try_from(len)
        .ok()
        .and_then(|len| read(image, at, len));
    let mut whole = whole.ok_or(Damage::Field("length"))?;
    // The checksum counts as zero in itself.
    whole[16..20].fill(0);
    if u64::from(crc32(&whole)) != number(16) {
        return Err(Damage::HeaderChecksum);
    }
    let lbas = [24, 40, 48, 72].map(|at| le64(&header, at).unwrap_or(u64::MAX));
    let [own, first, last, entries] = lbas;
    if own != lba {
        return Err(Damage::Field("place"));
    }
    let first = in_bytes(first, "first usable sector")?;
    let end = in_bytes(last.saturating_add(1), "last usable sector")?;
    if first < 2 * sector || end < first {
        return Err(Damage::Field("usable range"));
    }
    let entries = gpt_entries(
        image,
        in_bytes(entries, "place of entries")?,
        number(80),
        number(84),
    )?;
    if u64::from(crc32(&entries)) != number(88) {
        return Err(Damage::EntriesChecksum);
    }
    let entry_len = usize::try_from(number(84)).unwrap_or(usize::MAX);
    let partitions = (1..).zip(entries.chunks_exact(entry_len));
    let partitions = partitions.filter_map(|(number, entry)| gpt_partition(number, entry, sector));
    Ok(PartitionTable {
        is_gpt: true,
        sector,
        copy_used: None,
        partitions: partitions.collect(),
        usable: first..end.min(image.info().size),
    })
}

/// Reads the `count` entries of a GPT, of `len` bytes each.
fn gpt_entries(image: &dyn Backend, at: u64, count: u64, len: u64) -> Result<Vec<u8>, Damage> {
    if len < 128 || !len.is_multiple_of(8) {
        return Err(Damage::Field("length of entries"));
    }
    let all = count
        .checked_mul(len)
        .filter(|all| (1..=GPT_ENTRIES_MAX).contains(all));
    let all = all.and_then(|all| usize::try_from(all).ok());
    let all = all.ok_or(Damage::Field("number of entries"))?;
    read(image, at, all).ok_or(Damage::Field("place of entries"))
}

/// The partition of an entry of a GPT; `None` if the entry is not in use. A place that no image can have becomes an
/// empty range.
fn gpt_partition(number: u32, entry: &[u8], sector: u64) -> Option<Partition> {
    let entry = entry.get(..GPT_ENTRY)?;
    if entry[..16].iter().all(|&byte| byte == 0) {
        return None;
    }
    let (first, last) = (le64(entry, 32)?, le64(entry, 40)?);
    let start = first.checked_mul(sector);
    let end = last.checked_add(1).and_then(|end| end.checked_mul(sector));
    let range = match (start, end) {
        (Some(start), Some(end)) => start..end,
        _ => u64::MAX..u64::MAX,
    };
    Some(Partition { number, range })
}

/// The partitions of an MBR, primary and logical ones, with the numbers that Linux gives them
/// (`block/partitions/msdos.c`); `None` where there is no MBR.
fn mbr(image: &dyn Backend, sector: u64) -> Option<PartitionTable> {
    let mut partitions = Vec::new();
    let mut links = 0;
    let mut next_number = 5;
    for (number, entry) in (1..).zip(mbr_entries(image, 0, sector)?) {
        if entry.len == 0 || entry.kind == PROTECTIVE {
            continue;
        }
        if !is_extended(entry.kind) {
            let range = entry.range();
            partitions.push(Partition { number, range });
            continue;
        }
        for range in logical(image, &entry.range(), sector, &mut links) {
            let number = next_number;
            partitions.push(Partition { number, range });
            next_number += 1;
        }
    }
    partitions.sort_by_key(|partition| partition.number);
    Some(PartitionTable {
        is_gpt: false,
        sector,
        copy_used: None,
        partitions,
        usable: sector..image.info().size,
    })
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
        let entries = mbr_entries(image, here.start, sector).unwrap_or_default();
        for (index, entry) in entries.into_iter().enumerate() {
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

/// The entries of the table in the sector at `at`; `None` where there is no table. A boot sector of a file system ends
/// in the same way, and has other bytes where a table has flags.
fn mbr_entries(image: &dyn Backend, at: u64, sector: u64) -> Option<Vec<Entry>> {
    let bytes = read(image, at, 512).filter(|bytes| bytes.ends_with(b"\x55\xaa"))?;
    let entry = |entry: &[u8]| {
        let is_flag = entry.first().is_some_and(|flag| flag & 0x7f == 0);
        is_flag.then_some(Entry {
            kind: *entry.get(4)?,
            start: u64::from(le32(entry, 8)?) * sector,
            len: u64::from(le32(entry, 12)?) * sector,
        })
    };
    bytes[MBR_ENTRIES].chunks(MBR_ENTRY).map(entry).collect()
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

/// The CRC-32 of GPT, zip and Ethernet.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use scrim_backend::MemoryBackend;

    use super::*;

    const MIB: u64 = 1 << 20;
    const SIZE: usize = 16 << 20;

    fn put(image: &mut [u8], at: u64, bytes: &[u8]) {
        let at = usize::try_from(at).unwrap();
        image[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Writes an entry of the MBR, or of a link, at `at`; start and length in sectors.
    fn mbr_entry(image: &mut [u8], at: u64, index: u64, kind: u8, start: u32, len: u32) {
        let entry = at + 446 + 16 * index;
        put(image, entry + 4, &[kind]);
        put(image, entry + 8, &start.to_le_bytes());
        put(image, entry + 12, &len.to_le_bytes());
        put(image, at + 510, b"\x55\xaa");
    }

    /// Writes one copy of a GPT, with partitions by number, first and last sector.
    fn gpt_copy(image: &mut [u8], sector: u64, is_copy: bool, partitions: &[(u64, u64, u64)]) {
        let last = image.len() as u64 / sector - 1;
        let table = 16_384 / sector;
        let (own, other, entries) = match is_copy {
            false => (1, last, 2),
            true => (last, 1, last - table),
        };
        let mut array = vec![0; 16_384];
        for &(number, first, last) in partitions {
            let at = (number - 1) * 128;
            put(&mut array, at, &[7; 32]);
            put(&mut array, at + 32, &first.to_le_bytes());
            put(&mut array, at + 40, &last.to_le_bytes());
        }
        let mut header = vec![0; 92];
        put(&mut header, 0, b"EFI PART\0\0\x01\0");
        put(&mut header, 12, &92u32.to_le_bytes());
        for (at, lba) in [
            (24, own),
            (32, other),
            (40, 2 + table),
            (48, last - table - 1),
            (72, entries),
        ] {
            put(&mut header, at, &lba.to_le_bytes());
        }
        put(&mut header, 80, &128u32.to_le_bytes());
        put(&mut header, 84, &128u32.to_le_bytes());
        put(&mut header, 88, &crc32(&array).to_le_bytes());
        put(image, own * sector, &header);
        put(image, entries * sector, &array);
        seal(image, own * sector);
    }

    /// Writes the checksum of a header.
    fn seal(image: &mut [u8], at: u64) {
        put(image, at + 16, &[0; 4]);
        let start = usize::try_from(at).unwrap();
        let sum = crc32(&image[start..start + 92]);
        put(image, at + 16, &sum.to_le_bytes());
    }

    /// A disk with both copies of a GPT, behind the MBR that protects it.
    fn gpt_disk(sector: u64, partitions: &[(u64, u64, u64)]) -> Vec<u8> {
        let mut image = vec![0; SIZE];
        mbr_entry(&mut image, 0, 0, PROTECTIVE, 1, u32::MAX);
        for is_copy in [false, true] {
            gpt_copy(&mut image, sector, is_copy, partitions);
        }
        image
    }

    fn table(image: &[u8]) -> Result<PartitionTable, TableError> {
        PartitionTable::read(&MemoryBackend::new(image.to_vec()), |_| false)
    }

    #[test]
    fn the_checksum_is_that_of_the_specification() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_gpt_is_read_in_both_sizes_of_a_sector_and_from_its_copy() {
        for sector in SECTORS {
            let image = gpt_disk(sector, &[(2, MIB / sector, 2 * MIB / sector - 1)]);
            let whole = table(&image).unwrap();
            assert_eq!(
                (whole.is_gpt, whole.sector, whole.copy_used),
                (true, sector, None)
            );
            assert_eq!(whole.find(2), Ok(MIB..2 * MIB));
            let unused = TableError::Unused {
                number: 1,
                used: vec![2],
            };
            assert_eq!(whole.find(1), Err(unused));
            for (at, expected) in [
                (0, Damage::NoSignature),
                (40, Damage::HeaderChecksum),
                (16, Damage::HeaderChecksum),
                (sector, Damage::EntriesChecksum),
            ] {
                let mut image = image.clone();
                let byte = usize::try_from(sector + at).unwrap();
                image[byte] ^= 1;
                let table = table(&image).unwrap();
                assert_eq!(table.copy_used, Some(expected), "{sector} {at}");
                assert_eq!(table.find(2), Ok(MIB..2 * MIB));
                // The copy too.
                let last = image.len() - usize::try_from(sector).unwrap();
                image[last] ^= 1;
                let error = self::table(&image).unwrap_err();
                let (primary, copy) = (expected, Damage::NoSignature);
                assert_eq!(error, TableError::Damaged { primary, copy });
            }
        }
    }

    /// Every field of a header that is used, under a right checksum.
    #[test]
    fn every_field_out_of_its_bounds_is_damage() {
        let long: [(u64, &[u64], &str); 4] = [
            (24, &[0, 2, u64::MAX], "place"),
            (40, &[0, 1, u64::MAX, 1 << 60], "usable"),
            (48, &[0, 1 << 60], "usable"),
            (72, &[1 << 40, 1 << 60, u64::MAX], "place of entries"),
        ];
        let short: [(u64, &[u32], &str); 3] = [
            (12, &[0, 91, 513, u32::MAX], "length"),
            (80, &[0, 8193, u32::MAX], "number of entries"),
            (84, &[0, 1, 127, 129, u32::MAX], "entries"),
        ];
        let long = long.iter().flat_map(|(at, values, field)| {
            values
                .iter()
                .map(move |value| (*at, value.to_le_bytes().to_vec(), *field))
        });
        let short = short.iter().flat_map(|(at, values, field)| {
            values
                .iter()
                .map(move |value| (*at, value.to_le_bytes().to_vec(), *field))
        });
        for (at, value, expected) in long.chain(short) {
            let mut image = gpt_disk(512, &[(1, 2048, 4095)]);
            put(&mut image, 512 + at, &value);
            seal(&mut image, 512);
            let damage = table(&image).unwrap().copy_used.unwrap();
            let said = damage.to_string();
            let is_told = matches!(damage, Damage::Field(_))
                && (said.contains(expected) || at == 40 || at == 48);
            assert!(is_told, "{at} {value:?}: {said}");
        }
        // Other numbers of entries under the checksum of 128.
        for number in [1u32, 127, 129, 8192] {
            let mut image = gpt_disk(512, &[(1, 2048, 4095)]);
            put(&mut image, 512 + 80, &number.to_le_bytes());
            seal(&mut image, 512);
            assert_eq!(
                table(&image).unwrap().copy_used,
                Some(Damage::EntriesChecksum)
            );
        }
    }

    #[test]
    fn partitions_that_overlap_or_lead_out_are_refused() {
        let image = gpt_disk(
            512,
            &[
                (1, 2048, 4095),
                (2, 4000, 5000),
                (3, 6000, 6999),
                (4, 8000, 1 << 40),
                (5, 9000, 8999),
                (6, 1, 20),
                (7, 9, u64::MAX),
            ],
        );
        let table = table(&image).unwrap();
        assert_eq!(table.find(3), Ok(6000 * 512..7000 * 512));
        let overlap = |number, other| Err(TableError::Overlap { number, other });
        assert_eq!(table.find(1), overlap(1, 2));
        assert_eq!(table.find(2), overlap(2, 1));
        for number in [4, 5, 6, 7] {
            let error = table.find(number).unwrap_err();
            assert!(matches!(&error, TableError::Outside { .. }), "{error}");
            assert!(error.to_string().contains("repair the table"));
        }
    }

    #[test]
    fn an_mbr_has_primary_and_logical_partitions() {
        let mut image = vec![0; SIZE];
        mbr_entry(&mut image, 0, 0, 0x83, 2048, 2048);
        mbr_entry(&mut image, 0, 2, 0x05, 8192, 16_384);
        let chain = 4 * MIB;
        mbr_entry(&mut image, chain, 0, 0x83, 2048, 1024);
        mbr_entry(&mut image, chain, 1, 0x05, 4096, 4096);
        mbr_entry(&mut image, chain + 2 * MIB, 0, 0x83, 2048, 1024);
        let found = table(&image).unwrap();
        assert_eq!((found.is_gpt, found.sector), (false, 512));
        assert_eq!(found.find(1), Ok(MIB..2 * MIB));
        assert_eq!(found.find(5), Ok(5 * MIB..5 * MIB + MIB / 2));
        assert_eq!(found.find(6), Ok(7 * MIB..7 * MIB + MIB / 2));
        assert!(matches!(found.find(3), Err(TableError::Unused { .. })));
        // It counts in larger sectors if only then something is found.
        let mut image = vec![0; SIZE];
        mbr_entry(&mut image, 0, 0, 0x83, 256, 512);
        let backend = MemoryBackend::new(image.clone());
        let large = PartitionTable::read(&backend, |range| range.start == MIB).unwrap();
        assert_eq!((large.sector, large.find(1)), (4096, Ok(MIB..3 * MIB)));
        assert_eq!(table(&image).unwrap().find(1), Ok(MIB / 8..3 * MIB / 8));
        // A partition behind the end.
        mbr_entry(&mut image, 0, 1, 0x83, 2048, u32::MAX);
        assert!(matches!(
            table(&image).unwrap().find(2),
            Err(TableError::Outside { .. })
        ));
    }

    #[test]
    fn an_image_without_a_table_says_so() {
        for len in [0, 1, 511, 512, 4096] {
            for byte in [0, 0xff] {
                assert_eq!(table(&vec![byte; len]), Err(TableError::None));
            }
        }
        // The boot sector of a file system.
        let mut image = vec![0x90; 4096];
        put(&mut image, 510, b"\x55\xaa");
        assert_eq!(table(&image), Err(TableError::None));
        // Nothing protects a stale GPT.
        let mut image = gpt_disk(512, &[(1, 2048, 4095)]);
        put(&mut image, 446, &[0; 64]);
        assert!(!table(&image).unwrap().is_gpt);
        // A GPT is announced, and gone.
        let mut image = vec![0; SIZE];
        mbr_entry(&mut image, 0, 0, PROTECTIVE, 1, u32::MAX);
        let said = table(&image).unwrap_err().to_string();
        assert!(said.contains("GPT is damaged (it is missing)"), "{said}");
    }
}
