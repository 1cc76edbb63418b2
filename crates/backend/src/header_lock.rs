//! The lock around reads and writes of LUKS headers, by the rules of cryptsetup's
//! `docs/LUKS2-locking.txt`: a `flock` on an image file itself, or on a file in `/run/cryptsetup`
//! that stands for a block device. Storage that has no such file has a [`HeaderGate`], between the
//! threads of this process.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::{BackendError, Operation};

/// Folder in which cryptsetup keeps the lock files that stand for block devices.
const DEVICE_LOCKS: &str = "/run/cryptsetup";

/// Time for which to wait until another program releases a header's lock.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(20);

/// Kind of a header lock: the other programs that it excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// Writers, while a header is read.
    Read,
    /// All others, while a header is written.
    Write,
}

/// A header lock, held until dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct HeaderLock(Held);

/// Lock that a [`HeaderLock`] holds.
enum Held {
    Nothing,
    File(OwnedFd),
    Gate(Arc<Gate>, LockKind),
}

impl HeaderLock {
    /// A lock that excludes nothing, for storage that no other program can reach.
    pub fn unneeded() -> Self {
        Self(Held::Nothing)
    }

    /// Locks an image file itself.
    pub(crate) fn of_file(
        file: BorrowedFd<'_>,
        kind: LockKind,
        place: &str,
    ) -> Result<Self, BackendError> {
        let fail = |error: io::Error| BackendError::new(Operation::Lock, place, error);
        let file = file.try_clone_to_owned().map_err(fail)?;
        match wait_for(file.as_fd(), kind, Instant::now() + TIMEOUT) {
            Ok(()) => Ok(Self(Held::File(file))),
            // A file system without locks: cryptsetup continues too.
            Err(Errno::NOLCK | Errno::NOTSUP) => Ok(Self::unneeded()),
            Err(error) => Err(fail(error.into()).with_hint(BUSY)),
        }
    }

    /// Locks the file that stands for the block device of this number. Where it cannot be opened, as
    /// when an ordinary user reads a device and the folder is root's, a header is read without a lock.
    pub(crate) fn of_device(
        number: u64,
        kind: LockKind,
        place: &str,
    ) -> Result<Self, BackendError> {
        let fail = |error: io::Error| BackendError::new(Operation::Lock, place, error);
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let path = Path::new(DEVICE_LOCKS).join(format!("L_{major}:{minor}"));
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let file = match open_lock_file(&path) {
                Ok(file) => OwnedFd::from(file),
                Err(_) if kind == LockKind::Read => return Ok(Self::unneeded()),
                Err(error) => return Err(fail(error).with_hint(NO_LOCK_FILE)),
            };
            wait_for(file.as_fd(), kind, deadline)
                .map_err(|error| fail(error.into()).with_hint(BUSY))?;
            // The program that held it before may have removed the file: then the lock is on nothing.
            if is_at(file.as_fd(), &path) {
                return Ok(Self(Held::File(file)));
            }
        }
    }
}

/// Advice about a header lock that another program does not release.
const BUSY: &str = "another program is busy with its LUKS header: let it finish, then try again";
/// Advice about a device whose lock file cannot be opened.
const NO_LOCK_FILE: &str =
    "its header is only written under a lock in /run/cryptsetup: try as root";

fn open_lock_file(path: &Path) -> io::Result<File> {
    let made = DirBuilder::new().mode(0o700).create(DEVICE_LOCKS);
    if let Err(error) = made
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).custom_flags(no_follow).open(path)
}

/// Returns whether `path` still names the open file.
fn is_at(file: BorrowedFd<'_>, path: &Path) -> bool {
    match (rustix::fs::fstat(file), rustix::fs::stat(path)) {
        (Ok(open), Ok(there)) => (open.st_dev, open.st_ino) == (there.st_dev, there.st_ino),
        _ => false,
    }
}

/// Locks a file, trying again at intervals until its deadline.
fn wait_for(file: BorrowedFd<'_>, kind: LockKind, deadline: Instant) -> Result<(), Errno> {
    let operation = match kind {
        LockKind::Read => FlockOperation::NonBlockingLockShared,
        LockKind::Write => FlockOperation::NonBlockingLockExclusive,
    };
    loop {
        match flock(file, operation) {
            Err(Errno::AGAIN) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

impl Drop for HeaderLock {
    fn drop(&mut self) {
        match &self.0 {
            Held::Nothing => {}
            Held::File(file) => {
                // Explicitly, because the descriptor may be a duplicate whose original stays open.
                let _ = flock(file, FlockOperation::Unlock);
            }
            Held::Gate(gate, kind) => gate.leave(*kind),
        }
    }
}

/// A header lock between the threads that share a store: no other program sees it.
#[derive(Default)]
pub(crate) struct HeaderGate(Arc<Gate>);

#[derive(Default)]
struct Gate {
    users: Mutex<Users>,
    changed: Condvar,
}

#[derive(Default)]
struct Users {
    readers: usize,
    writer: bool,
}

impl HeaderGate {
    /// Takes the lock of the header at `place`.
    ///
    /// # Errors
    /// When another thread keeps it.
    pub(crate) fn lock(&self, kind: LockKind, place: &str) -> Result<HeaderLock, BackendError> {
        let deadline = Instant::now() + TIMEOUT;
        let gate = &self.0;
        let mut users = gate.users();
        loop {
            match kind {
                LockKind::Read if !users.writer => users.readers += 1,
                LockKind::Write if !users.writer && users.readers == 0 => users.writer = true,
                LockKind::Read | LockKind::Write => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        let error = io::Error::from(io::ErrorKind::WouldBlock);
                        return Err(
                            BackendError::new(Operation::Lock, place, error).with_hint(BUSY)
                        );
                    }
                    let waited = gate.changed.wait_timeout(users, left);
                    (users, _) = waited.unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            }
            return Ok(HeaderLock(Held::Gate(Arc::clone(gate), kind)));
        }
    }
}

impl Gate {
    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, kind: LockKind) {
        let mut users = self.users();
        match kind {
            LockKind::Read => users.readers -= 1,
            LockKind::Write => users.writer = false,
        }
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_alone_at_the_gate_and_readers_are_not() {
        let gate = HeaderGate::default();
        let reader = gate.lock(LockKind::Read, "here").unwrap();
        let second = gate.lock(LockKind::Read, "here").unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| drop(gate.lock(LockKind::Write, "here").unwrap()));
            drop(reader);
            assert!(gate.0.users().readers == 1 && !gate.0.users().writer);
            drop(second);
            writer.join().unwrap();
        });
        assert!(!gate.0.users().writer);
    }
}
