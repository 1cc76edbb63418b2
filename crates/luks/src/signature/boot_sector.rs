//! The first sector: a boot sector of a file system, or an MBR. Both end with the same two bytes.

use super::sample::Sample;

const SIGNATURE: [u8; 2] = [0x55, 0xaa];
/// Offset of the first of the four partitions of an MBR.
const PARTITIONS: u64 = 446;
/// Type of the partition that protects a GPT.
const PROTECTIVE: u8 = 0xee;

/// Highest number of clusters with entries of 12, 16 and 32 bits.
const FAT12_CLUSTERS: u64 = 0xff4;
const FAT16_CLUSTERS: u64 = 0xfff4;
const FAT32_CLUSTERS: u64 = 0x0fff_fff6;

/// GUID of BitLocker To Go, behind a boot sector that looks like one of FAT32.
const BITLOCKER_TO_GO: [u8; 16] = [
    0x3b, 0xd6, 0x67, 0x49, 0x29, 0x2e, 0xd8, 0x4a, 0x83, 0x99, 0xf6, 0xa3, 0x39, 0xe3, 0xd0, 0x01,
];

/// A partition of an MBR.
struct Partition {
    boot_flag: u8,
    kind: u8,
    start: u32,
    sectors: u32,
}

impl Partition {
    fn is_used(&self) -> bool {
        self.kind != 0 && self.sectors != 0
    }
}

fn partitions(sample: &Sample<'_>) -> impl Iterator<Item = Option<Partition>> {
    (0..4).map(|number| {
        let entry = PARTITIONS + 16 * number;
        Some(Partition {
            boot_flag: sample.byte(entry)?,
            kind: sample.byte(entry + 4)?,
            start: sample.le32(entry + 8)?,
            sectors: sample.le32(entry + 12)?,
        })
    })
}

/// Returns whether each entry of an MBR says that it can be booted, or that it cannot.
pub(super) fn has_boot_flags(sample: &Sample<'_>) -> bool {
    partitions(sample).all(|partition| partition.is_some_and(|it| matches!(it.boot_flag, 0 | 0x80)))
}

/// Returns whether the sector ends as a boot sector and as an MBR do.
pub(super) fn is_boot_sector(sample: &Sample<'_>) -> bool {
    sample.starts_with(510, &SIGNATURE)
}

/// Returns whether it is an MBR with partitions, other than the one that protects a GPT.
pub(super) fn is_mbr(sample: &Sample<'_>) -> bool {
    let mut used = partitions(sample).flatten().filter(Partition::is_used);
    is_boot_sector(sample)
        && has_boot_flags(sample)
        && used.any(|partition| partition.kind != PROTECTIVE)
}

/// Returns whether it is an MBR that protects a GPT.
pub(super) fn is_protective_mbr(sample: &Sample<'_>) -> bool {
    let mut partitions = partitions(sample).flatten();
    is_boot_sector(sample) && partitions.any(|partition| partition.kind == PROTECTIVE)
}

/// Returns whether an MBR has a partition in which this sector lies. One that protects a GPT counts as the whole disk,
/// whose sectors 32 bits may not be able to count.
pub(super) fn is_in_partition(sample: &Sample<'_>, sector: u64) -> bool {
    let within = |partition: Partition| {
        let start = u64::from(partition.start);
        let sectors = start..start + u64::from(partition.sectors);
        partition.kind == PROTECTIVE || partition.is_used() && sectors.contains(&sector)
    };
    is_boot_sector(sample) && has_boot_flags(sample) && partitions(sample).flatten().any(within)
}

/// Returns whether it is the boot sector of a file system or of `BitLocker`, and so no MBR.
pub(super) fn is_of_file_system(sample: &Sample<'_>) -> bool {
    is_fat(sample) || is_exfat(sample) || is_ntfs(sample) || is_bitlocker(sample)
}

/// FAT12, FAT16 or FAT32: a name where each has one, or the end of a boot sector, and a parameter block that is
/// possible.
pub(super) fn is_fat(sample: &Sample<'_>) -> bool {
    let in_fat32 = [&b"MSWIN"[..], b"FAT32   "];
    let in_fat16 = [&b"MSDOS"[..], b"FAT16   ", b"FAT12   ", b"FAT     "];
    let has_name = in_fat32.iter().any(|name| sample.starts_with(82, name))
        || !sample.is_in_label(54) && in_fat16.iter().any(|name| sample.starts_with(54, name));
    // JFS and HPFS have a boot sector with the same end.
    let others = [&b"JFS     "[..], b"HPFS    "];
    let of_another = others.iter().any(|name| sample.starts_with(54, name));
    (has_name || is_boot_sector(sample) && !of_another)
        && fat_parameters(sample).is_some()
        && !is_bitlocker(sample)
}

/// The parameter block of FAT, if the values in it are possible together.
fn fat_parameters(sample: &Sample<'_>) -> Option<()> {
    let sector_size = u64::from(sample.le16(11)?);
    let cluster = u64::from(sample.byte(13)?);
    let reserved = u64::from(sample.le16(14)?);
    let tables = u64::from(sample.byte(16)?);
    let root_entries = u64::from(sample.le16(17)?);
    let media = sample.byte(21)?;
    let short_len = sample.le16(22)?;
    let possible = matches!(sector_size, 512 | 1024 | 2048 | 4096)
        && cluster.is_power_of_two()
        && reserved != 0
        && tables != 0
        && matches!(media, 0xf0 | 0xf8..);
    let sectors = match sample.le16(19)? {
        0 => sample.le32(32)?,
        sectors => sectors.into(),
    };
    let table_len = match short_len {
        0 => sample.le32(36)?,
        len => len.into(),
    };
    if !possible {
        return None;
    }
    let root = (32 * root_entries).div_ceil(sector_size);
    let before_data = reserved + tables * u64::from(table_len) + root;
    let clusters = u64::from(sectors).checked_sub(before_data)? / cluster;
    let limit = match short_len {
        0 if table_len != 0 => FAT32_CLUSTERS,
        _ if clusters > FAT12_CLUSTERS => FAT16_CLUSTERS,
        _ => FAT12_CLUSTERS,
    };
    (clusters <= limit).then_some(())
}

/// exFAT: its name, zeros where FAT has its parameters, and sizes that are possible.
pub(super) fn is_exfat(sample: &Sample<'_>) -> bool {
    let zeros = sample.from(11).get(..53);
    sample.starts_with(3, b"EXFAT   ")
        && zeros.is_some_and(|zeros| zeros.iter().all(|&byte| byte == 0))
        && matches!(sample.byte(108), Some(9..=12))
        && matches!(sample.byte(110), Some(1 | 2))
}

/// NTFS: its name, a size of sectors, and zeros in the fields that only FAT uses.
pub(super) fn is_ntfs(sample: &Sample<'_>) -> bool {
    sample.starts_with(3, b"NTFS    ")
        && matches!(sample.le16(11), Some(256 | 512 | 1024 | 2048 | 4096))
        && sample.starts_with(14, &[0; 7])
        && sample.le16(22) == Some(0)
}

/// `BitLocker`, by its name, or by its GUID where the boot sector is one of FAT32.
pub(super) fn is_bitlocker(sample: &Sample<'_>) -> bool {
    sample.starts_with(3, b"-FVE-FS-")
        || sample.starts_with(3, b"MSWIN4.1") && sample.starts_with(424, &BITLOCKER_TO_GO)
}
