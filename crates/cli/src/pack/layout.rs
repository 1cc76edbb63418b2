//! Size of an ext4 file system for a given content.

use super::folder::{BLOCK, Content};

/// Blocks of a group, as many as the bits of the block with its bitmap.
const GROUP: u64 = 8 * BLOCK;
/// Size of an inode in bytes.
const INODE: u64 = 256;
/// Inodes that each file system has: reserved ones, and `lost+found`.
const INODES_MIN: u64 = 11;
/// Descriptors of groups in a block.
const DESCRIPTORS: u64 = BLOCK / 64;
/// Most blocks that are reserved for further descriptors.
const RESERVED_MAX: u64 = 1024;
/// Factor by which a file system may grow later.
const GROWTH: u64 = 1024;
/// One inode for as many blocks, as mke2fs has it: 16 KiB.
const BLOCKS_PER_INODE: u64 = 4;

/// Free space in a new file system: a tenth of the content, and at least 16 MiB.
const FREE_PART: u64 = 10;
const FREE_MIN: u64 = (16 << 20) / BLOCK;
/// Blocks of `lost+found`, the root and further small things.
const OTHERS: u64 = 64;
/// Sizes are multiples of 1 MiB.
const STEP: u64 = (1 << 20) / BLOCK;
/// Smallest file system that has a journal.
const BLOCKS_MIN: u64 = 2048;

/// Size of a file system that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileSystem {
    pub(super) blocks: u64,
    pub(super) inodes: u64,
    /// Blocks of the journal.
    pub(super) journal: u64,
}

impl FileSystem {
    /// A file system that holds `content` and has some free space.
    pub(super) fn for_content(content: &Content) -> Self {
        let free = FREE_MIN.max(content.blocks / FREE_PART);
        let mut file_system = Self::of(content, BLOCKS_MIN);
        // Its own structures grow with it, by a small part.
        loop {
            let needed = file_system.needed(content).saturating_add(free);
            if needed <= file_system.blocks {
                return file_system;
            }
            let blocks = needed.checked_next_multiple_of(STEP).unwrap_or(needed);
            file_system = Self::of(content, blocks);
        }
    }

    /// A file system of this many blocks; the number that is needed where they are too few for `content`.
    pub(super) fn within(content: &Content, blocks: u64) -> Result<Self, u64> {
        let file_system = Self::of(content, blocks);
        match file_system.needed(content).max(BLOCKS_MIN) {
            needed if needed <= blocks => Ok(file_system),
            needed => Err(needed),
        }
    }

    /// Bytes that are written to make it with `content` in it, at most. Inodes that nothing uses are not written.
    pub(super) fn written(&self, content: &Content) -> u64 {
        let inodes = self.tables(content.inodes() + INODES_MIN);
        let blocks = self.needed(content) - self.tables(self.inodes) + inodes;
        blocks.saturating_mul(BLOCK)
    }

    fn of(content: &Content, blocks: u64) -> Self {
        let inodes = content.inodes();
        let inodes = inodes + inodes / FREE_PART + INODES_MIN + 16;
        Self {
            blocks,
            inodes: inodes.max(blocks / BLOCKS_PER_INODE),
            journal: journal(blocks),
        }
    }

    /// Blocks of `content` and of the file system's own structures.
    fn needed(&self, content: &Content) -> u64 {
        let groups = self.groups();
        let descriptors = groups.div_ceil(DESCRIPTORS);
        let grown = self.blocks.saturating_mul(GROWTH).min(u64::from(u32::MAX));
        let reserved = grown
            .div_ceil(GROUP)
            .div_ceil(DESCRIPTORS)
            .min(RESERVED_MAX);
        let copies = (0..groups).filter(|&group| has_superblock(group)).count() as u64;
        let structures = copies * (1 + descriptors + reserved)
            + 2 * groups
            + self.tables(self.inodes)
            + self.journal
            + OTHERS;
        // A file system has at most an inode for each block.
        structures.saturating_add(content.blocks).max(self.inodes)
    }

    fn groups(&self) -> u64 {
        self.blocks.div_ceil(GROUP)
    }

    /// Blocks of the tables of this many inodes, which are equally long in each group.
    fn tables(&self, inodes: u64) -> u64 {
        let groups = self.groups();
        groups * inodes.div_ceil(groups.max(1)).div_ceil(BLOCK / INODE)
    }
}

/// Returns whether a group has a copy of the superblock (`sparse_super`).
fn has_superblock(group: u64) -> bool {
    let is_power = |base: u64| {
        let mut power = base;
        while power < group {
            power *= base;
        }
        power == group
    };
    group <= 1 || [3, 5, 7].into_iter().any(is_power)
}

/// Blocks of the journal, as mke2fs chooses them.
fn journal(blocks: u64) -> u64 {
    match blocks {
        ..32_768 => 1024,
        32_768..262_144 => 4096,
        262_144..524_288 => 8192,
        524_288..4_194_304 => 16_384,
        4_194_304..8_388_608 => 32_768,
        8_388_608..16_777_216 => 65_536,
        16_777_216..33_554_432 => 131_072,
        _ => 262_144,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(files: u64, blocks: u64) -> Content {
        Content {
            files,
            blocks,
            ..Content::default()
        }
    }

    #[test]
    fn a_file_system_has_room_for_its_content_and_more() {
        for files in [0, 1, 10_000, 3_000_000] {
            for blocks in [0, 1000, 1 << 20, 1 << 32] {
                let content = content(files, blocks);
                let made = FileSystem::for_content(&content);
                assert!(made.blocks > blocks + FREE_MIN);
                assert!(made.inodes > files + INODES_MIN);
                assert!(made.blocks.is_multiple_of(STEP));
                assert_eq!(FileSystem::within(&content, made.blocks), Ok(made));
            }
        }
    }

    #[test]
    fn what_is_needed_is_named_where_it_does_not_fit() {
        let needed = FileSystem::within(&content(1, 10_000), 10_000).unwrap_err();
        assert!((10_001..14_000).contains(&needed), "{needed}");
        assert!(FileSystem::within(&content(1, 10_000), needed + STEP).is_ok());
    }

    #[test]
    fn copies_of_the_superblock_are_sparse() {
        let groups: Vec<_> = (0..130).filter(|&group| has_superblock(group)).collect();
        assert_eq!(groups, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    }
}
