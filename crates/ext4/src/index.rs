//! The index of a folder ("Hash Tree Directories"): from the hash of a name to the block that has it.
//!
//! An index that contradicts itself, or whose hashes cannot be made here, is left aside and the folder searched from
//! its front, as the kernel does: names are in the blocks, and the index only tells which. A wrong checksum is an
//! error, as for the kernel.

use std::sync::Arc;

use crate::checksum::crc32c;
use crate::fields::{u16_at, u32_at};
use crate::hash::Hasher;
use crate::{Budget, Error, FileSystem, Inode};

/// Offset of the root's description of itself, behind the entries for `.` and `..`.
const INFO: usize = 0x18;
/// Offset of a node's entries, in the root and below it. The first has limit and count for its hash.
const IN_ROOT: usize = 0x20;
const IN_NODE: usize = 0x8;
/// Bytes of an entry, and of the checksum's room behind the last.
const ENTRY: usize = 8;
const TAIL: usize = 8;
/// The bits of a block's number; the others are kept for other uses.
const NUMBER: u32 = 0x0fff_ffff;
/// Levels of nodes, without `large_dir` and with it.
const LEVELS: usize = 2;
const LEVELS_LARGE: usize = 3;

/// Answer of an index for a name.
pub(crate) enum Told {
    /// The inode of the name.
    There(u32),
    NotThere,
    /// No answer: the index is missing, or cannot be used.
    Nothing,
}

/// A node, and which of its entries leads on.
struct Node {
    block: Arc<[u8]>,
    /// Offset of its entries in the block.
    start: usize,
    count: usize,
    at: usize,
}

/// The way from the root to a block with names.
struct Way<'a> {
    fs: &'a FileSystem,
    folder: &'a Inode,
    budget: &'a Budget,
    levels: usize,
    nodes: Vec<Node>,
}

impl FileSystem {
    /// Looks for a name by a folder's index.
    pub(crate) fn lookup_indexed(
        &self,
        folder: &Inode,
        name: &[u8],
        budget: &Budget,
    ) -> Result<Told, Error> {
        let superblock = self.superblock();
        let has_index = superblock.has_indexes && folder.is_indexed() && folder.inline().is_none();
        // Hashes of names that are folded take the tables of Unicode.
        if !has_index || folder.is_casefolded() {
            return Ok(Told::Nothing);
        }
        let root = self.folder_block(folder, 0, budget)?;
        let [number, info_len, levels, flags] = [4, 5, 6, 7].map(|at| root[INFO + at]);
        let levels = usize::from(levels) + 1;
        let most = if superblock.has_large_folders {
            LEVELS_LARGE
        } else {
            LEVELS
        };
        let hasher = Hasher::new(number, superblock.hash_signs, superblock.hash_seed);
        let hash = hasher.and_then(|hasher| hasher.hash(name));
        let (Some(hash), 8, 0, true) = (hash, info_len, flags & 1, levels <= most) else {
            return Ok(Told::Nothing);
        };
        let mut way = Way {
            fs: self,
            folder,
            budget,
            levels,
            nodes: Vec::with_capacity(levels),
        };
        if !way.enter(root, IN_ROOT, hash)? {
            return Ok(Told::Nothing);
        }
        way.search(name, hash)
    }
}

impl Way<'_> {
    fn search(mut self, name: &[u8], hash: u32) -> Result<Told, Error> {
        if !self.go_down(hash)? {
            return Ok(Told::Nothing);
        }
        // More than one block is searched where names in different ones have the same hash.
        loop {
            let Some(number) = self.next_block() else {
                return Ok(Told::Nothing);
            };
            let found = self
                .fs
                .find_in_block(self.folder, number, name, self.budget)?;
            if let Some(inode) = found {
                return Ok(Told::There(inode));
            }
            if !self.advance(hash) {
                return Ok(Told::NotThere);
            }
            if !self.go_down(0)? {
                return Ok(Told::Nothing);
            }
        }
    }

    /// Goes down to the last level, by the entries for a hash. Returns whether all nodes are sound.
    fn go_down(&mut self, hash: u32) -> Result<bool, Error> {
        while self.nodes.len() < self.levels {
            let Some(number) = self.next_block() else {
                return Ok(false);
            };
            let block = self.fs.folder_block(self.folder, number, self.budget)?;
            if !self.enter(block, IN_NODE, hash)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn enter(&mut self, block: Arc<[u8]>, start: usize, hash: u32) -> Result<bool, Error> {
        let node = Node::parse(block, start, hash, self.folder)?;
        let is_node = node.is_some();
        self.nodes.extend(node);
        Ok(is_node)
    }

    /// Moves to the next entry, if that goes on with the same hash.
    fn advance(&mut self, hash: u32) -> bool {
        while let Some(node) = self.nodes.last_mut() {
            node.at += 1;
            if node.at < node.count {
                return node.hash(node.at) & !1 == hash;
            }
            self.nodes.pop();
        }
        false
    }

    /// The block of the folder that the last node's entry leads to; never the root again, nor one past the
    /// folder's end.
    fn next_block(&self) -> Option<u64> {
        let number = u64::from(self.nodes.last()?.block()) & u64::from(NUMBER);
        let blocks = self.folder.size() / u64::from(self.fs.block_size());
        (1..blocks).contains(&number).then_some(number)
    }
}

impl Node {
    /// A node, placed at its last entry that is not behind `hash`; `None` if the block is not a node.
    fn parse(
        block: Arc<[u8]>,
        start: usize,
        hash: u32,
        folder: &Inode,
    ) -> Result<Option<Self>, Error> {
        let tail = if folder.seed.is_some() { TAIL } else { 0 };
        let room = (block.len() - start - tail) / ENTRY;
        let limit = usize::from(u16_at(&block, start));
        let count = usize::from(u16_at(&block, start + 2));
        if limit != room || count == 0 || count > limit {
            return Ok(None);
        }
        if let Some(seed) = folder.seed {
            let (covered, tail) = block.split_at(start + limit * ENTRY);
            let crc = crc32c(seed, &covered[..start + count * ENTRY]);
            let crc = crc32c(crc32c(crc, &tail[..4]), &[0; 4]);
            if crc != u32_at(tail, 4) {
                let what = "a checksum of its index is wrong";
                return Err(Error::corrupt(what, folder.number()));
            }
        }
        let mut node = Self {
            block,
            start,
            count,
            at: 0,
        };
        node.at = node.last_before(hash);
        Ok(Some(node))
    }

    /// Finds the last entry that is not behind `hash`. Entries are in order, or the result is as wrong as the index is.
    fn last_before(&self, hash: u32) -> usize {
        let (mut low, mut high) = (1, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.hash(middle) <= hash {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low - 1
    }

    fn hash(&self, index: usize) -> u32 {
        u32_at(&self.block, self.start + index * ENTRY)
    }

    fn block(&self) -> u32 {
        u32_at(&self.block, self.start + self.at * ENTRY + 4)
    }
}
