//! The medium that a backend's storage lies on.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, ReadWriteFlags};

use crate::{BlockLocks, Cached, PageCache};

/// The medium between a request to a [`Backend`](crate::Backend) and its answer.
#[derive(Debug, Clone, Copy)]
pub enum Medium<'a> {
    /// Memory: a call returns once the bytes are copied.
    Memory,
    /// A file or a block device. Reads and writes of it may also be given to the kernel directly.
    File {
        /// Open for what the backend allows; the backend's bytes are in it, from `start` on.
        file: BorrowedFd<'a>,
        /// Place in `file` of the backend's first byte.
        start: u64,
        /// Number of bytes of which the offset, the length and the memory address of such requests must be multiples.
        alignment: u64,
        /// The file's page cache, where it lies between, so that most calls return as from memory.
        cached: Option<&'a PageCache>,
        /// Locks that direct writes to `file` share while they are in flight; `None` where the backend changes no
        /// parts of blocks. A thread that holds one must not call the backend's writes, which wait for them.
        blocks: Option<&'a BlockLocks>,
    },
    /// Another machine, or another program: each call waits for an answer.
    Remote {
        /// Bytes of the longest call that becomes one request.
        longest: usize,
        /// Bytes of each call of a caller that would have only one to make: several take turns at the processor, the
        /// network and the storage. The same as `longest` where each request costs more than that saves.
        alone: usize,
    },
}

impl Medium<'_> {
    /// Returns those of the `len` bytes from `offset` on that the page cache has, in place; `None` where they
    /// cannot be used there, or none is in memory.
    #[must_use]
    pub fn cached_now(&self, offset: u64, len: usize) -> Option<Cached> {
        match self {
            Self::File {
                file,
                start,
                cached: Some(cache),
                ..
            } => cache.now(*file, start.checked_add(offset)?, len),
            _ => None,
        }
    }

    /// Fills `pieces`, one after the other, with the bytes from `offset` on that the page cache has. Returns their
    /// number.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where the first of them is not in memory, or cannot be read in this way.
    pub fn read_now(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Self::File {
            file,
            start,
            cached: Some(_),
            ..
        } = self
        else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let Some(at) = start.checked_add(offset) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        match rustix::io::preadv2(file, pieces, at, ReadWriteFlags::NOWAIT) {
            // Some file systems cannot tell (preadv2(2)).
            Err(Errno::OPNOTSUPP) => Err(io::ErrorKind::WouldBlock.into()),
            read => Ok(read?),
        }
    }
}
