//! All files of a volume, by their inodes.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use scrim_ext4::{Budget, Entry, Error, FileSystem, Inode, ReadMode};
use scrim_volume::Volume;

use crate::device;
use crate::file::File;
use crate::walk::{LastLink, Located, Missing, SEARCH_BYTES_MAX, Symlinks};

/// The file system in a volume, shared between threads.
pub struct Tree {
    volume: Arc<Volume>,
    fs: Arc<FileSystem>,
    root: Located,
    /// True if other processes may write to the volume meanwhile.
    is_shared: bool,
}

impl Tree {
    /// Opens the file system in a volume. `is_shared` says that other processes may write to the volume.
    ///
    /// # Errors
    /// If there is no file system that can be read.
    pub fn open(volume: impl Into<Arc<Volume>>, is_shared: bool) -> Result<Self, Error> {
        let volume = volume.into();
        let fs = Arc::new(device::open(&volume)?);
        Ok(Self {
            root: Located::root(Arc::clone(&fs))?,
            volume,
            fs,
            is_shared,
        })
    }

    /// Finds a file by its path from the root. Symbolic links lead to files of the same file system, never outside.
    ///
    /// # Errors
    /// If the device fails, the file system is damaged, or there is too much to search.
    pub fn find(&self, path: &[u8], last: LastLink) -> Result<Result<Located, Missing>, Error> {
        let budget = Budget::new(SEARCH_BYTES_MAX);
        self.root.walk(path, Symlinks::Any, last, &budget)
    }

    /// Reads an inode, which holds a file's attributes.
    ///
    /// # Errors
    /// If the device fails, or there is no such inode, or it is damaged.
    pub fn inode(&self, number: u32) -> Result<Inode, Error> {
        self.fs.inode(number, ReadMode::Wait)
    }

    /// Looks a name up in a folder.
    ///
    /// # Errors
    /// If the device fails, it is no folder, or is damaged or encrypted, or there is too much to search.
    pub fn lookup(&self, folder: &Inode, name: &[u8]) -> Result<Option<u32>, Error> {
        let budget = Budget::new(SEARCH_BYTES_MAX);
        self.fs.lookup(folder, name, &budget)
    }

    /// Finds the inode of the folder that has `folder` in it; the root is its own.
    ///
    /// # Errors
    /// As for [`Tree::lookup`].
    pub fn parent(&self, folder: &Inode) -> Result<u32, Error> {
        let budget = Budget::new(SEARCH_BYTES_MAX);
        self.fs.parent(folder, &budget)
    }

    /// Calls `each` for the entries of a folder from a place on, but not for `.` and `..`, until it breaks. 0 is the
    /// front; [`Entry::next`] is the place of the entry behind.
    ///
    /// # Errors
    /// If the device fails, the folder is damaged or encrypted, or there is too much to read before `each` breaks.
    pub fn list(
        &self,
        folder: &Inode,
        from: u64,
        each: impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let budget = Budget::new(SEARCH_BYTES_MAX);
        self.fs.entries_from(folder, from, &budget, each)
    }

    /// Reads the path to which a symbolic link leads.
    ///
    /// # Errors
    /// If the device fails, or the link is damaged or encrypted.
    pub fn target(&self, link: &Inode) -> Result<Vec<u8>, Error> {
        self.fs.target(link)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// If the file is encrypted by the file system.
    pub fn file(&self, inode: Arc<Inode>) -> Result<File, Error> {
        inode.check_readable()?;
        Ok(File::new(
            Arc::clone(&self.volume),
            Arc::clone(&self.fs),
            inode,
        ))
    }

    /// The file system, as it was when it was opened.
    #[must_use]
    pub fn file_system(&self) -> &FileSystem {
        &self.fs
    }

    /// Returns whether the file system is as it was when it was opened: it was not mounted for writing meanwhile. What
    /// was read of a file before is only then known to be the file's.
    ///
    /// # Errors
    /// If the device fails.
    pub fn is_unchanged(&self) -> Result<bool, Error> {
        match self.is_shared {
            true => self.fs.is_as_it_was(),
            false => Ok(true),
        }
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("fs", &self.fs)
            .finish_non_exhaustive()
    }
}
