//! Limits of a FUSE session, beside [those of every server](crate::limits).

use std::thread;
use std::time::Duration;

/// Most bytes of a read or a write: the kernel's own limit where pages have 4 KiB (`fs.fuse.max_pages_limit`).
pub(super) const PAYLOAD: usize = 1 << 20;

/// Most threads of a session. Each has a buffer of [`PAYLOAD`] and a page, so a session has at most 16 MiB.
pub(super) const THREADS: usize = 16;

/// Least threads of a session: one that waits for the storage leaves others for requests that need not wait.
const LEAST_THREADS: usize = 4;

/// Time for a lazy unmount, and for the threads at the end.
pub(super) const END: Duration = Duration::from_secs(5);

/// Longest wait for an answer of the storage while a mount is made, or taken away in order.
pub const STALL: Duration = Duration::from_secs(45);

/// Pause between two looks at threads or processes that are about to end.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// Most bytes of a helper program's message that are kept.
pub(super) const MESSAGE: u64 = 4096;

/// Number of requests of one program's asynchronous I/O, read-ahead or writing back that the kernel keeps for a session of
/// `threads` threads. A small read of another program waits behind all of them, which are up to 1 MiB each; more than one
/// that waits for each thread brings nothing.
pub(super) fn background(threads: usize) -> u16 {
    u16::try_from(2 * threads).unwrap_or(u16::MAX)
}

/// Number of threads of a session: twice the processors, so that some can wait for the storage.
pub(super) fn threads() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (2 * processors).clamp(LEAST_THREADS, THREADS)
}
