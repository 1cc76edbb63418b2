//! From a place in a file to a place on the device ("The Contents of inode.i_block").

use crate::checksum::crc32c;
use crate::fields::{index, join, u16_at, u32_at};
use crate::inode::Inode;
use crate::layout::ROOT_LEN;
use crate::{Error, FileSystem, Patience};

/// Magic number of a node of extents.
const MAGIC: u16 = 0xf30a;
/// Bytes of a node's header, and of each entry.
const ENTRY: usize = 12;
/// Levels of a tree of extents.
const DEPTH_MAX: u16 = 5;
/// Most blocks of an extent; the length of one that is allocated and was never written counts from here on.
const WRITTEN_MAX: u16 = 32_768;
/// Blocks that the inode itself names, in the older map.
const DIRECT: usize = 12;

/// Bytes of a file that are in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Place of the first byte.
    pub place: Place,
    /// Number of bytes; zero at the end of the file.
    pub len: u64,
}

/// Place of bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the device, from this byte on.
    At(u64),
    /// Nowhere: they are zeros.
    Zeros,
}

impl Run {
    /// The rest of it behind its first `skip` bytes; it must have as many.
    #[must_use]
    pub fn from(self, skip: u64) -> Self {
        Self {
            place: match self.place {
                Place::At(at) => Place::At(at.saturating_add(skip)),
                Place::Zeros => Place::Zeros,
            },
            len: self.len.saturating_sub(skip),
        }
    }
}

/// Blocks of a file that follow each other, and the place where they begin; `None` where they are zeros.
struct Blocks {
    start: Option<u64>,
    count: u64,
}

impl FileSystem {
    /// Finds the bytes of a file from `offset` on, as far as they are together. The run is empty at the file's
    /// end and behind it.
    ///
    /// # Errors
    /// When the device fails, or the map is damaged.
    pub fn run(&self, inode: &Inode, offset: u64, mode: Patience) -> Result<Run, Error> {
        let left = inode.size().saturating_sub(offset);
        if left == 0 {
            return Ok(Run {
                place: Place::Zeros,
                len: 0,
            });
        }
        let size = u64::from(self.block_size());
        let (block, within) = (offset / size, offset % size);
        let blocks = if inode.has_extents() {
            self.extent(inode, block, mode)?
        } else {
            self.mapped(inode, block, mode)?
        };
        let len = blocks.count.saturating_mul(size) - within;
        let Some(start) = blocks.start else {
            return Ok(Run {
                place: Place::Zeros,
                len: len.min(left),
            });
        };
        let all = self.superblock().blocks;
        if start == 0 || start.checked_add(blocks.count).is_none_or(|end| end > all) {
            return Err(Error::corrupt(
                "a file's blocks are outside of the device",
                inode.number(),
            ));
        }
        Ok(Run {
            place: Place::At(start * size + within),
            len: len.min(left),
        })
    }

    fn extent(&self, inode: &Inode, wanted: u64, mode: Patience) -> Result<Blocks, Error> {
        let number = inode.number();
        let mut node = Node::root(inode)?;
        // First block at which the next extent can begin.
        let mut end = u64::from(u32::MAX) + 1;
        loop {
            let next = node.entry_after(wanted);
            if let Some(entry) = node.entry(next) {
                end = end.min(u64::from(u32_at(entry, 0)));
            }
            let hole = Blocks {
                start: None,
                count: end.saturating_sub(wanted).max(1),
            };
            let Some(entry) = next.checked_sub(1).and_then(|last| node.entry(last)) else {
                return Ok(hole);
            };
            if node.depth == 0 {
                return Ok(leaf(entry, wanted).unwrap_or(hole));
            }
            let child = join(u16_at(entry, 8).into(), u32_at(entry, 4));
            let block = self.block(child, number, mode)?;
            node = Node::child(&block, inode, node.depth - 1)?;
        }
    }

    /// Finds blocks by the map of ext2 and ext3: blocks of numbers of blocks, three levels deep.
    fn mapped(&self, inode: &Inode, wanted: u64, mode: Patience) -> Result<Blocks, Error> {
        let number = inode.number();
        if wanted < DIRECT as u64 {
            return Ok(following(&inode.root[..DIRECT * 4], index(wanted)));
        }
        let numbers = u64::from(self.block_size()) / 4;
        let mut rest = wanted - DIRECT as u64;
        // Number of blocks that one number of a level stands for.
        let mut span = 1;
        let mut level = 0;
        while rest >= span * numbers {
            rest -= span * numbers;
            span *= numbers;
            level += 1;
            if level == 3 {
                return Err(Error::corrupt("a file's size", number));
            }
        }
        let mut at = u64::from(u32_at(&inode.root, (DIRECT + level) * 4));
        loop {
            if at == 0 {
                return Ok(Blocks {
                    start: None,
                    count: span * numbers - rest,
                });
            }
            let block = self.block(at, number, mode)?;
            let nth = index(rest / span);
            if span == 1 {
                return Ok(following(&block, nth));
            }
            at = u32_at(&block, nth * 4).into();
            rest %= span;
            span /= numbers;
        }
    }
}

/// Blocks that a leaf's entry names from `wanted` on; `None` if the entry ends before.
fn leaf(entry: &[u8], wanted: u64) -> Option<Blocks> {
    let len = u16_at(entry, 4);
    let written = len <= WRITTEN_MAX;
    let len = if written { len } else { len - WRITTEN_MAX };
    let within = wanted - u64::from(u32_at(entry, 0));
    let count = u64::from(len)
        .checked_sub(within)
        .filter(|&count| count > 0)?;
    let start = join(u16_at(entry, 6).into(), u32_at(entry, 8));
    Some(Blocks {
        // An overflow gives an impossible place, which is found to be outside.
        start: written.then_some(start.saturating_add(within)),
        count,
    })
}

/// The numbers from `index` on that name blocks which follow each other, or that are zero.
fn following(numbers: &[u8], from: usize) -> Blocks {
    let mut rest = numbers
        .chunks_exact(4)
        .skip(from)
        .map(|number| u64::from(u32_at(number, 0)));
    let first = rest.next().unwrap_or(0);
    let step = u64::from(first > 0);
    let more = rest
        .zip(1..)
        .take_while(|&(number, nth)| number == first + nth * step)
        .count();
    Blocks {
        start: (first > 0).then_some(first),
        count: 1 + more as u64,
    }
}

/// A node of a tree of extents.
struct Node {
    /// The entries, in whole.
    entries: Vec<u8>,
    /// Number of levels below it.
    depth: u16,
}

impl Node {
    fn root(inode: &Inode) -> Result<Self, Error> {
        let node = Self::parse(&inode.root, inode.number())?;
        match node.depth {
            ..=DEPTH_MAX => Ok(node),
            _ => Err(Error::corrupt("the depth of its extents", inode.number())),
        }
    }

    fn child(block: &[u8], inode: &Inode, depth: u16) -> Result<Self, Error> {
        let node = Self::parse(block, inode.number())?;
        if node.depth != depth {
            return Err(Error::corrupt("the depth of its extents", inode.number()));
        }
        if let Some(seed) = inode.seed {
            let at = (usize::from(u16_at(block, 4)) + 1) * ENTRY;
            let sound = block.get(..at).is_some_and(|covered| {
                at + 4 <= block.len() && crc32c(seed, covered) == u32_at(block, at)
            });
            if !sound {
                let what = "a checksum of its extents is wrong";
                return Err(Error::corrupt(what, inode.number()));
            }
        }
        Ok(node)
    }

    fn parse(bytes: &[u8], number: u32) -> Result<Self, Error> {
        debug_assert!(bytes.len() >= ROOT_LEN);
        let count = usize::from(u16_at(bytes, 2));
        match bytes.get(ENTRY..(count + 1) * ENTRY) {
            Some(entries) if u16_at(bytes, 0) == MAGIC => Ok(Self {
                entries: entries.to_vec(),
                depth: u16_at(bytes, 6),
            }),
            _ => Err(Error::corrupt("its extents", number)),
        }
    }

    fn entry(&self, index: usize) -> Option<&[u8]> {
        self.entries.chunks_exact(ENTRY).nth(index)
    }

    /// The index of the first entry that begins behind a block. Entries are in order, or the result is as wrong
    /// as the tree is.
    fn entry_after(&self, block: u64) -> usize {
        let (mut low, mut high) = (0, self.entries.len() / ENTRY);
        while low < high {
            let middle = low.midpoint(high);
            if u64::from(u32_at(&self.entries, middle * ENTRY)) <= block {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
