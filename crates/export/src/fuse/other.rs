//! A mount that another program has made of a served tree's file.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fsync, open};
use rustix::io::Errno;

use super::error::{MountError, UnmountError};
use super::guard::Guard;
use super::limits;
use super::mount::{Place, Unmount, check_directory, find_mounted};
use super::stall::StallLimit;

/// A mount of another program, such as a file system driver that has a [`RawFile`](super::RawFile) open. Like
/// [`Mounted`](super::Mounted) it goes away also if this process is killed.
pub struct OtherMount {
    place: Place,
    guard: Option<Guard>,
}

impl OtherMount {
    /// Checks that a mount on the folder would hide nothing.
    ///
    /// # Errors
    /// When the folder is not empty, not a folder, or has a mount already.
    pub fn check(directory: &Path) -> Result<(), MountError> {
        check_directory(directory).map(drop)
    }

    /// Finds what is mounted on `directory`, an absolute path without links; `None` if nothing is, or what is there has
    /// a type that `is_type` refuses: then somebody else has mounted it.
    #[must_use]
    pub fn find(directory: &Path, is_type: impl Fn(&str) -> bool) -> Option<Self> {
        let place = find_mounted(directory, is_type)?;
        Some(Self {
            guard: Guard::start(&place),
            place,
        })
    }

    /// Number of the file system, `MAJOR:MINOR`.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.place.id.device
    }

    /// Returns whether the mount is no longer there.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.place.is_gone()
    }

    /// Unmounts, unless a program uses it. The kernel writes back before what it has in memory.
    ///
    /// # Errors
    /// [`UnmountError::Busy`] if it is in use, and [`UnmountError::Stalled`] if `stall_limit` ends before.
    pub fn unmount(&mut self, stall_limit: &mut StallLimit) -> Result<(), UnmountError> {
        self.place.unmount(Unmount::InOrder, stall_limit)?;
        self.dismiss_guard();
        Ok(())
    }

    /// Has the kernel write back what it has of the file system in memory. Returns whether everything was written before
    /// `stall_limit` ended.
    pub fn write_back(&self, stall_limit: &mut StallLimit) -> bool {
        self.place.write_back(stall_limit)
    }

    /// Has the kernel and the program write what was changed in these files (`fsync`), because `syncfs` need not wait for
    /// the writes of a FUSE file system. A file that fails keeps no other from being written. Returns whether everything
    /// was written before `stall_limit` ended.
    pub fn write_back_files(&self, files: Vec<PathBuf>, stall_limit: &mut StallLimit) -> bool {
        let sync = move || files.iter().filter(|file| sync(file).is_err()).count() == 0;
        matches!(stall_limit.wait_for(true, sync), Ok(Some(true)))
    }

    /// Takes the mount away, also while it is in use, and waits for that a few seconds at most. Programs that have files
    /// open keep them until they close them, or the tree below ends.
    pub fn detach(&mut self) {
        // If it cannot be taken away now, the guard tries again at the end of this process.
        let mut stall_limit = StallLimit::fixed(limits::END);
        if self.place.unmount(Unmount::Lazy, &mut stall_limit).is_ok() {
            self.dismiss_guard();
        }
    }

    fn dismiss_guard(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

/// Writes a file. Another user may have replaced it by a link or a FIFO, which is neither followed nor waited for.
fn sync(file: &Path) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    fsync(open(file, flags, Mode::empty())?)
}

impl Drop for OtherMount {
    fn drop(&mut self) {
        if !self.is_gone() {
            self.detach();
        }
        self.dismiss_guard();
    }
}
