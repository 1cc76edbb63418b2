//! The blocks in which data is read and written, by its superblock or partition table. If a device has larger blocks,
//! the data on it cannot be mounted, and writes of these blocks are refused.

use std::fmt;

/// The blocks that data needs of its device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// No signature tells the size.
    Unknown,
    /// The data is read and written in multiples of this.
    Multiples(u64),
    /// A partition table, which counts in sectors of this size.
    Sectors(u64),
}

impl Blocks {
    /// Checks whether a device with sectors of `size` bytes is known to be right.
    pub(crate) fn fit(self, size: u64) -> bool {
        match self {
            Self::Unknown => false,
            Self::Multiples(of) => of >= size,
            Self::Sectors(of) => of == size,
        }
    }

    pub(crate) fn unknown(_: &[u8]) -> Self {
        Self::Unknown
    }

    /// Combines the blocks that several signatures tell of the same data: a partition table decides, or else the
    /// smallest blocks. Partition tables that contradict each other give sectors of 512 bytes.
    pub(crate) fn of_all(told: &[Self]) -> Self {
        let sectors = |blocks: &&Self| matches!(blocks, Self::Sectors(_));
        let mut tables = told.iter().filter(sectors);
        if let Some(first) = tables.next() {
            return match tables.all(|other| other == first) {
                true => *first,
                false => Self::Sectors(512),
            };
        }
        let multiples = told.iter().map(|blocks| match blocks {
            Self::Multiples(of) => Some(*of),
            Self::Unknown | Self::Sectors(_) => None,
        });
        // Data whose signature does not tell may need the smallest blocks.
        let smallest = multiples.reduce(|a, b| Some(a?.min(b?))).flatten();
        smallest.map_or(Self::Unknown, Self::Multiples)
    }

    /// Partitions of an MBR, other than those that only protect a GPT; sectors have 512 bytes, since nothing in it says
    /// otherwise. A sector without partitions is the boot sector of something else, and so is one that begins like a
    /// file system whose boot sector ends as an MBR does.
    pub(crate) fn mbr(start: &[u8]) -> Self {
        let boot_sector = [
            (3, &b"NTFS    "[..]),
            (3, b"EXFAT   "),
            (54, b"FAT"),
            (82, b"FAT32"),
        ];
        let is_boot_sector = boot_sector
            .iter()
            .any(|(at, name)| start.get(*at..).is_some_and(|rest| rest.starts_with(name)));
        let entries = start.get(446..510).unwrap_or_default();
        let is_partition = |entry: &[u8; 16]| {
            entry[0] & 0x7f == 0 && !matches!(entry[4], 0 | 0xee) && entry[12..] != [0; 4]
        };
        match entries.as_chunks().0.iter().any(is_partition) && !is_boot_sector {
            true => Self::Sectors(512),
            false => Self::Unknown,
        }
    }

    pub(crate) fn sectors_of_512(_: &[u8]) -> Self {
        Self::Sectors(512)
    }

    pub(crate) fn sectors_of_4096(_: &[u8]) -> Self {
        Self::Sectors(4096)
    }

    /// ISO 9660, section 6.1.2: logical sectors of 2048 bytes.
    pub(crate) fn iso(_: &[u8]) -> Self {
        Self::Multiples(2048)
    }

    /// Pages of 4096 bytes, by the place of the signature; and `SquashFS`, which is only read, in the
    /// device's own blocks.
    pub(crate) fn pages(_: &[u8]) -> Self {
        Self::Multiples(4096)
    }

    /// `s_log_block_size`, from 1 KiB on.
    pub(crate) fn ext(start: &[u8]) -> Self {
        Self::power(start, 1024 + 24, 10)
    }

    /// `sb_sectsize`, in which log and headers of allocation groups are written; blocks are larger.
    pub(crate) fn xfs(start: &[u8]) -> Self {
        let size = start.get(102..).and_then(|rest| rest.first_chunk());
        Self::multiples(size.map(|bytes| u64::from(u16::from_be_bytes(*bytes))))
    }

    /// `sectorsize`, the least that is written.
    pub(crate) fn btrfs(start: &[u8]) -> Self {
        Self::multiples(le32(start, 0x1_0090).map(u64::from))
    }

    /// Blocks of f2fs: `log_blocksize` of its superblock.
    pub(crate) fn f2fs(start: &[u8]) -> Self {
        Self::power(start, 0x410, 0)
    }

    /// Bytes per sector, at the same place in NTFS.
    pub(crate) fn fat(start: &[u8]) -> Self {
        let size = start.get(11..).and_then(|rest| rest.first_chunk());
        Self::multiples(size.map(|bytes| u64::from(u16::from_le_bytes(*bytes))))
    }

    /// Blocks of exFAT: `BytesPerSectorShift` of its boot sector.
    pub(crate) fn exfat(start: &[u8]) -> Self {
        let shift = start.get(108).map(|shift| u32::from(*shift));
        Self::multiples(shift.and_then(|shift| 1_u64.checked_shl(shift)))
    }

    /// The power of two at `at`, of `times` more.
    fn power(start: &[u8], at: usize, times: u32) -> Self {
        let shift = le32(start, at).and_then(|shift| shift.checked_add(times));
        Self::multiples(shift.and_then(|shift| 1_u64.checked_shl(shift)))
    }

    /// Takes a size if it is one that blocks can have.
    fn multiples(size: Option<u64>) -> Self {
        match size {
            Some(size) if size.is_power_of_two() && (512..=1 << 20).contains(&size) => {
                Self::Multiples(size)
            }
            _ => Self::Unknown,
        }
    }
}

fn le32(start: &[u8], at: usize) -> Option<u32> {
    let bytes = start.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map(|bytes| u32::from_le_bytes(*bytes))
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("blocks of unknown size"),
            Self::Multiples(of) => write!(f, "blocks of {of} bytes"),
            Self::Sectors(of) => write!(f, "sectors of {of} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut start = vec![0; 70_000];
        start[at..at + bytes.len()].copy_from_slice(bytes);
        start
    }

    #[test]
    fn sizes_are_read_where_the_formats_have_them() {
        for (read, at, bytes, size) in [
            (Blocks::ext as fn(&[u8]) -> _, 1048, &[0][..], 1024),
            (Blocks::ext, 1048, &[2], 4096),
            (Blocks::xfs, 102, &[0x02, 0], 512),
            (Blocks::xfs, 102, &[0x10, 0], 4096),
            (Blocks::btrfs, 0x1_0090, &[0, 0x10], 4096),
            (Blocks::f2fs, 0x410, &[12], 4096),
            (Blocks::fat, 11, &[0, 2], 512),
            (Blocks::exfat, 108, &[9], 512),
            (Blocks::exfat, 108, &[12], 4096),
        ] {
            assert_eq!(read(&with(at, bytes)), Blocks::Multiples(size), "{at}");
        }
    }

    #[test]
    fn what_cannot_be_a_size_tells_nothing() {
        for (read, at, bytes) in [
            (Blocks::ext as fn(&[u8]) -> _, 1048, &[0xff; 4][..]),
            (Blocks::ext, 1048, &[64]),
            (Blocks::xfs, 102, &[0x02, 1]),
            (Blocks::f2fs, 0x410, &[200]),
            (Blocks::fat, 11, &[0, 0]),
            (Blocks::exfat, 108, &[0xff]),
        ] {
            assert_eq!(read(&with(at, bytes)), Blocks::Unknown, "{at}");
            assert_eq!(read(&[]), Blocks::Unknown);
        }
        assert!(!Blocks::Unknown.fit(4096));
    }
}
