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
const IN_USE: &str = "another program has it open: close that one, or open both with --readonly";

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
    path: PathBuf,
    kind: Kind,
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
            guard::take(self.file.as_fd(), access).map_err(|error| {
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
        self.direct = Some(direct.map_err(|error| self.error(Operation::Open, error))?);
        Ok(self)
    }

    /// Returns whether it is a block device.
    #[must_use]
    pub fn is_device(&self) -> bool {
        matches!(self.kind, Kind::Block(_))
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
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, len) {
            // A file system that cannot tell.
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(self.error(Operation::Write { offset: 0, len }, error)),
        }
    }

    /// Makes a regular file longer, durably and in one step with `bytes`, which are to lie at `offset`,
    /// behind its end. If that fails, the file is cut again.
    ///
    /// # Errors
    /// When it cannot be made longer.
    pub fn grow(&self, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
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

    /// Cuts a regular file durably to its first `len` bytes; a device keeps its size.
    ///
    /// # Errors
    /// When it cannot be cut.
    pub fn cut(&self, len: u64) -> Result<(), BackendError> {
        let size = self.measure()?.size;
        if self.kind != Kind::Regular || size <= len {
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

    /// Writes by the way that was chosen: through the page cache, or past it.
    fn put(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match &self.direct {
            Some(direct) => direct.write_at(offset, data),
            None => self.file.write_all_at(data, offset),
        }
    }

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
        self.size.store(size, Ordering::Relaxed);
        Ok(self.info())
    }

    fn medium(&self) -> Medium<'_> {
        match &self.direct {
            Some(direct) => Medium::File {
                file: direct.file(),
                alignment: direct.alignment(),
                cached: None,
                blocks: Some(&direct.blocks),
            },
            None => Medium::File {
                file: self.file.as_fd(),
                alignment: 1,
                cached: Some(&self.cache),
                blocks: None,
            },
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        let len = buffer.len() as u64;
        match &self.direct {
            Some(direct) => direct.read_at(offset, buffer),
            None => self.file.read_exact_at(buffer, offset),
        }
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
        self.put(offset, data)
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
        (self.zero(range)).map_err(|error| self.error(operation, error))?;
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
    fn a_file_grows_with_what_is_written_behind_its_end_and_is_cut() {
        let (_folder, path) = image(1000);
        let backend = FileBackend::open(&path, Access::ReadWrite).unwrap();
        backend.grow(5000, b"end").unwrap();
        assert_eq!(backend.info().size, 5003);
        backend.write_at(4000, &[1], Durability::Durable).unwrap();
        backend.cut(6000).unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[5000..], *b"end");
        backend.cut(1000).unwrap();
        assert_eq!(backend.info().size, 1000);
        assert!(backend.write_at(1000, &[1], Durability::Cached).is_err());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 1000);
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
    fn a_file_that_grew_is_as_large_as_when_it_was_last_measured() {
        let (_folder, path) = image(1024);
        let backend = FileBackend::open(&path, Access::ReadWrite).unwrap();
        let other = File::options().write(true).open(&path).unwrap();
        other.set_len(2048).unwrap();
        assert_eq!(backend.info().size, 1024);
        assert!(backend.write_at(1024, &[1], Durability::Cached).is_err());
        assert_eq!(backend.measure().unwrap().size, 2048);
        backend.write_at(1024, &[1], Durability::Cached).unwrap();
        other.set_len(512).unwrap();
        assert_eq!(backend.measure().unwrap().size, 512);
        assert!(backend.write_at(1024, &[1], Durability::Cached).is_err());
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

    /// The kernel reports a failed write-back to the first sync only. Eight at once must all hear
    /// of it, and every later one too. The full disk is a loop device on a small tmpfs.
    #[test]
    fn a_failed_flush_fails_for_everybody_and_for_good() {
        let Some(disk) = FullDisk::make() else {
            assert!(std::env::var_os("CI").is_none(), "no loop device in CI");
            println!("skipped: needs root and a loop device");
            return;
        };
        let backend = FileBackend::open(&disk.device, Access::ReadWrite).unwrap();
        backend
            .write_at(0, &vec![1; 8 << 20], Durability::Cached)
            .unwrap();
        std::thread::scope(|scope| {
            let flushes: Vec<_> = (0..8).map(|_| scope.spawn(|| backend.flush())).collect();
            for flush in flushes {
                assert!(flush.join().unwrap().is_err());
            }
        });
        assert!(backend.flush().is_err());
        assert!(backend.write_at(0, &[1; 512], Durability::Durable).is_err());
    }

    struct FullDisk {
        folder: tempfile::TempDir,
        device: PathBuf,
    }

    impl FullDisk {
        fn make() -> Option<Self> {
            let folder = tempfile::tempdir().unwrap();
            let at = folder.path().to_str()?;
            let run = |command: &str| {
                let output = std::process::Command::new("sh")
                    .args(["-c", command])
                    .output();
                let output = output.ok().filter(|output| output.status.success())?;
                Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
            };
            run(&format!("mount -t tmpfs -o size=2m scrim-test {at}"))?;
            run(&format!("truncate -s 16M {at}/image"))?;
            let device = run(&format!("losetup --find --show {at}/image"));
            let device = PathBuf::from(device.unwrap_or_default());
            let disk = Self { folder, device };
            (!disk.device.as_os_str().is_empty()).then_some(disk)
        }
    }

    impl Drop for FullDisk {
        fn drop(&mut self) {
            let (device, at) = (self.device.display(), self.folder.path().display());
            let command = format!("losetup -d {device}; umount -l {at}");
            let _ = std::process::Command::new("sh")
                .args(["-c", &command])
                .output();
        }
    }

    /// Reads and writes that are aligned and such that are not see each other's bytes.
    #[test]
    fn past_the_cache_any_range_is_read_and_written() {
        let (_folder, path) = image(64 << 10);
        let opened = FileBackend::open(&path, Access::ReadWrite).unwrap();
        assert!(matches!(
            opened.medium(),
            Medium::File {
                cached: Some(_),
                ..
            }
        ));
        let backend = match opened.past_the_cache() {
            Ok(backend) => backend,
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        };
        assert!(matches!(
            backend.medium(),
            Medium::File { cached: None, .. }
        ));
        let mut buffer = scrim_sys::memory::DataBuffer::zeroed(8192);
        for (round, offset) in [(1, 0), (2, 4096), (3, 512), (4, 8192)] {
            buffer[..4096].fill(round);
            backend
                .write_at(offset, &buffer[..4096], Durability::Cached)
                .unwrap();
            let mut odd = [0; 100];
            backend.read_at(offset + 7, &mut odd).unwrap();
            assert_eq!(odd, [round; 100]);
            backend
                .write_at(offset + 1, &[9; 3], Durability::Cached)
                .unwrap();
            backend.read_at(offset, &mut buffer[4096..]).unwrap();
            assert_eq!(buffer[4096..4101], [round, 9, 9, 9, round]);
        }
        for range in [100..200, 300..20_000, 4096..8192] {
            backend
                .write_at(0, &[5; 32 << 10], Durability::Cached)
                .unwrap();
            let (from, to) = (range.start, range.end);
            backend
                .write_zeroes(from as u64..to as u64, Durability::Cached)
                .unwrap();
            let mut all = vec![9; 32 << 10];
            backend.read_at(0, &mut all).unwrap();
            assert!(all[from..to].iter().all(|&byte| byte == 0));
            assert!(all[..from].iter().chain(&all[to..]).all(|&byte| byte == 5));
        }
        backend.flush().unwrap();
    }

    /// A change of a part of a block must not undo zeros.
    #[test]
    fn zeros_past_the_cache_wait_for_a_change_of_a_part_of_a_block() {
        let (_folder, path) = image(64 << 10);
        let opened = FileBackend::open(&path, Access::ReadWrite).unwrap();
        let backend = match opened.past_the_cache() {
            Ok(backend) => backend,
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        };
        let Medium::File {
            blocks: Some(blocks),
            ..
        } = backend.medium()
        else {
            panic!("parts of blocks are changed here");
        };
        let alone = blocks.take(0);
        std::thread::scope(|scope| {
            let (ended, has_ended) = std::sync::mpsc::channel();
            let backend = &backend;
            scope.spawn(move || {
                backend.write_zeroes(0..8192, Durability::Cached).unwrap();
                ended.send(()).unwrap();
            });
            let pause = std::time::Duration::from_millis(100);
            assert!(has_ended.recv_timeout(pause).is_err());
            drop(alone);
            has_ended.recv().unwrap();
        });
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
