//! The interface between a FUSE session and the files that it serves.

use std::time::Duration;

use rustix::io::Errno;
use scrim_fuse::request::{Allocate, SetAttributes, Whence};
use scrim_fuse::{Attributes, FileKind, Statistics, reply::Entry};

pub use scrim_volume::Durability;

use super::error::FileError;

/// Files and folders by number. All threads of a session call it at the same time.
///
/// A node is a number that the tree chooses, other than 0; the root is [`ROOT_ID`](super::ROOT_ID). A tree whose numbers
/// stay valid, such as inode numbers, can ignore [`forget`](Self::forget). The kernel sends what it likes: a node or a
/// handle may be wrong, and is then answered with an error. An error is seen by the program that made the call.
///
/// A call may take its time, but another one waits meanwhile only if all threads are taken.
pub trait FileTree: Send + Sync {
    /// Finds `name` in the folder `parent`. The name is neither empty nor has it `/` or NUL; it may be `.` or `..`. Each
    /// success counts as one lookup of the node.
    ///
    /// # Errors
    /// `NOENT` if there is no such name; `NOTDIR` if `parent` is not a folder.
    fn lookup(&self, parent: u64, name: &[u8]) -> Result<Entry, FileError>;

    /// Takes back `lookups` lookups of a node; after the last one the kernel does not use the number any more.
    fn forget(&self, node: u64, lookups: u64) {
        let _ = (node, lookups);
    }

    /// Returns the attributes of a node.
    ///
    /// # Errors
    /// As `stat(2)`.
    fn attributes(&self, node: u64) -> Result<Attributes, FileError>;

    /// Changes attributes of a node, all or none, and returns them.
    ///
    /// # Errors
    /// As `chmod(2)`, `chown(2)`, `truncate(2)` and `utimensat(2)`; here `ROFS`.
    fn set_attributes(&self, node: u64, changes: &SetAttributes) -> Result<Attributes, FileError> {
        let _ = (node, changes);
        Err(Errno::ROFS.into())
    }

    /// Reads the target of a symbolic link into `buffer`, and returns its length.
    ///
    /// # Errors
    /// `INVAL` if the node is not a symbolic link; otherwise as `readlink(2)`.
    fn read_link(&self, node: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let _ = (node, buffer);
        Err(Errno::INVAL.into())
    }

    /// Opens a file, for writing if `writes`, and returns its handle, a number that the tree chooses.
    ///
    /// # Errors
    /// As `open(2)`.
    fn open(&self, node: u64, writes: bool) -> Result<u64, FileError>;

    /// The last descriptor of an open file is gone.
    fn release(&self, file: OpenFile) {
        let _ = file;
    }

    /// Reads from `offset` into `buffer`. Returns the number of bytes, less than its length only at the end of the file.
    ///
    /// # Errors
    /// As `pread(2)`.
    fn read(&self, file: OpenFile, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError>;

    /// Writes `data` at `offset`, and returns how many bytes were written. The data may be changed in place: it is the
    /// request's own buffer, and nobody looks at it afterwards.
    ///
    /// # Errors
    /// As `pwrite(2)`; here `ROFS`.
    fn write(
        &self,
        file: OpenFile,
        offset: u64,
        data: &mut [u8],
        durability: Durability,
    ) -> Result<usize, FileError> {
        let _ = (file, offset, data, durability);
        Err(Errno::ROFS.into())
    }

    /// A descriptor of the file was closed. It reports errors of writes that have already returned; it need not make
    /// anything durable.
    ///
    /// # Errors
    /// As `close(2)`.
    fn flush(&self, file: OpenFile) -> Result<(), FileError> {
        let _ = file;
        Ok(())
    }

    /// Makes all writes to the file that have returned durable.
    ///
    /// # Errors
    /// As `fsync(2)`.
    fn fsync(&self, file: OpenFile, how: SyncKind) -> Result<(), FileError> {
        let _ = (file, how);
        Ok(())
    }

    /// Reserves, frees or zeroes a range. A long one looks at `is_stopping` now and then, and ends with `INTR`.
    ///
    /// # Errors
    /// As `fallocate(2)`; here `OPNOTSUPP`.
    fn allocate(
        &self,
        node: u64,
        range: &Allocate,
        is_stopping: &dyn Fn() -> bool,
    ) -> Result<(), FileError> {
        let _ = (node, range, is_stopping);
        Err(Errno::OPNOTSUPP.into())
    }

    /// Finds data or a hole from `offset` on. Here all of a file is data.
    ///
    /// # Errors
    /// `NXIO` if `offset` is not within the file or only a hole follows; otherwise as `lseek(2)`.
    fn seek(&self, file: OpenFile, offset: u64, whence: Whence) -> Result<u64, FileError> {
        let size = self.attributes(file.node)?.size;
        match whence {
            Whence::Other(_) => Err(Errno::INVAL.into()),
            Whence::Data | Whence::Hole if offset >= size => Err(Errno::NXIO.into()),
            Whence::Data => Ok(offset),
            Whence::Hole => Ok(size),
        }
    }

    /// Opens a folder, and returns its handle.
    ///
    /// # Errors
    /// As `open(2)`.
    fn open_directory(&self, node: u64) -> Result<u64, FileError> {
        let _ = node;
        Ok(0)
    }

    /// The last descriptor of an open folder is gone.
    fn release_directory(&self, directory: OpenFile) {
        let _ = directory;
    }

    /// Lists a folder, with `.` and `..`, behind the entry whose [`DirectoryEntry::next`] is `cursor`; 0 is before the
    /// first. A cursor stays valid until the handle is released, also where the folder changes meanwhile. Calls `sink`
    /// for each entry until it returns `false`, holding no lock: `sink` may call this tree.
    ///
    /// # Errors
    /// As `readdir(3)`. Entries that have been listed before count as listed.
    fn read_directory(
        &self,
        directory: OpenFile,
        cursor: u64,
        sink: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<(), FileError>;

    /// Returns the node of an entry that was listed, as [`lookup`](Self::lookup) does, which a tree may know sooner.
    ///
    /// # Errors
    /// As for [`lookup`](Self::lookup).
    fn lookup_entry(&self, parent: u64, entry: &DirectoryEntry<'_>) -> Result<Entry, FileError> {
        self.lookup(parent, entry.name)
    }

    /// Returns the state of the file system.
    ///
    /// # Errors
    /// As `statfs(2)`.
    fn statistics(&self) -> Result<Statistics, FileError>;

    /// Returns whether handles have a meaning, and opening may fail. Otherwise a mount that only reads through the page
    /// cache lets the kernel open files and folders by itself: handles are then 0.
    fn has_handles(&self) -> bool {
        true
    }

    /// Time for which the kernel may use names and attributes without asking again.
    fn cache_time(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Returns whether modes and owners of the files decide who may open them (`default_permissions`). Without that,
    /// everyone whom the mount lets in may.
    fn has_permissions(&self) -> bool {
        true
    }
}

/// An open file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFile {
    pub node: u64,
    /// The number that [`FileTree::open`] has returned for it. In a write from the page cache it is that of any
    /// descriptor of the file that is open for writing.
    pub handle: u64,
}

/// Part of a file that `fsync` makes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncKind {
    /// Data, and attributes that are needed to read it back (`fdatasync`).
    Data,
    /// Data and all attributes.
    All,
}

/// An entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// Number that programs see as `d_ino`.
    pub inode: u64,
    pub kind: FileKind,
    pub name: &'a [u8],
    /// Cursor behind this entry, not 0.
    pub next: u64,
}
