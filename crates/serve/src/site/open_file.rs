//! A file as it was when it was opened.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::Stat;
use rustix::io::{Errno, ReadWriteFlags};

/// A regular file that is open for reading, and what it was like then. Files are read and never mapped:
/// somebody else may cut them short at any time.
#[derive(Debug)]
pub struct OpenFile {
    file: OwnedFd,
    stat: Stat,
    /// Whether its file system cannot tell what is in memory, and is not asked again.
    cannot_tell: AtomicBool,
}

/// Whether a read may wait for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Only what is in memory: [`io::ErrorKind::WouldBlock`] where nothing is.
    Now,
    /// However long it takes.
    Wait,
}

impl OpenFile {
    /// A file that was found to be a regular one by `stat`.
    #[must_use]
    pub fn new(file: OwnedFd, stat: Stat) -> Self {
        Self {
            file,
            stat,
            cannot_tell: AtomicBool::new(false),
        }
    }

    /// Bytes that it had when it was opened.
    #[must_use]
    pub fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// When it was last written to: seconds and nanoseconds since 1970.
    pub(super) fn modified(&self) -> (i64, u32) {
        let nanoseconds = u32::try_from(self.stat.st_mtime_nsec).unwrap_or(0);
        (self.stat.st_mtime, nanoseconds)
    }

    /// Its number in its file system.
    pub(super) fn inode(&self) -> u64 {
        self.stat.st_ino
    }

    /// Fills `pieces` one after the other with bytes from `offset` on, and tells how many there were: fewer
    /// where the file ends, or where the rest is not in memory.
    ///
    /// # Errors
    /// Those of the file.
    pub fn read_at(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        offset: u64,
        patience: Patience,
    ) -> io::Result<usize> {
        if patience == Patience::Now && !self.cannot_tell.load(Ordering::Relaxed) {
            match rustix::io::preadv2(&self.file, pieces, offset, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP) => self.cannot_tell.store(true, Ordering::Relaxed),
                read => return Ok(read?),
            }
        }
        Ok(rustix::io::preadv(&self.file, pieces, offset)?)
    }

    /// Whether it has been written to, cut or extended since it was opened: what was read may be neither
    /// the old content nor the new one.
    ///
    /// # Errors
    /// Those of the file.
    pub fn has_changed(&self) -> io::Result<bool> {
        let now = rustix::fs::fstat(&self.file)?;
        Ok(now.st_size != self.stat.st_size
            || (now.st_mtime, now.st_mtime_nsec) != (self.stat.st_mtime, self.stat.st_mtime_nsec))
    }

    /// The file itself, for a kernel that sends it; a file that the kernel does not know has none.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
