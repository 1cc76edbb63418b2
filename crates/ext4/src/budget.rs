//! Limit of the bytes that one search may look through.

use std::cell::Cell;

use crate::Error;

/// Blocks of folders count for no less than this, however small they are: each is looked for, checked and parsed.
const BLOCK_MIN: u64 = 4096;

/// Bytes of folders that a search may still read, from the disk or out of memory. A caller that shares one
/// budget between searches bounds them together: folders without an index are read from their front, and one
/// path may lead through thousands of them.
#[derive(Debug)]
pub struct Budget(Cell<u64>);

impl Budget {
    /// Makes a budget of `bytes` bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(Cell::new(bytes))
    }

    /// Takes a block's worth.
    pub(crate) fn take_block(&self, block_size: u32, inode: u32) -> Result<(), Error> {
        self.take(u64::from(block_size).max(BLOCK_MIN), inode)
    }

    /// Takes `bytes` of it, on the way through an inode.
    ///
    /// # Errors
    /// When fewer are left; then it takes none.
    pub fn take(&self, bytes: u64, inode: u32) -> Result<(), Error> {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.unwrap_or(0));
        left.map(drop).ok_or(Error::SearchTooLong { inode })
    }
}
