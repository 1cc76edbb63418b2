//! A file as it was when it was opened.

use std::cmp::Ordering;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use rustix::fs::{FsWord, Stat};
use rustix::io::{Errno, ReadWriteFlags};

use scrim_ext4::Patience;

use super::volume::VolumeFile;

/// A regular file that is open for reading, with its size and times as they were when it was opened.
#[derive(Debug)]
pub struct OpenFile(Place);

/// Place of a file.
#[derive(Debug)]
enum Place {
    Folder(FolderFile),
    Volume(VolumeFile),
}

/// A file of a file system that is mounted. Files are read and never mapped: another process may cut them short at any
/// time.
#[derive(Debug)]
struct FolderFile {
    file: OwnedFd,
    stat: Stat,
    /// Answer of its file system when it was asked for what is in memory.
    can_tell: AtomicU8,
}

/// Difference between a file and what it was when it was opened, as far as its size and time of change tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Unchanged,
    /// The file has become longer, as a log does, and still has what was announced. A file that was first cut and then
    /// written again beyond its old length looks the same: the file system keeps no record of that.
    Extended,
    /// The file was written to, and has the same length. A write that makes a file longer looks like that until it is
    /// over, since Linux changes a file's time before its length.
    Touched,
    /// The file has become shorter.
    Cut,
}

/// Answers of a file system that was asked for what is in memory.
const YES: u8 = 0;
const NO: u8 = 1;
const IN_MEMORY: u8 = 2;

/// The number of tmpfs among file systems (`statfs(2)`).
const TMPFS: FsWord = 0x0102_1994;

impl OpenFile {
    /// A file that was found to be a regular one by `stat`.
    #[must_use]
    pub fn new(file: OwnedFd, stat: Stat) -> Self {
        Self(Place::Folder(FolderFile {
            file,
            stat,
            can_tell: AtomicU8::new(YES),
        }))
    }

    /// A file in a volume.
    pub(crate) fn of_volume(file: VolumeFile) -> Self {
        Self(Place::Volume(file))
    }

    /// Bytes that it had when it was opened.
    #[must_use]
    pub fn size(&self) -> u64 {
        match &self.0 {
            Place::Folder(file) => u64::try_from(file.stat.st_size).unwrap_or(0),
            Place::Volume(file) => file.inode().size(),
        }
    }

    /// Time when it was last written to: seconds and nanoseconds since 1970.
    pub(crate) fn modified(&self) -> (i64, u32) {
        match &self.0 {
            Place::Folder(file) => {
                let nanoseconds = u32::try_from(file.stat.st_mtime_nsec).unwrap_or(0);
                (file.stat.st_mtime, nanoseconds)
            }
            Place::Volume(file) => file.inode().modified(),
        }
    }

    /// Time when it last became what it is, as far as [`OpenFile::identity`] and the time above tell that.
    pub(crate) fn settled_from(&self) -> (i64, u32) {
        match &self.0 {
            Place::Folder(_) => self.modified(),
            Place::Volume(file) => self.modified().max(file.inode().changed()),
        }
    }

    /// Text that tells it from other files under its name: its number in its file system, and in a volume more.
    pub(crate) fn identity(&self) -> String {
        match &self.0 {
            Place::Folder(file) => format!("{:x}", file.stat.st_ino),
            Place::Volume(file) => file.identity(),
        }
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
        match &self.0 {
            Place::Folder(file) => file.read_at(pieces, offset, patience),
            Place::Volume(file) => file.read_at(pieces, offset, patience),
        }
    }

    /// Returns whether it has been written to, cut or extended since it was opened, so that an answer that begins now
    /// would describe a file that no longer is like that. A file in a volume never says so.
    ///
    /// # Errors
    /// Those of the file.
    pub fn has_changed(&self) -> io::Result<bool> {
        Ok(self.change()? != Change::Unchanged)
    }

    /// The change since it was opened. A file in a volume shows none.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn change(&self) -> io::Result<Change> {
        match &self.0 {
            Place::Folder(file) => file.change(),
            Place::Volume(_) => Ok(Change::Unchanged),
        }
    }

    /// The file itself, for a kernel that sends it; a file that the kernel does not know has none.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            Place::Folder(file) => Some(file.file.as_fd()),
            Place::Volume(_) => None,
        }
    }

    /// The same, if it is in a volume.
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
        patience: Patience,
    ) -> io::Result<usize> {
        if patience == Patience::Now && !self.is_in_memory() {
            if self.can_tell.load(Relaxed) == NO {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            match rustix::io::preadv2(&self.file, pieces, offset, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP) => self.ask_file_system()?,
                read => return Ok(read?),
            }
            return self.read_at(pieces, offset, patience);
        }
        Ok(rustix::io::preadv(&self.file, pieces, offset)?)
    }

    fn is_in_memory(&self) -> bool {
        self.can_tell.load(Relaxed) == IN_MEMORY
    }

    /// Finds out about a file system that cannot tell what is in memory: of tmpfs all is, and behind any
    /// other there may be a network.
    fn ask_file_system(&self) -> io::Result<()> {
        let kind = rustix::fs::fstatfs(&self.file)?.f_type;
        let answer = if kind == TMPFS { IN_MEMORY } else { NO };
        self.can_tell.store(answer, Relaxed);
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
