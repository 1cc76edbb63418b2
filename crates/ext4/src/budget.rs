//! How much may be looked through for one search.

use std::cell::Cell;

use crate::Error;

/// How many bytes of folders a search may still read, from the disk or out of memory. Who shares one between
/// searches bounds them together: folders without an index are read from their front, and one path may lead
/// through thousands of them.
#[derive(Debug)]
pub struct Budget(Cell<u64>);

impl Budget {
    /// One of so many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(Cell::new(bytes))
    }

    /// Takes some of it, on the way through an inode.
    ///
    /// # Errors
    /// When there is not that much left; then nothing is.
    pub fn take(&self, bytes: u64, inode: u32) -> Result<(), Error> {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.unwrap_or(0));
        left.map(drop).ok_or(Error::SearchTooLong { inode })
    }
}
