//! What a backend lies on.

use std::os::fd::BorrowedFd;

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
