//! A regular file or a block device, through plain system calls.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::access::Access;
use crate::direct::Direct;
use crate::own_file;
use crate::{
    Backend, BackendError, Durability, HeaderLock, Info, LockKind, Medium, Operation, PageCache,
    guard,
};

/// Length of one write of zeros where the storage has no call that zeroes a range, in bytes.
const ZERO_PIECE: usize = 64 << 10;

/// Advice about a file that another program has open.
const IN_USE: &str = "another program has it open: close it there first";

/// Choice between keeping other programs away while a file is open and letting them in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Exclusive,
    Shared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Regular,
    /// A block device, with its device number.
    Block(u64),
}

/// A file or block device.
pub struct FileBackend {
    file: File,
    /// The same file, opened past the page cache.
    direct: Option<Direct>,
    cache: PageCache,
    /// Path by which it was opened; of a window, with its place.
    path: PathBuf,
    kind: Kind,
    /// Part of the file that is the backend, in bytes; `None` for all of it, however long it becomes.
    window: Option<Range<u64>>,
    /// Size in bytes; the bytes behind it are not touched.
    size: AtomicU64,
    read_only: bool,
    /// True if a sync has failed; see [`Backend::flush`]. Held across each sync: the kernel tells
    /// of a failed write-back once, and of two syncs at a time the other would seem to succeed.
    sync_failed: Mutex<bool>,
}

impl FileBackend {
    /// Opens an existing file or block device, and keeps others from using it in a way that
    /// conflicts with `access` until it is dropped: other programs that take QEMU's locks on a file
    /// (two readers do not conflict), or that open or mount a device exclusively.
    ///
    /// # Errors
    /// When it cannot be opened, is neither file nor block device, or is in use.
    pub fn open(path: &Path, access: Access) -> Result<Self, BackendError> {
        Self::open_as(path, access, Sharing::Exclusive)?.guarded(access)
    }

    /// Opens a range (bytes) of an existing file or block device like [`FileBackend::open`]. Nothing outside of it is
    /// read or written, and it keeps its size. Other windows of the same file may be open at the same time, unless they
    /// overlap and one of them is written to; a block device has one at a time.
    ///
    /// # Errors
    /// As for [`FileBackend::open`], and when the window is empty or ends behind the file.
    pub fn open_window(
        path: &Path,
        window: Range<u64>,
        access: Access,
    ) -> Result<Self, BackendError> {
        Self::open_as(path, access, Sharing::Exclusive)?
            .within(window)?
            .guarded(access)
    }

    /// Opens a range (bytes) of a file or block device without keeping other programs out, like
    /// [`FileBackend::open_shared`].
    ///
    /// # Errors
    /// As for [`FileBackend::open_shared`], and when the window is empty or ends behind the file.
    pub fn open_window_shared(
        path: &Path,
        window: Range<u64>,
        access: Access,
    ) -> Result<Self, BackendError> {
        Self::open_as(path, access, Sharing::Shared)?.within(window)
    }

    /// Limits it to a window.
    fn within(mut self, window: Range<u64>) -> Result<Self, BackendError> {
        let size = self.info().size;
        if window.is_empty() || window.end > size {
            let error = io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "bytes {} to {} are not in it, it has {size} bytes; check offset and size",
                    window.start, window.end
                ),
            );
            return Err(self.error(Operation::Open, error));
        }
        let len = window.end - window.start;
        self.size = AtomicU64::new(len);
        let mut name = self.path.into_os_string();
        name.push(format!("#{}+{len}", window.start));
        self.path = name.into();
        self.window = Some(window);
        Ok(self)
    }

    /// Opens like [`FileBackend::open`] a regular file that this program keeps beside another one: see
    /// [`own_file`].
    ///
    /// # Errors
    /// When it cannot be opened, is in use, or is not a file of this user's.
    pub fn open_own(path: &Path, access: Access) -> Result<Self, BackendError> {
        let opened = own_file::open(path, access)
            .and_then(|file| Self::from_file(file, path, Kind::Regular, access));
        let fail = |error| BackendError::new(Operation::Open, &path.to_string_lossy(), error);
        opened.map_err(fail)?.guarded(access)
    }

    /// Keeps others from using a regular file in a way that conflicts with `access`.
    fn guarded(self, access: Access) -> Result<Self, BackendError> {
        if self.kind == Kind::Regular {
            let file = self.file.as_fd();
            let taken = match &self.window {
                Some(window) => guard::take_window(file, access, window),
                None => guard::take(file, access),
            };
            taken.map_err(|error| {
                let in_use = error.kind() == io::ErrorKind::WouldBlock;
                let error = self.error(Operation::Lock, error);
                if in_use {
                    error.with_hint(IN_USE)
                } else {
                    error
                }
            })?;
        }
        Ok(self)
    }

    /// Opens like [`FileBackend::open`] without keeping other programs out: for reading and writing
    /// headers, which [`Backend::lock_header`] protects.
    ///
    /// # Errors
    /// When it cannot be opened, or is neither file nor block device.
    pub fn open_shared(path: &Path, access: Access) -> Result<Self, BackendError> {
        Self::open_as(path, access, Sharing::Shared)
    }

    fn open_as(path: &Path, access: Access, sharing: Sharing) -> Result<Self, BackendError> {
        let fail = |error| BackendError::new(Operation::Open, &path.to_string_lossy(), error);
        let kind = kind_of(path).map_err(fail)?;
        let mut options = File::options();
        options.read(true).write(access == Access::ReadWrite);
        if sharing == Sharing::Exclusive && matches!(kind, Kind::Block(_)) {
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
        let made = file
            .set_len(size)
            .and_then(|()| sync_parent(path))
            .and_then(|()| Self::from_file(file, path, Kind::Regular, Access::ReadWrite));
        made.map_err(|error| {
            let _ = std::fs::remove_file(path);
            fail(error)
        })
    }

    fn from_file(file: File, path: &Path, kind: Kind, access: Access) -> io::Result<Self> {
        Ok(Self {
            size: AtomicU64::new(size_of(&file, kind)?),
            file,
            direct: None,
            cache: PageCache::new(),
            path: path.to_owned(),
            kind,
            window: None,
            read_only: access == Access::ReadOnly,
            sync_failed: Mutex::new(false),
        })
    }

    /// Makes all reads and writes go past the page cache from now on, even those that are not aligned as
    /// the storage wants it: the contents of the cache would grow stale, since the kernel does not drop
    /// them after requests that it was given directly. Parts of blocks are read, changed and written.
    ///
    /// # Errors
    /// When the file system cannot do that.
    pub fn past_the_cache(mut self) -> Result<Self, BackendError> {
        let flags = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
        // By its descriptor: the path may name another file by now.
        let same = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let mut options = File::options();
        options.read(true).write(!self.info().read_only);
        let file = options.custom_flags(flags).open(same);
        let file = file.map_err(|error| self.error(Operation::Open, error))?;
        let direct = Direct::new(file, self.is_device());
        let direct = direct.map_err(|error| self.error(Operation::Open, error))?;
        let ends = self.window.as_ref().map_or([0, 0], |w| [w.start, w.end]);
        // A part of a block is read and written with the rest of it, which is not ours.
        if ends
            .iter()
            .any(|end| !end.is_multiple_of(direct.alignment()))
        {
            let error = io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "it starts or ends within a block of {} bytes, so it is not used past the page cache; open it \
                     with --direct-io off",
                    direct.alignment()
                ),
            );
            return Err(self.error(Operation::Open, error));
        }
        self.direct = Some(direct);
        Ok(self)
    }

    /// Place in the file of the backend's first byte.
    fn start(&self) -> u64 {
        self.window.as_ref().map_or(0, |window| window.start)
    }

    /// Returns whether it is a block device.
    #[must_use]
    pub fn is_device(&self) -> bool {
        matches!(self.kind, Kind::Block(_))
    }

    /// Returns whether it is a regular file, which can be made longer, and not a window of one.
    #[must_use]
    pub fn is_whole_file(&self) -> bool {
        self.kind == Kind::Regular && self.window.is_none()
    }

    /// Makes sure that the first `len` bytes can be written: a sparse file on a full disk fails
    /// here, before anything has changed.
    ///
    /// # Errors
    /// When the storage has no space left.
    pub fn reserve(&self, len: u64) -> Result<(), BackendError> {
        if self.kind != Kind::Regular || len == 0 {
            return Ok(());
        }
        let operation = Operation::Write { offset: 0, len };
        if self.window.is_some() {
            self.check_end(operation, 0, len)?;
        }
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.start(), len) {
            // A file system that cannot tell.
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(self.error(operation, error)),
        }
    }

    /// Makes a regular file longer, durably and in one step with `bytes`, which are to lie at `offset`,
    /// behind its end. If that fails, the file is cut again. A window keeps its size.
    ///
    /// # Errors
    /// When it cannot be made longer.
    pub fn grow(&self, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
        if self.window.is_some() {
            let len = bytes.len() as u64;
            return self.check_end(Operation::Write { offset, len }, offset, len);
        }
        let before = self.info().size;
        let grown = self.file.write_all_at(bytes, offset);
        let grown = grown.and_then(|()| self.file.sync_all());
        if let Err(error) = grown {
            let _ = self.file.set_len(before);
            let len = bytes.len() as u64;
            return Err(self.error(Operation::Write { offset, len }, error));
        }
        self.measure().map(|_| ())
    }

    /// Cuts a regular file durably to its first `len` bytes; a device and a window keep their size.
    ///
    /// # Errors
    /// When it cannot be cut.
    pub fn cut(&self, len: u64) -> Result<(), BackendError> {
        let size = self.measure()?.size;
        if !self.is_whole_file() || size <= len {
            return Ok(());
        }
        let cut = self.file.set_len(len);
        cut.and_then(|()| self.file.sync_all()).map_err(|error| {
            let (offset, len) = (len, size - len);
            self.error(Operation::Discard { offset, len }, error)
        })?;
        self.measure().map(|_| ())
    }

    /// Returns the path by which it was opened.
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
            Some(end) if end <= self.size.load(Ordering::Relaxed) => Ok(()),
            _ => Err(self.error(operation, io::ErrorKind::UnexpectedEof)),
        }
    }

    /// Writes at a place in the file, by the way that was chosen: through the page cache, or past it.
    fn put(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match &self.direct {
            Some(direct) => direct.write_at(offset, data),
            None => self.file.write_all_at(data, offset),
        }
    }

    /// Makes a range of the file zero.
    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        let whole = match &self.direct {
            Some(direct) => direct.whole_blocks(&range),
            None => range.clone(),
        };
        if whole.is_empty() {
            return self.write_zeroes_by_hand(range);
        }
        self.write_zeroes_by_hand(range.start..whole.start)?;
        self.write_zeroes_by_hand(whole.end..range.end)?;
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        let (offset, len) = (whole.start, whole.end - whole.start);
        let direct = self.direct.as_ref();
        let shared = direct.map(|direct| direct.blocks.share(&whole));
        let zeroed = fallocate(&self.file, flags, offset, len);
        drop(shared);
        match zeroed {
            Ok(()) => Ok(()),
            // Not on this file system, or a range the device cannot zero as a whole.
            Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => self.write_zeroes_by_hand(whole),
            Err(error) => Err(error.into()),
        }
    }

    fn write_zeroes_by_hand(&self, range: Range<u64>) -> io::Result<()> {
        let zeros = [0u8; ZERO_PIECE];
        let mut offset = range.start;
        while offset < range.end {
            let len = usize::try_from(range.end - offset).map_or(ZERO_PIECE, |l| l.min(ZERO_PIECE));
            self.put(offset, &zeros[..len])?;
            offset += len as u64;
        }
        Ok(())
    }
}

fn size_of(file: &File, kind: Kind) -> io::Result<u64> {
    Ok(match kind {
        Kind::Regular => file.metadata()?.len(),
        Kind::Block(_) => rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?,
    })
}

/// Makes the name of a new file durable.
fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(own_file::folder_of(path))?.sync_all()
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
        Info {
            size: self.size.load(Ordering::Relaxed),
            read_only: self.read_only,
        }
    }

    fn measure(&self) -> Result<Info, BackendError> {
        let size = size_of(&self.file, self.kind);
        let size = size.map_err(|error| self.error(Operation::Open, error))?;
        let size = match &self.window {
            Some(window) => window.end.min(size).saturating_sub(window.start),
            None => size,
        };
        self.size.store(size, Ordering::Relaxed);
        Ok(self.info())
    }

    fn medium(&self) -> Medium<'_> {
        match &self.direct {
            Some(direct) => Medium::File {
                file: direct.file(),
                start: self.start(),
                alignment: direct.alignment(),
                cached: None,
                blocks: Some(&direct.blocks),
            },
            None => Medium::File {
                file: self.file.as_fd(),
                start: self.start(),
                alignment: 1,
                cached: Some(&self.cache),
                blocks: None,
            },
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        let len = buffer.len() as u64;
        let operation = Operation::Read { offset, len };
        if self.window.is_some() {
            self.check_end(operation, offset, len)?;
        }
        let at = self.start() + offset;
        match &self.direct {
            Some(direct) => direct.read_at(at, buffer),
            None => self.file.read_exact_at(buffer, at),
        }
        .map_err(|error| self.error(operation, error))
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
        self.put(self.start() + offset, data)
            .map_err(|error| self.error(operation, error))?;
        // Not as one call with RWF_DSYNC, whose error does not tell whether this data was refused
        // or earlier data is lost.
        match durability {
            Durability::Cached => Ok(()),
            Durability::Durable => self.flush(),
        }
    }

    fn flush(&self) -> Result<(), BackendError> {
        let mut failed = self
            .sync_failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *failed {
            return Err(self.error(Operation::Flush, Errno::IO));
        }
        self.file.sync_data().map_err(|error| {
            *failed = true;
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
        match fallocate(&self.file, flags, self.start() + offset, len) {
            // Advice that the storage cannot take is not an error.
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(self.error(operation, error)),
        }
    }

    fn write_zeroes(&self, range: Range<u64>, durability: Durability) -> Result<(), BackendError> {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        let operation = Operation::Write { offset, len };
        self.check_end(operation, offset, len)?;
        let start = self.start();
        let within = start + range.start..start + range.end;
        (self.zero(within)).map_err(|error| self.error(operation, error))?;
        match durability {
            Durability::Cached => Ok(()),
            Durability::Durable => self.flush(),
        }
    }

    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        let place = self.path.to_string_lossy();
        match self.kind {
            Kind::Regular => HeaderLock::of_file(self.file.as_fd(), kind, &place),
            Kind::Block(number) => HeaderLock::of_device(number, kind, &place),
        }
    }
}

#[cfg(test)]
mod tests;
