//! The blocks in which data is read and written, by its superblock or partition table. If a device has larger blocks,
//! the data on it cannot be mounted, and writes of these blocks are refused.

use std::fmt;

use scrim_luks::{Sample, Signature};

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

    /// Reads from a sample the blocks that each signature of the data tells.
    pub(crate) fn of(found: &[Signature], sample: &Sample<'_>) -> Vec<(Signature, Self)> {
        let found = found.iter().filter(|found| !may_be_remains(**found));
        found
            .map(|found| (*found, Self::of_one(*found, sample.start())))
            .collect()
    }

    /// Reads from the start of the data the blocks that one signature tells.
    fn of_one(signature: Signature, start: &[u8]) -> Self {
        match signature {
            Signature::Gpt => Self::gpt(start),
            // Nothing in an MBR says otherwise.
            Signature::Mbr => Self::Sectors(512),
            Signature::Ext => Self::ext(start),
            Signature::Xfs => Self::xfs(start),
            Signature::Btrfs => Self::btrfs(start),
            Signature::F2fs => Self::f2fs(start),
            Signature::Ntfs | Signature::Fat => Self::fat(start),
            Signature::ExFat => Self::exfat(start),
            // ISO 9660, section 6.1.2: logical sectors of 2048 bytes.
            Signature::Iso9660 => Self::Multiples(2048),
            // Pages of 4096 bytes at least; SquashFS is only read, in the device's own blocks.
            Signature::SquashFs | Signature::Swap => Self::Multiples(4096),
            _ => Self::Unknown,
        }
    }

    /// Combines the blocks that several signatures tell of the same data: a partition table decides, or else the
    /// smallest blocks. Partition tables that contradict each other give sectors of 512 bytes.
    pub(crate) fn of_all(told: impl Iterator<Item = Self> + Clone) -> Self {
        let sectors = |blocks: &Self| matches!(blocks, Self::Sectors(_));
        let mut tables = told.clone().filter(sectors);
        if let Some(first) = tables.next() {
            return match tables.all(|other| other == first) {
                true => first,
                false => Self::Sectors(512),
            };
        }
        let multiples = told.map(|blocks| match blocks {
            Self::Multiples(of) => Some(of),
            Self::Unknown | Self::Sectors(_) => None,
        });
        // The data of a signature that does not tell its blocks may need the smallest ones.
        let smallest = multiples.reduce(|a, b| Some(a?.min(b?))).flatten();
        smallest.map_or(Self::Unknown, Self::Multiples)
    }

    /// Sectors of a GPT, which starts in the second one; of one that says both, the smaller.
    fn gpt(start: &[u8]) -> Self {
        let is_header = |at: usize| {
            start
                .get(at..)
                .is_some_and(|rest| rest.starts_with(b"EFI PART"))
        };
        match (is_header(512), is_header(4096)) {
            (true, _) => Self::Sectors(512),
            (false, true) => Self::Sectors(4096),
            (false, false) => Self::Unknown,
        }
    }

    /// `s_log_block_size`, from 1 KiB on.
    fn ext(start: &[u8]) -> Self {
        Self::power(start, 1024 + 24, 10)
    }

    /// `sb_sectsize`, in which log and headers of allocation groups are written; blocks are larger.
    fn xfs(start: &[u8]) -> Self {
        let size = start.get(102..).and_then(|rest| rest.first_chunk());
        Self::multiples(size.map(|bytes| u64::from(u16::from_be_bytes(*bytes))))
    }

    /// `sectorsize`, the least that is written.
    fn btrfs(start: &[u8]) -> Self {
        Self::multiples(le32(start, 0x1_0090).map(u64::from))
    }

    /// Blocks of f2fs: `log_blocksize` of its superblock.
    fn f2fs(start: &[u8]) -> Self {
        Self::power(start, 0x410, 0)
    }

    /// Bytes per sector, at the same place in NTFS.
    fn fat(start: &[u8]) -> Self {
        let size = start.get(11..).and_then(|rest| rest.first_chunk());
        Self::multiples(size.map(|bytes| u64::from(u16::from_le_bytes(*bytes))))
    }

    /// Blocks of exFAT: `BytesPerSectorShift` of its boot sector.
    fn exfat(start: &[u8]) -> Self {
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

/// Returns whether a signature is often there beside the data in use: the two bytes of a boot sector before a file
/// system, or what an earlier use left at the end of the device or behind its start.
fn may_be_remains(signature: Signature) -> bool {
    matches!(
        signature,
        Signature::BootSector | Signature::Raid | Signature::Luks2Secondary
    )
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
