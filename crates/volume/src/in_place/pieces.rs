//! A device in pieces: copies within it, and its zeros.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use scrim_backend::{Backend, Durability, Medium};
use scrim_sys::memory::DataBuffer;

use super::error::InPlaceError;

/// Bytes that are moved at a time.
pub(super) const PIECE: usize = 1 << 20;

/// Pieces that are moved at a time on storage that takes long to answer. They share its line, and each has the time limit
/// of a request.
const REMOTE: usize = 4;

/// Bytes that a power cut does not tear.
pub(super) const SECTOR: usize = 512;

/// Copies within a device, one piece after the other: of what a killed process has sent to a server, no more than one
/// write may be late, and meet the next attempt.
pub(super) fn copy(
    backend: &dyn Backend,
    from: u64,
    to: u64,
    len: u64,
) -> Result<(), InPlaceError> {
    let mut buffer = DataBuffer::zeroed(PIECE);
    for (at, len) in pieces(len) {
        let piece = &mut buffer[..len];
        backend.read_at(from + at, piece)?;
        backend.write_at(to + at, piece, Durability::Cached)?;
    }
    Ok(())
}

/// Does `work` for each piece of `len` bytes, with its offset and a buffer of its length. On remote storage the work on
/// [`REMOTE`] pieces is under way at a time, in any order, so no piece may depend on another.
///
/// # Errors
/// The first error that `work` returns; then no further piece is begun.
pub(super) fn for_each(
    backend: &dyn Backend,
    len: u64,
    work: impl Fn(u64, &mut [u8]) -> Result<(), InPlaceError> + Sync,
) -> Result<(), InPlaceError> {
    let at_a_time = match backend.medium() {
        Medium::Remote { .. } => REMOTE,
        _ => 1,
    };
    let left = Mutex::new(pieces(len));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let has_failed = AtomicBool::new(false);
    let run = || {
        let mut buffer = DataBuffer::zeroed(PIECE);
        while !has_failed.load(Ordering::Relaxed)
            && let Some((at, len)) = next()
        {
            let failed = FailedUnless::new(&has_failed);
            work(at, &mut buffer[..len])?;
            failed.disarm();
        }
        Ok(())
    };
    let others = pieces(len).count().min(at_a_time).saturating_sub(1);
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, run).ok();
        let threads: Vec<_> = (0..others).map_while(spawn).collect();
        // This thread works too, so everything is done where the system gives no other.
        let mut result = run();
        for thread in threads {
            let ended = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            result = result.and(ended);
        }
        result
    })
}

/// Sets a flag when it is dropped, by an error or a panic, unless it was disarmed.
struct FailedUnless<'a>(Option<&'a AtomicBool>);

impl<'a> FailedUnless<'a> {
    fn new(flag: &'a AtomicBool) -> Self {
        Self(Some(flag))
    }

    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for FailedUnless<'_> {
    fn drop(&mut self) {
        if let Some(flag) = self.0 {
            flag.store(true, Ordering::Relaxed);
        }
    }
}

/// Offset and length of each piece of `len` bytes.
pub(super) fn pieces(len: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..len).step_by(PIECE).map(move |at| {
        let left = usize::try_from(len - at).unwrap_or(PIECE);
        (at, left.min(PIECE))
    })
}

/// Checks whether a range is all zeros.
pub(super) fn are_zeros(backend: &dyn Backend, from: u64, end: u64) -> Result<bool, InPlaceError> {
    let mut buffer = DataBuffer::zeroed(PIECE);
    for (at, len) in pieces(end.saturating_sub(from)) {
        let piece = &mut buffer[..len];
        backend.read_at(from + at, piece)?;
        if !is_zero(piece) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks whether all bytes are zero.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::ops::Range;
    use std::sync::Condvar;
    use std::time::Duration;

    use scrim_backend::{BackendError, HeaderLock, Info, LockKind, MemoryBackend, Operation};

    use super::*;

    /// Memory that counts as remote. Its first read waits for a second one, and a write at `broken` fails.
    struct Remote {
        memory: MemoryBackend,
        reads: Mutex<usize>,
        second: Condvar,
        broken: Option<u64>,
    }

    impl Remote {
        fn new(size: usize, broken: Option<u64>) -> Self {
            let bytes = (0..size).map(|at| (at / 7).to_le_bytes()[0]).collect();
            Self {
                memory: MemoryBackend::new(bytes),
                reads: Mutex::new(0),
                second: Condvar::new(),
                broken,
            }
        }
    }

    impl Backend for Remote {
        fn info(&self) -> Info {
            self.memory.info()
        }

        fn medium(&self) -> Medium<'_> {
            Medium::Remote {
                longest: PIECE,
                alone: PIECE,
            }
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
            let mut reads = self.reads.lock().unwrap();
            *reads += 1;
            self.second.notify_all();
            let limit = Duration::from_secs(60);
            let waited = self
                .second
                .wait_timeout_while(reads, limit, |reads| *reads < 2);
            assert!(!waited.unwrap().1.timed_out(), "one piece at a time");
            self.memory.read_at(offset, buffer)
        }

        fn write_at(
            &self,
            offset: u64,
            data: &[u8],
            durability: Durability,
        ) -> Result<(), BackendError> {
            if self.broken == Some(offset) {
                let len = data.len() as u64;
                let operation = Operation::Write { offset, len };
                return Err(BackendError::new(
                    operation,
                    "memory",
                    io::Error::other("broken"),
                ));
            }
            self.memory.write_at(offset, data, durability)
        }

        fn flush(&self) -> Result<(), BackendError> {
            self.memory.flush()
        }

        fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
            self.memory.discard(range)
        }

        fn write_zeroes(
            &self,
            range: Range<u64>,
            durability: Durability,
        ) -> Result<(), BackendError> {
            self.memory.write_zeroes(range, durability)
        }

        fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
            self.memory.lock_header(kind)
        }
    }

    const LEN: usize = 11 * PIECE + 700;

    /// Copies the first half over the second.
    fn move_on(remote: &Remote) -> Result<(), InPlaceError> {
        for_each(remote, LEN as u64, |at, piece| {
            remote.read_at(at, piece)?;
            let to = LEN as u64 + at;
            Ok(remote.write_at(to, piece, Durability::Cached)?)
        })
    }

    #[test]
    fn remote_storage_moves_several_pieces_at_a_time() {
        let remote = Remote::new(2 * LEN, None);
        move_on(&remote).unwrap();
        let mut bytes = vec![0; 2 * LEN];
        remote.memory.read_at(0, &mut bytes).unwrap();
        let (from, to) = bytes.split_at(LEN);
        assert!(from == to);
    }

    #[test]
    fn an_error_ends_the_work_and_is_told() {
        let broken = LEN + 3 * PIECE;
        let remote = Remote::new(2 * LEN, Some(broken as u64));
        let error = move_on(&remote).unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
    }
}
