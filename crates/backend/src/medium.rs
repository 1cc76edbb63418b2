//! What a backend lies on.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use rustix::fs::FsWord;
use rustix::io::{Errno, ReadWriteFlags};

/// The number of tmpfs among file systems (`statfs(2)`).
const TMPFS: FsWord = 0x0102_1994;

/// What stands between a request to a [`Backend`](crate::Backend) and its answer.
#[derive(Debug, Clone, Copy)]
pub enum Medium<'a> {
    /// Memory: a call returns once the bytes are copied.
    Memory,
    /// A file or a block device. Reads and writes of it may also be given to the kernel directly.
    File {
        /// Open for what the backend allows; its bytes are the backend's, at the same offsets.
        file: BorrowedFd<'a>,
        /// What the offset, the length and the memory of such requests must be multiples of, in bytes.
        alignment: u64,
        /// Whether the page cache lies between, so that most calls return as from memory.
        cached: bool,
    },
    /// Another machine, or another program: each call waits for an answer.
    Remote,
}

impl Medium<'_> {
    /// Fills `pieces`, one after the other, with the bytes from `offset` on that the page cache has; tells how
    /// many those were.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where the first of them is not there, or there is no page cache to ask.
    pub fn read_now(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Self::File {
            file, cached: true, ..
        } = self
        else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        match rustix::io::preadv2(file, pieces, offset, ReadWriteFlags::NOWAIT) {
            // Of tmpfs, which cannot tell, all is in memory.
            Err(Errno::OPNOTSUPP) if rustix::fs::fstatfs(file)?.f_type == TMPFS => {
                Ok(rustix::io::preadv(file, pieces, offset)?)
            }
            Err(Errno::OPNOTSUPP) => Err(io::ErrorKind::WouldBlock.into()),
            read => Ok(read?),
        }
    }
}
