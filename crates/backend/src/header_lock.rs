//! The lock around reads and writes of LUKS headers, by the rules of cryptsetup's
//! `docs/LUKS2-locking.txt`: a `flock` on an image file itself, or on a file in `/run/cryptsetup`
//! that stands for a block device.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::{BackendError, Operation};

/// How long to wait for another program to finish with a header.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look.
const PAUSE: Duration = Duration::from_millis(20);

/// What a header lock excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// Writers, while a header is read.
    Read,
    /// Everybody, while a header is written.
    Write,
}

/// A header lock, held until dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct HeaderLock(Option<OwnedFd>);

impl HeaderLock {
    /// A lock that excludes nobody: of storage that no other program can reach.
    pub(crate) fn unneeded() -> Self {
        Self(None)
    }

    /// Locks `file`, whose lock other programs take too.
    pub(crate) fn take(file: OwnedFd, kind: LockKind, place: &str) -> Result<Self, BackendError> {
        let operation = match kind {
            LockKind::Read => FlockOperation::NonBlockingLockShared,
            LockKind::Write => FlockOperation::NonBlockingLockExclusive,
        };
        let patience_ends = Instant::now() + PATIENCE;
        loop {
            match flock(&file, operation) {
                Ok(()) => return Ok(Self(Some(file))),
                // A filesystem without locks: cryptsetup goes on as well.
                Err(Errno::NOLCK | Errno::NOTSUP) => return Ok(Self::unneeded()),
                Err(Errno::AGAIN) if Instant::now() < patience_ends => std::thread::sleep(PAUSE),
                Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(BackendError::new(Operation::Lock, place, error).with_hint(
                        "another program is busy with its LUKS header: let it finish, then try again",
                    ));
                }
            }
        }
    }
}

impl Drop for HeaderLock {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // Explicit, because the descriptor may be a duplicate whose original lives on.
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}
