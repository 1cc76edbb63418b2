//! A regular file or a block device, through plain system calls.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use crate::{Backend, BackendError, Durability, HeaderLock, Info, LockKind, Operation, guard};

/// How much of a range is zeroed with one write where the storage has no call for it, in bytes.
const ZERO_PIECE: usize = 64 << 10;

/// Where cryptsetup keeps the lock files that stand for block devices.
const DEVICE_LOCKS: &str = "/run/cryptsetup";

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only; other readers are welcome, writers are not.
    ReadOnly,
    /// Reading and writing, alone.
    ReadWrite,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Regular,
    /// With its device number.
    Block(u64),
}

/// A file or block device.
pub struct FileBackend {
    file: File,
    path: PathBuf,
    kind: Kind,
    info: Info,
    /// Set once a flush has failed; see [`Backend::flush`].
    flush_failed: AtomicBool,
}

impl FileBackend {
    /// Opens an existing file or block device and keeps others from using it in a way that
    /// conflicts with `access`, until it is dropped.
    ///
    /// # Errors
    /// When it cannot be opened, is neither file nor block device, or is in use.
    pub fn open(path: &Path, access: Access) -> Result<Self, BackendError> {
        let backend = Self::open_shared(path, access)?;
        if backend.kind == Kind::Regular {
            guard::take(backend.file.as_fd(), access).map_err(|error| {
                backend.error(Operation::Lock, error).with_hint(
                    "another program has it open: close that one, or open both with --readonly",
                )
            })?;
        }
        Ok(backend)
    }

    /// Opens like [`FileBackend::open`] without keeping anybody out: for reading and writing
    /// headers, which [`Backend::lock_header`] protects.
    ///
    /// # Errors
    /// When it cannot be opened, or is neither file nor block device.
    pub fn open_shared(path: &Path, access: Access) -> Result<Self, BackendError> {
        let fail = |error| BackendError::new(Operation::Open, &path.to_string_lossy(), error);
        let kind = kind_of(path).map_err(fail)?;
        let writing = access == Access::ReadWrite;
        let mut options = File::options();
        options.read(true).write(writing);
        // O_EXCL on a block device: nobody else has it open so, nor mounted. A reader of a header
        // asks only for what it needs.
        if writing && matches!(kind, Kind::Block(_)) {
            options.custom_flags(i32::try_from(rustix::fs::OFlags::EXCL.bits()).unwrap_or(0));
        }
        let file = options.open(path).map_err(fail)?;
        Self::from_file(file, path, kind, access).map_err(fail)
    }

    /// Creates a new file of `size` bytes, readable by its owner only.
    ///
    /// # Errors
    /// When it exists already or cannot be created.
    pub fn create(path: &Path, size: u64) -> Result<Self, BackendError> {
        let fail = |error| BackendError::new(Operation::Open, &path.to_string_lossy(), error);
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(path).map_err(fail)?;
        file.set_len(size).map_err(fail)?;
        Self::from_file(file, path, Kind::Regular, Access::ReadWrite).map_err(fail)
    }

    fn from_file(file: File, path: &Path, kind: Kind, access: Access) -> io::Result<Self> {
        let (size, logical_block) = match kind {
            Kind::Regular => (file.metadata()?.len(), 512),
            Kind::Block(_) => (
                rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?,
                rustix::fs::ioctl_blksszget(&file)?,
            ),
        };
        Ok(Self {
            file,
            path: path.to_owned(),
            kind,
            info: Info {
                size,
                read_only: access == Access::ReadOnly,
                logical_block,
            },
            flush_failed: AtomicBool::new(false),
        })
    }

    /// Makes sure that the first `len` bytes can be written: a sparse file on a full disk fails
    /// here, before anything has changed.
    ///
    /// # Errors
    /// When there is no space.
    pub fn reserve(&self, len: u64) -> Result<(), BackendError> {
        if self.kind != Kind::Regular || len == 0 {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, len) {
            // A file system that cannot tell.
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(self.error(Operation::Write { offset: 0, len }, error)),
        }
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, operation: Operation, source: impl Into<io::Error>) -> BackendError {
        BackendError::new(operation, &self.path.to_string_lossy(), source)
    }

    /// A range that passes the end of a regular file would silently make it longer.
    fn check_end(&self, operation: Operation, offset: u64, len: u64) -> Result<(), BackendError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.info.size => Ok(()),
            _ => Err(self.error(operation, io::ErrorKind::UnexpectedEof)),
        }
    }

    fn write_durably(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let slices = [io::IoSlice::new(data)];
        match pwritev2(&self.file, &slices, offset, ReadWriteFlags::DSYNC) {
            Ok(written) if written == data.len() => Ok(()),
            // Interrupted by a signal or by the end of space, or a file system without the flag:
            // the long way says which.
            Ok(_) | Err(Errno::INTR | Errno::NOTSUP | Errno::NOSYS) => {
                self.file.write_all_at(data, offset)?;
                self.file.sync_data()
            }
            Err(error) => Err(error.into()),
        }
    }

    fn write_zeroes_by_hand(&self, range: Range<u64>) -> io::Result<()> {
        let zeros = [0u8; ZERO_PIECE];
        let mut offset = range.start;
        while offset < range.end {
            let len = usize::try_from(range.end - offset).map_or(ZERO_PIECE, |l| l.min(ZERO_PIECE));
            self.file.write_all_at(&zeros[..len], offset)?;
            offset += len as u64;
        }
        Ok(())
    }

    /// The file whose lock protects the header on this storage; `None` where it cannot be had, as
    /// when an ordinary user reads a device and `/run/cryptsetup` is root's.
    fn lock_file(&self) -> Option<OwnedFd> {
        match self.kind {
            Kind::Regular => self.file.as_fd().try_clone_to_owned().ok(),
            Kind::Block(number) => {
                let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
                let path = Path::new(DEVICE_LOCKS).join(format!("L_{major}:{minor}"));
                let _ = std::fs::create_dir(DEVICE_LOCKS);
                let mut options = File::options();
                options.read(true).write(true).create(true).truncate(false);
                options.mode(0o600).open(path).ok().map(OwnedFd::from)
            }
        }
    }
}

fn kind_of(path: &Path) -> io::Result<Kind> {
    let metadata = std::fs::metadata(path)?;
    let file_type = metadata.file_type();
    if file_type.is_file() {
        Ok(Kind::Regular)
    } else if file_type.is_block_device() {
        Ok(Kind::Block(metadata.rdev()))
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is neither a regular file nor a block device",
        ))
    }
}

impl Backend for FileBackend {
    fn info(&self) -> Info {
        self.info
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        let len = buffer.len() as u64;
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|error| self.error(Operation::Read { offset, len }, error))
    }

    fn write_at(
        &self,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), BackendError> {
        let len = data.len() as u64;
        let operation = Operation::Write { offset, len };
        self.check_end(operation, offset, len)?;
        match durability {
            Durability::Cached => self.file.write_all_at(data, offset),
            // What an earlier flush lost cannot be told from what this write depends on.
            Durability::Durable if self.flush_failed.load(Ordering::Acquire) => {
                return Err(self.error(Operation::Flush, Errno::IO));
            }
            Durability::Durable => self.write_durably(offset, data).inspect_err(|_| {
                self.flush_failed.store(true, Ordering::Release);
            }),
        }
        .map_err(|error| self.error(operation, error))
    }

    fn flush(&self) -> Result<(), BackendError> {
        if self.flush_failed.load(Ordering::Acquire) {
            return Err(self.error(Operation::Flush, Errno::IO));
        }
        self.file.sync_data().map_err(|error| {
            self.flush_failed.store(true, Ordering::Release);
            self.error(Operation::Flush, error)
        })
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        let operation = Operation::Discard { offset, len };
        self.check_end(operation, offset, len)?;
        if len == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, offset, len) {
            // Advice that the storage cannot take is not an error.
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(self.error(operation, error)),
        }
    }

    fn write_zeroes(&self, range: Range<u64>, durability: Durability) -> Result<(), BackendError> {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        let operation = Operation::Write { offset, len };
        self.check_end(operation, offset, len)?;
        if len > 0 {
            let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
            match fallocate(&self.file, flags, offset, len) {
                Ok(()) => Ok(()),
                // Not on this file system, or a range the device cannot zero as a whole.
                Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => {
                    self.write_zeroes_by_hand(range)
                }
                Err(error) => Err(error.into()),
            }
            .map_err(|error| self.error(operation, error))?;
        }
        match durability {
            Durability::Cached => Ok(()),
            Durability::Durable => self.flush(),
        }
    }

    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        match self.lock_file() {
            Some(file) => HeaderLock::take(file, kind, &self.path.to_string_lossy()),
            None => Ok(HeaderLock::unneeded()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(size: u64) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        drop(FileBackend::create(&path, size).unwrap());
        (folder, path)
    }

    #[test]
    fn what_is_written_is_read_back_from_the_file() {
        let (_folder, path) = image(8192);
        let backend = FileBackend::open(&path, Access::ReadWrite).unwrap();
        backend
            .write_at(4096, &[5; 512], Durability::Durable)
            .unwrap();
        backend.write_at(0, &[6; 16], Durability::Cached).unwrap();
        backend.flush().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((bytes.len(), bytes[0], bytes[4096]), (8192, 6, 5));
        backend.write_zeroes(0..8192, Durability::Durable).unwrap();
        assert!(std::fs::read(&path).unwrap().iter().all(|&b| b == 0));
        backend.discard(0..4096).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 8192);
    }

    #[test]
    fn zeros_by_hand_cover_exactly_the_range() {
        let (_folder, path) = image(256 << 10);
        std::fs::write(&path, vec![9; 256 << 10]).unwrap();
        let backend = FileBackend::open(&path, Access::ReadWrite).unwrap();
        backend.write_zeroes_by_hand(3..(200 << 10)).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[..3], [9; 3]);
        assert!(bytes[3..200 << 10].iter().all(|&b| b == 0));
        assert!(bytes[200 << 10..].iter().all(|&b| b == 9));
    }

    #[test]
    fn nothing_makes_the_file_longer() {
        let (_folder, path) = image(1024);
        let backend = FileBackend::open(&path, Access::ReadWrite).unwrap();
        assert!(backend.write_at(1024, &[0], Durability::Cached).is_err());
        assert!(backend.write_zeroes(0..1025, Durability::Cached).is_err());
        assert!(backend.discard(512..2048).is_err());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 1024);
    }

    #[test]
    fn a_file_that_shrank_is_an_error_and_not_zeros() {
        let (_folder, path) = image(8192);
        let backend = FileBackend::open(&path, Access::ReadOnly).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(4096)
            .unwrap();
        let error = backend.read_at(4096, &mut [0; 512]).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("offset 4096"), "{error}");
    }

    #[test]
    fn a_second_writer_is_refused_and_two_readers_are_not() {
        let (_folder, path) = image(1024);
        let writer = FileBackend::open(&path, Access::ReadWrite).unwrap();
        let error = FileBackend::open(&path, Access::ReadWrite).err().unwrap();
        assert!(error.is_busy(), "{error}");
        assert!(FileBackend::open(&path, Access::ReadOnly).is_err());
        drop(writer);
        let _reader = FileBackend::open(&path, Access::ReadOnly).unwrap();
        let _second = FileBackend::open(&path, Access::ReadOnly).unwrap();
        assert!(FileBackend::open(&path, Access::ReadWrite).is_err());
    }

    #[test]
    fn the_header_lock_is_a_flock_only_while_held() {
        let (_folder, path) = image(1024);
        let backend = FileBackend::open(&path, Access::ReadWrite).unwrap();
        let other = File::open(&path).unwrap();
        let try_shared =
            || rustix::fs::flock(&other, rustix::fs::FlockOperation::NonBlockingLockShared);
        let lock = backend.lock_header(LockKind::Write).unwrap();
        assert_eq!(try_shared(), Err(Errno::AGAIN));
        drop(lock);
        try_shared().unwrap();
    }

    #[test]
    fn a_read_only_backend_refuses_writes() {
        let (_folder, path) = image(1024);
        let backend = FileBackend::open(&path, Access::ReadOnly).unwrap();
        assert!(backend.write_at(0, &[1], Durability::Cached).is_err());
        assert!(backend.info().read_only);
    }

    #[test]
    fn a_folder_is_not_an_image() {
        let folder = tempfile::tempdir().unwrap();
        let error = FileBackend::open(folder.path(), Access::ReadOnly)
            .err()
            .unwrap();
        assert!(error.to_string().contains("neither"), "{error}");
    }
}
