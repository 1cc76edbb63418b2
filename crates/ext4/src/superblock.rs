//! The superblock ("Super Block"): the file system's measures and features.

use std::ops::Range;

use crate::Error;
use crate::checksum::crc32c;
use crate::fields::{join, u16_at, u32_at};
use crate::hash::Signs;

/// Offset of the superblock, from the first byte of the file system on.
pub(crate) const OFFSET: u64 = 1024;
/// Length of the superblock in bytes.
pub(crate) const LEN: usize = 1024;
/// Offsets of its checksum, and of the file system's UUID.
const CHECKSUM: usize = 0x3fc;
const UUID: Range<usize> = 0x68..0x78;

/// The smallest block, as a power of two.
const MIN_BLOCK: u32 = 10;
/// Number of times that the smallest block may be doubled: to 64 KiB.
const DOUBLED_MOST: u32 = 6;

/// Features that change how a file system is read.
mod incompat {
    pub(super) const RECOVER: u32 = 0x4;
    pub(super) const META_BG: u32 = 0x10;
    pub(super) const BIT64: u32 = 0x80;
    pub(super) const CSUM_SEED: u32 = 0x2000;
    pub(super) const LARGE_DIR: u32 = 0x4000;
    /// filetype, recover, meta_bg, extents, 64bit, mmp, flex_bg, ea_inode, metadata_csum_seed, large_dir,
    /// inline_data, encrypt, casefold. What is encrypted is refused file by file.
    pub(super) const KNOWN: u32 = 0x2
        | RECOVER
        | META_BG
        | 0x40
        | BIT64
        | 0x100
        | 0x200
        | 0x400
        | CSUM_SEED
        | LARGE_DIR
        | 0x8000
        | 0x1_0000
        | 0x2_0000;
}

/// Features that ext2 and ext3 have: filetype, recover, meta_bg, and of `s_feature_ro_compat` sparse_super, large_file,
/// btree_dir.
const INCOMPAT_BEFORE_EXT4: u32 = 0x2 | incompat::RECOVER | incompat::META_BG;
const RO_COMPAT_BEFORE_EXT4: u32 = 0x7;

/// Features that do not matter to readers, but for where copies of the superblock are.
const COMPAT_SPARSE_SUPER2: u32 = 0x200;
const RO_COMPAT_SPARSE_SUPER: u32 = 0x1;
const RO_COMPAT_METADATA_CSUM: u32 = 0x400;

/// A journal (`s_feature_compat`), and folders with an index.
const COMPAT_HAS_JOURNAL: u32 = 0x4;
const COMPAT_DIR_INDEX: u32 = 0x20;
/// Signedness of bytes of names in hashes (`s_flags`).
const SIGNED_HASH: u32 = 0x1;
const UNSIGNED_HASH: u32 = 0x2;
/// Flag of a file system that was unmounted (`s_state`).
const STATE_VALID: u16 = 0x1;

/// Layout and features of a file system.
#[derive(Debug, Clone)]
pub(crate) struct Superblock {
    pub(crate) uuid: [u8; 16],
    pub(crate) family: &'static str,
    /// Bytes of a block: a power of two from 1 KiB to 64 KiB.
    pub(crate) block_size: u32,
    pub(crate) blocks: u64,
    pub(crate) space: Space,
    pub(crate) first_data_block: u32,
    pub(crate) blocks_per_group: u32,
    pub(crate) inodes: u32,
    pub(crate) inodes_per_group: u32,
    /// Bytes of an inode: a power of two from 128 to the block size.
    pub(crate) inode_size: u16,
    /// Bytes of a group's descriptor.
    pub(crate) descriptor_size: u16,
    /// First meta group from which on descriptors are with their groups.
    pub(crate) first_meta_group: u32,
    pub(crate) copies: Copies,
    /// Seed of the checksums of metadata, if there are any.
    pub(crate) seed: Option<u32>,
    /// True if folders may have an index, and one of three levels.
    pub(crate) has_indexes: bool,
    pub(crate) has_large_folders: bool,
    /// Seed of the hashes of names, and the signedness of their bytes.
    pub(crate) hash_seed: [u32; 4],
    pub(crate) hash_signs: Signs,
}

/// Space of a file system, as it was recorded by the last that unmounted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Blocks that can hold files: all but those of tables and of the journal, if their number is recorded.
    pub blocks: u64,
    pub free_blocks: u64,
    /// Free blocks that are kept for root.
    pub reserved_blocks: u64,
    pub inodes: u32,
    pub free_inodes: u32,
}

impl Space {
    /// `high` has the upper half of a number at its offset, or zero.
    fn parse(bytes: &[u8; LEN], high: impl Fn(usize) -> u32) -> Self {
        let blocks = join(high(0x150), u32_at(bytes, 0x4));
        // Clusters (`bigalloc`) have a power of two of blocks.
        let doubled = u32_at(bytes, 0x1c).saturating_sub(u32_at(bytes, 0x18));
        let overhead = u64::from(u32_at(bytes, 0x248)) << doubled.min(u32::BITS);
        Self {
            blocks: blocks.saturating_sub(overhead),
            free_blocks: join(high(0x158), u32_at(bytes, 0xc)),
            reserved_blocks: join(high(0x154), u32_at(bytes, 0x8)),
            inodes: u32_at(bytes, 0),
            free_inodes: u32_at(bytes, 0x10),
        }
    }
}

/// Groups that begin with a copy of the superblock.
#[derive(Debug, Clone)]
pub(crate) enum Copies {
    All,
    /// 0, 1 and powers of 3, 5 and 7.
    Sparse,
    /// Group 0 and the groups of these numbers.
    Listed([u32; 2]),
}

/// Name of the file system by its features, as blkid tells it.
fn family(has_journal: bool, incompat: u32, ro_compat: u32) -> &'static str {
    let later = incompat & !INCOMPAT_BEFORE_EXT4 | ro_compat & !RO_COMPAT_BEFORE_EXT4;
    match (later, has_journal) {
        (0, true) => "ext3",
        (0, false) => "ext2",
        _ => "ext4",
    }
}

impl Superblock {
    pub(crate) fn parse(bytes: &[u8; LEN]) -> Result<Self, Error> {
        if u16_at(bytes, 0x38) != 0xef53 {
            return Err(Error::NoFileSystem);
        }
        let (compat, incompat, ro_compat) = (
            u32_at(bytes, 0x5c),
            u32_at(bytes, 0x60),
            u32_at(bytes, 0x64),
        );
        let has_checksums = ro_compat & RO_COMPAT_METADATA_CSUM != 0;
        if has_checksums && u32_at(bytes, CHECKSUM) != crc32c(!0, &bytes[..CHECKSUM]) {
            return Err(Error::corrupt("the superblock's checksum is wrong", 0));
        }
        let unknown = incompat & !incompat::KNOWN;
        if unknown != 0 {
            return Err(Error::Features { unknown });
        }
        let has_journal = compat & COMPAT_HAS_JOURNAL != 0;
        let is_valid = has_journal || u16_at(bytes, 0x3a) & STATE_VALID != 0;
        if incompat & incompat::RECOVER != 0 || !is_valid {
            return Err(Error::NotUnmounted);
        }
        let is_64bit = incompat & incompat::BIT64 != 0;
        let high = |at: usize| if is_64bit { u32_at(bytes, at) } else { 0 };
        let doubled = u32_at(bytes, 0x18);
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[UUID]);
        let superblock = Self {
            uuid,
            family: family(has_journal, incompat, ro_compat),
            block_size: 1 << (MIN_BLOCK + doubled.min(DOUBLED_MOST)),
            blocks: join(high(0x150), u32_at(bytes, 0x4)),
            space: Space::parse(bytes, high),
            first_data_block: u32_at(bytes, 0x14),
            blocks_per_group: u32_at(bytes, 0x20),
            inodes: u32_at(bytes, 0),
            inodes_per_group: u32_at(bytes, 0x28),
            // Revision 0 has no field for it.
            inode_size: match u32_at(bytes, 0x4c) {
                0 => 128,
                _ => u16_at(bytes, 0x58),
            },
            descriptor_size: if is_64bit { u16_at(bytes, 0xfe) } else { 32 },
            first_meta_group: match incompat & incompat::META_BG {
                0 => u32::MAX,
                _ => u32_at(bytes, 0x104),
            },
            copies: if compat & COMPAT_SPARSE_SUPER2 != 0 {
                Copies::Listed([u32_at(bytes, 0x24c), u32_at(bytes, 0x250)])
            } else if ro_compat & RO_COMPAT_SPARSE_SUPER != 0 {
                Copies::Sparse
            } else {
                Copies::All
            },
            seed: has_checksums.then(|| match incompat & incompat::CSUM_SEED {
                0 => crc32c(!0, &uuid),
                _ => u32_at(bytes, 0x270),
            }),
            has_indexes: compat & COMPAT_DIR_INDEX != 0,
            has_large_folders: incompat & incompat::LARGE_DIR != 0,
            hash_seed: [0xec, 0xf0, 0xf4, 0xf8].map(|at| u32_at(bytes, at)),
            hash_signs: match u32_at(bytes, 0x160) & (SIGNED_HASH | UNSIGNED_HASH) {
                SIGNED_HASH => Signs::Signed,
                0 => Signs::Unknown,
                _ => Signs::Unsigned,
            },
        };
        superblock.check(doubled, is_64bit)?;
        Ok(superblock)
    }

    fn check(&self, doubled: u32, is_64bit: bool) -> Result<(), Error> {
        let wrong = |what| Err(Error::corrupt(what, 0));
        let block = self.block_size;
        let inode = u32::from(self.inode_size);
        let descriptor = u32::from(self.descriptor_size);
        if doubled > DOUBLED_MOST {
            return wrong("the block size");
        }
        if !inode.is_power_of_two() || inode < 128 || inode > block {
            return wrong("the size of inodes");
        }
        let least = if is_64bit { 64 } else { 32 };
        if !descriptor.is_power_of_two() || descriptor < least || descriptor > block {
            return wrong("the size of group descriptors");
        }
        if self.blocks_per_group == 0 || self.inodes_per_group == 0 {
            return wrong("the size of groups");
        }
        if u64::from(self.first_data_block) >= self.blocks
            || self.blocks.checked_mul(u64::from(block)).is_none()
        {
            return wrong("the number of blocks");
        }
        Ok(())
    }

    /// Returns whether a group begins with a copy of the superblock.
    pub(crate) fn has_copy(&self, group: u32) -> bool {
        let is_power_of = |base: u32| {
            let mut power = base;
            while power < group {
                power = power.saturating_mul(base);
            }
            power == group
        };
        match &self.copies {
            Copies::All => true,
            Copies::Listed(groups) => group == 0 || groups.contains(&group),
            Copies::Sparse => group <= 1 || [3, 5, 7].into_iter().any(is_power_of),
        }
    }
}
