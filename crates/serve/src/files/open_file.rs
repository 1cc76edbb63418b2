//! An open file, with its metadata from when it was opened.

use std::cmp::Ordering;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use rustix::fs::Stat;
use rustix::io::{Errno, ReadWriteFlags};
use scrim_files::ReadMode;
use scrim_sys::file_system::FileSystem;

use super::volume::VolumeFile;

/// A regular file that is open for reading, with its size and times as they were when it was opened.
#[derive(Debug)]
pub struct OpenFile(Place);

/// Storage of an open file.
#[derive(Debug)]
enum Place {
    Folder(FolderFile),
    Volume(VolumeFile),
}

/// A file of a mounted file system. Files are read and never mapped, since another process may truncate them at any
/// time.
#[derive(Debug)]
struct FolderFile {
    file: OwnedFd,
    stat: Stat,
    /// Support of the file system for reads without waiting: one of the constants below.
    nonblocking: AtomicU8,
}

/// Difference between a file and what it was when it was opened, as far as its size and time of change tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Unchanged,
    /// The file has become longer, as a log does, and its old content is assumed to be there. A file that was truncated and
    /// then written beyond its old length looks the same.
    Extended,
    /// The file was written to, and has the same length. A write that extends a file looks like that until it is complete,
    /// since Linux changes a file's time before its length.
    Touched,
    /// The file was truncated.
    Cut,
}

/// Values of `FolderFile::nonblocking`: `RWF_NOWAIT` is tried; it is not supported; every read is without waiting.
const YES: u8 = 0;
const NO: u8 = 1;
const IN_MEMORY: u8 = 2;

impl OpenFile {
    /// An open regular file, with the result of its `stat`.
    #[must_use]
    pub fn new(file: OwnedFd, stat: Stat) -> Self {
        Self(Place::Folder(FolderFile {
            file,
            stat,
            nonblocking: AtomicU8::new(YES),
        }))
    }

    /// An open file in a volume.
    pub(crate) fn of_volume(file: VolumeFile) -> Self {
        Self(Place::Volume(file))
    }

    /// Size in bytes when the file was opened.
    #[must_use]
    pub fn size(&self) -> u64 {
        match &self.0 {
            Place::Folder(file) => u64::try_from(file.stat.st_size).unwrap_or(0),
            Place::Volume(file) => file.inode().size(),
        }
    }

    /// Time of the last modification: seconds and nanoseconds since 1970.
    pub(crate) fn modified(&self) -> (i64, u32) {
        match &self.0 {
            Place::Folder(file) => {
                let nanoseconds = u32::try_from(file.stat.st_mtime_nsec).unwrap_or(0);
                (file.stat.st_mtime, nanoseconds)
            }
            Place::Volume(file) => file.inode().modified(),
        }
    }

    /// Time of the last change of content or metadata that changes the entity tag.
    pub(crate) fn settled_from(&self) -> (i64, u32) {
        match &self.0 {
            Place::Folder(_) => self.modified(),
            Place::Volume(file) => self.modified().max(file.inode().changed()),
        }
    }

    /// Text that distinguishes the file from others of the same name: its inode number, and in a volume a digest.
    pub(crate) fn identity(&self) -> String {
        match &self.0 {
            Place::Folder(file) => format!("{:x}", file.stat.st_ino),
            Place::Volume(file) => file.identity(),
        }
    }

    /// Fills `pieces` with bytes from `offset` on; returns the number of bytes, fewer at the end of the file or if the rest
    /// is not in memory.
    ///
    /// # Errors
    /// Those of the file.
    pub fn read_at(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        offset: u64,
        mode: ReadMode,
    ) -> io::Result<usize> {
        match &self.0 {
            Place::Folder(file) => file.read_at(pieces, offset, mode),
            Place::Volume(file) => file.read_at(pieces, offset, mode),
        }
    }

    /// Returns whether the file was written to, truncated or extended since it was opened, so that its metadata are out of
    /// date. False for a file in a volume.
    ///
    /// # Errors
    /// Those of the file.
    pub fn has_changed(&self) -> io::Result<bool> {
        Ok(self.change()? != Change::Unchanged)
    }

    /// Kind of change since the file was opened; [`Change::Unchanged`] for a file in a volume.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn change(&self) -> io::Result<Change> {
        match &self.0 {
            Place::Folder(file) => file.change(),
            Place::Volume(_) => Ok(Change::Unchanged),
        }
    }

    /// File descriptor for `sendfile`; `None` for a file in a volume.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            Place::Folder(file) => Some(file.file.as_fd()),
            Place::Volume(_) => None,
        }
    }

    /// The file in its volume; `None` for a file of a mounted file system.
    pub(crate) fn in_volume(&self) -> Option<&VolumeFile> {
        match &self.0 {
            Place::Folder(_) => None,
            Place::Volume(file) => Some(file),
        }
    }
}

impl FolderFile {
    fn read_at(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        offset: u64,
        mode: ReadMode,
    ) -> io::Result<usize> {
        if mode == ReadMode::Now && !self.is_in_memory() {
            if self.nonblocking.load(Relaxed) == NO {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            match rustix::io::preadv2(&self.file, pieces, offset, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP) => self.check_file_system()?,
                read => return Ok(read?),
            }
            return self.read_at(pieces, offset, mode);
        }
        Ok(rustix::io::preadv(&self.file, pieces, offset)?)
    }

    fn is_in_memory(&self) -> bool {
        self.nonblocking.load(Relaxed) == IN_MEMORY
    }

    /// Notes that the file system does not support `RWF_NOWAIT`: on tmpfs no read waits, on any other one it might.
    fn check_file_system(&self) -> io::Result<()> {
        let answer = if FileSystem::of(&self.file)?.is_tmpfs {
            IN_MEMORY
        } else {
            NO
        };
        self.nonblocking.store(answer, Relaxed);
        Ok(())
    }

    fn change(&self) -> io::Result<Change> {
        let now = rustix::fs::fstat(&self.file)?;
        let written =
            (now.st_mtime, now.st_mtime_nsec) != (self.stat.st_mtime, self.stat.st_mtime_nsec);
        Ok(match now.st_size.cmp(&self.stat.st_size) {
            Ordering::Greater => Change::Extended,
            Ordering::Equal if !written => Change::Unchanged,
            Ordering::Equal => Change::Touched,
            Ordering::Less => Change::Cut,
        })
    }
}
