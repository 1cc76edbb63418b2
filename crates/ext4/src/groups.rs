//! Group descriptors ("Block Group Descriptors"): the place of each group's inodes.

use crate::checksum::crc32c;
use crate::error::Error;
use crate::fields::{join, u16_at, u32_at};
use crate::superblock::{self, Superblock};

/// Offset of a descriptor's checksum, in bytes.
const CHECKSUM: usize = 0x1e;

/// Place of a group's descriptor.
pub(crate) struct Location {
    pub(crate) block: u64,
    /// Offset in the block, in bytes.
    at: usize,
}

/// Finds the descriptor of `group`.
pub(crate) fn locate(superblock: &Superblock, group: u32) -> Result<Location, Error> {
    let size = u32::from(superblock.descriptor_size);
    let in_block = superblock.block_size / size;
    let block = block_of(superblock, group, in_block)
        .ok_or_else(|| Error::corrupt("the place of a group descriptor", 0))?;
    let at = (group % in_block * size) as usize;
    Ok(Location { block, at })
}

/// The block in which a group's inodes begin; `block` has its descriptor at `location`.
pub(crate) fn inode_table(
    superblock: &Superblock,
    group: u32,
    location: &Location,
    block: &[u8],
) -> Result<u64, Error> {
    let size = usize::from(superblock.descriptor_size);
    let descriptor = block
        .get(location.at..location.at + size)
        .ok_or_else(|| Error::corrupt("a group descriptor", 0))?;
    if let Some(seed) = superblock.seed {
        let crc = crc32c(crc32c(seed, &group.to_le_bytes()), &descriptor[..CHECKSUM]);
        let crc = crc32c(crc32c(crc, &[0; 2]), &descriptor[CHECKSUM + 2..]);
        // The low half is all that is stored.
        if crc & 0xffff != u32::from(u16_at(descriptor, CHECKSUM)) {
            return Err(Error::corrupt("a group descriptor's checksum is wrong", 0));
        }
    }
    let high = if size >= 64 {
        u32_at(descriptor, 0x28)
    } else {
        0
    };
    Ok(join(high, u32_at(descriptor, 0x8)))
}

/// The block that has a group's descriptor: behind the superblock, or in its own meta group.
fn block_of(superblock: &Superblock, group: u32, in_block: u32) -> Option<u64> {
    let nth = group / in_block;
    let first = u64::from(superblock.first_data_block);
    if nth < superblock.first_meta_group {
        // The descriptors follow the superblock, which is in the second block where blocks are that small.
        let superblock = superblock::OFFSET / u64::from(superblock.block_size);
        return (superblock + 1).checked_add(u64::from(nth));
    }
    let group = nth * in_block;
    let start = first + u64::from(group).checked_mul(u64::from(superblock.blocks_per_group))?;
    // With large clusters of small blocks the first group begins before the superblock.
    let is_early = superblock.block_size == 1024 && group == 0 && first == 0;
    Some(start + u64::from(superblock.has_copy(group)) + u64::from(is_early))
}
