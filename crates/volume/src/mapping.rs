//! A table at work, on its backends.

mod forgotten;
mod resize;

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use forgotten::ForgottenKey;
pub use resize::ResizeError;

use rustix::event::{EventfdFlags, eventfd};
use scrim_backend::{Backend, BackendError, Durability, Medium};
use scrim_crypt::{CipherError, Geometry, SectorCipher};

use crate::path::{CryptPath, CryptRunner, DataPath, Direction};
use crate::range_lock::RangeLock;
use crate::segment::Runner;
use crate::stats::Record;
use crate::{CryptTable, CryptTarget, Difference, Line, Target, VolumeError};

/// The unit of a table's numbers, in bytes.
pub(crate) const SECTOR: u64 = 512;

/// A table at work. Only its end can change: a volume that gets another table gets another mapping.
pub struct Mapping {
    table: CryptTable,
    path: DataPath,
    segments: Vec<Segment>,
    /// Backends, each once, with its name in the table.
    backends: Vec<(String, Arc<dyn Backend>)>,
    /// End of the last segment, in bytes; it alone changes.
    size: AtomicU64,
    block_size: u32,
    read_only: bool,
    allow_discards: bool,
    /// Readable once another mapping is at work, so that the holder of this one lets it go.
    retired: OwnedFd,
    /// Set where this mapping holds the place of one whose key is forgotten.
    forgotten: Option<ForgottenKey>,
    /// Dropped last, so that a weak pointer to it tells when all else is gone, keys included.
    alive: Arc<()>,
}

pub(crate) struct Segment {
    /// Range of the volume, in bytes. The last one ends where the volume does.
    range: Range<u64>,
    pub(crate) runner: Runner,
}

impl Mapping {
    /// Starts a table. `open` is asked once for each device that the table names.
    ///
    /// # Errors
    /// When a device cannot be opened, a target passes its end, or a cipher or key does not fit.
    pub(crate) fn start(
        table: CryptTable,
        path: DataPath,
        mut open: impl FnMut(&str) -> Result<Arc<dyn Backend>, BackendError>,
    ) -> Result<Self, OpenError> {
        let mut opened: Vec<(String, Arc<dyn Backend>)> = Vec::new();
        let mut segments = Vec::new();
        for line in table.lines() {
            let backend = match line.target.device() {
                None => None,
                Some(device) => match opened.iter().find(|(name, _)| name == device) {
                    Some((_, backend)) => Some(Arc::clone(backend)),
                    None => {
                        let backend = open(device)?;
                        opened.push((device.to_owned(), Arc::clone(&backend)));
                        Some(backend)
                    }
                },
            };
            segments.push(Segment {
                range: line.start * SECTOR..(line.start + line.len) * SECTOR,
                runner: runner(line, path, backend)?,
            });
        }
        let size = table.len() * SECTOR;
        if let Some(last) = segments.last_mut() {
            last.range.end = u64::MAX;
        }
        let largest = segments.iter().map(|s| s.runner.block_size()).max();
        Ok(Self {
            size: AtomicU64::new(size),
            block_size: largest
                .and_then(|bytes| u32::try_from(bytes).ok())
                .unwrap_or(512),
            read_only: (opened.iter()).any(|(_, backend)| backend.info().read_only),
            allow_discards: table.lines().iter().all(Line::allows_discards),
            table,
            path,
            segments,
            backends: opened,
            retired: eventfd(0, EventfdFlags::CLOEXEC)
                .map_err(|error| OpenError::Queues(error.into()))?,
            forgotten: None,
            alive: Arc::new(()),
        })
    }

    /// Returns the table it runs, as it was started; [`Volume::resize`](crate::Volume::resize) leaves it as it is.
    #[must_use]
    pub fn table(&self) -> &CryptTable {
        &self.table
    }

    /// Returns the first difference by which another table would give other data than this one does, with
    /// its size as of now; see [`CryptTable::difference`].
    #[must_use]
    pub fn difference(&self, new: &CryptTable) -> Option<Difference> {
        self.table.difference_until(self.size() / SECTOR, new)
    }

    /// Returns the data path of its requests.
    #[must_use]
    pub fn path(&self) -> DataPath {
        self.path
    }

    /// Returns the data path that results for one direction of the first crypt target, with its flags.
    #[must_use]
    pub fn path_of(&self, direction: Direction) -> DataPath {
        let crypt = self
            .table
            .lines()
            .iter()
            .find_map(|line| match &line.target {
                Target::Crypt(crypt) => Some(crypt),
                _ => None,
            });
        crypt.map_or(self.path, |crypt| self.path.of(&crypt.options, direction))
    }

    /// Returns the backend that the table has under a name.
    pub(crate) fn backend(&self, name: &str) -> Option<&Arc<dyn Backend>> {
        let mut backends = self.backends.iter();
        backends
            .find(|(other, _)| other == name)
            .map(|(_, backend)| backend)
    }

    /// Tells all holders that another mapping is at work.
    pub(crate) fn retire(&self) {
        let _ = rustix::io::write(&self.retired, &1u64.to_ne_bytes());
    }

    /// Returns a file that is readable once another mapping is at work.
    pub(crate) fn retired(&self) -> BorrowedFd<'_> {
        self.retired.as_fd()
    }

    /// Flushes the backends that another mapping does not use.
    pub(crate) fn flush_those_not_in(&self, other: &Self) -> Result<(), VolumeError> {
        let kept = |backend: &Arc<dyn Backend>| {
            let mut others = other.backends.iter();
            others.any(|(_, other)| Arc::ptr_eq(other, backend))
        };
        for (_, backend) in self.backends.iter().filter(|(_, backend)| !kept(backend)) {
            backend.flush()?;
        }
        Ok(())
    }

    /// Returns whether a direction of a target goes through dm-crypt's queues.
    pub(crate) fn is_queued(&self) -> bool {
        self.segments.iter().any(|segment| match &segment.runner {
            Runner::Crypt(crypt) => crypt.queues.is_some(),
            _ => false,
        })
    }

    /// Returns the size in bytes; [`Volume::resize`](crate::Volume::resize) changes it.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// The largest encryption sector, in bytes (512 to 4096). Requests of any size and offset are
    /// served; those that are multiples of it cost least.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Returns the driver of the first crypt target's cipher, as `scrim status` shows it.
    #[must_use]
    pub fn driver(&self) -> Option<&'static str> {
        self.segments.iter().find_map(|s| s.runner.driver())
    }

    /// Returns whether writes are refused.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns whether discards are passed on.
    #[must_use]
    pub fn allows_discard(&self) -> bool {
        self.allow_discards && !self.read_only
    }

    /// Reads plaintext from `offset` (bytes) into `buffer`.
    ///
    /// # Errors
    /// When the range passes the end or the storage fails; `buffer` then holds no plaintext of
    /// another place, but may hold ciphertext.
    pub(crate) fn read(
        &self,
        offset: u64,
        buffer: &mut [u8],
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let mut buffer = buffer;
        for (segment, part) in self.within(offset, buffer.len() as u64)? {
            let (now, rest) = buffer.split_at_mut(length(&part));
            buffer = rest;
            segment.runner.read(part.start, now, record)?;
        }
        Ok(())
    }

    /// Writes plaintext at `offset` (bytes). It is encrypted in place, so `data` holds nothing of use afterwards.
    ///
    /// # Errors
    /// When the volume is read-only, the range passes the end, or the storage fails; part of the
    /// data may then have been written.
    pub(crate) fn write(
        &self,
        offset: u64,
        data: &mut [u8],
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        self.check_writable()?;
        let mut data = data;
        for (segment, part) in self.within(offset, data.len() as u64)? {
            let (now, rest) = data.split_at_mut(length(&part));
            data = rest;
            segment.runner.write(part.start, now, durability, record)?;
        }
        Ok(())
    }

    /// Makes all writes that have returned durable.
    ///
    /// # Errors
    /// When the storage fails, now or in an earlier flush.
    pub(crate) fn flush(&self) -> Result<(), VolumeError> {
        // Each is tried, whatever became of the others.
        let results: Vec<_> = self
            .backends
            .iter()
            .map(|(_, backend)| backend.flush())
            .collect();
        Ok(results.into_iter().collect::<Result<(), _>>()?)
    }

    /// Says that `len` bytes at `offset` are no longer needed. What they read as afterwards is
    /// undefined: a hole in the ciphertext decrypts to noise.
    ///
    /// # Errors
    /// When discards are not allowed, the range passes the end, or the storage fails.
    pub(crate) fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.check_writable()?;
        if !self.allow_discards {
            return Err(VolumeError::DiscardNotAllowed);
        }
        for (segment, part) in self.within(offset, len)? {
            segment.runner.discard(part)?;
        }
        Ok(())
    }

    /// Makes `len` bytes at `offset` read as zeros, by writing encrypted zeros.
    ///
    /// # Errors
    /// As for [`Volume::write`](crate::Volume::write).
    pub(crate) fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        self.check_writable()?;
        for (segment, part) in self.within(offset, len)? {
            segment.runner.write_zeroes(part, durability, record)?;
        }
        Ok(())
    }

    pub(crate) fn backends(&self) -> impl Iterator<Item = &dyn Backend> {
        self.backends.iter().map(|(_, backend)| &**backend)
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the segment in which a range lies whole, and the range's offset in it, in bytes.
    pub(crate) fn segment_of(&self, offset: u64, len: usize) -> Option<(usize, u64)> {
        let end = offset
            .checked_add(len as u64)
            .filter(|&end| end <= self.size())?;
        let index = self.segments.partition_point(|s| s.range.end <= offset);
        let range = &self.segments.get(index)?.range;
        (end <= range.end).then(|| (index, offset - range.start))
    }

    fn check_writable(&self) -> Result<(), VolumeError> {
        if self.read_only {
            Err(VolumeError::ReadOnly)
        } else {
            Ok(())
        }
    }

    /// Returns the segments that a range touches, each with the part of the range in it, in bytes from
    /// the segment's start.
    fn within(
        &self,
        offset: u64,
        len: u64,
    ) -> Result<impl Iterator<Item = (&Segment, Range<u64>)>, VolumeError> {
        let size = self.size();
        let end = offset
            .checked_add(len)
            .filter(|&end| end <= size)
            .ok_or(VolumeError::OutOfRange { offset, len, size })?;
        let first = self.segments.partition_point(|s| s.range.end <= offset);
        let touched = self.segments[first..]
            .iter()
            .take_while(move |s| s.range.start < end);
        Ok(touched.map(move |segment| {
            let start = offset.max(segment.range.start) - segment.range.start;
            let end = end.min(segment.range.end) - segment.range.start;
            (segment, start..end)
        }))
    }
}

/// Returns the length of a part of a buffer, which therefore fits a `usize`.
#[allow(
    clippy::cast_possible_truncation,
    reason = "at most the buffer's length"
)]
fn length(part: &Range<u64>) -> usize {
    (part.end - part.start) as usize
}

fn runner(
    line: &Line,
    path: DataPath,
    backend: Option<Arc<dyn Backend>>,
) -> Result<Runner, OpenError> {
    Ok(match (&line.target, backend) {
        (Target::Zero, _) => Runner::Zero,
        (Target::Crypt(target), Some(backend)) => {
            let start = fit(line, &target.device, target.offset, &*backend)?;
            let runner = crypt_runner(target, backend, start)?;
            let started = CryptPath::start(runner, path, &target.options);
            Runner::Crypt(Box::new(started.map_err(OpenError::Queues)?))
        }
        (Target::Linear(target), Some(backend)) => Runner::Linear {
            start: fit(line, &target.device, target.offset, &*backend)?,
            backend,
        },
        (Target::Error | Target::Crypt(_) | Target::Linear(_), _) => Runner::Error,
    })
}

fn crypt_runner(
    target: &CryptTarget,
    backend: Arc<dyn Backend>,
    start: u64,
) -> Result<CryptRunner, OpenError> {
    let options = &target.options;
    let geometry = Geometry {
        sector_size: options.sector_size,
        iv_large_sectors: options.iv_large_sectors,
    };
    let cipher = SectorCipher::new(&target.cipher, target.key.expose(), geometry)?;
    Ok(CryptRunner {
        cipher,
        backend,
        start,
        first_iv: target.iv_offset,
        sector_size: geometry.sector_size.bytes(),
        geometry,
        locks: RangeLock::new(),
        asynchronous: target.cipher.is_asynchronous(),
    })
}

/// Returns the place where a target starts on its backend, in bytes, if all of it lies within.
fn fit(line: &Line, device: &str, offset: u64, backend: &dyn Backend) -> Result<u64, OpenError> {
    let size = backend.info().size;
    let end = offset
        .checked_add(line.len)
        .and_then(|end| end.checked_mul(SECTOR));
    if let Medium::File { alignment, .. } = backend.medium() {
        let unit = match &line.target {
            Target::Crypt(crypt) => crypt.options.sector_size.bytes() as u64,
            _ => SECTOR,
        };
        let start = offset.saturating_mul(SECTOR);
        if !unit.is_multiple_of(alignment) || !start.is_multiple_of(alignment) {
            return Err(OpenError::Blocks {
                device: device.to_owned(),
                block: alignment,
            });
        }
    }
    match end {
        Some(end) if end <= size => Ok(offset * SECTOR),
        _ => Err(OpenError::DeviceTooSmall {
            device: device.to_owned(),
            needs: end.unwrap_or(u64::MAX),
            size,
        }),
    }
}

/// Reason why a table could not be started.
#[derive(Debug)]
pub enum OpenError {
    /// A device could not be opened.
    Backend(BackendError),
    /// A target passes the end of its device.
    DeviceTooSmall {
        /// The device's name in the table.
        device: String,
        /// End of the target, in bytes.
        needs: u64,
        /// The device's size, in bytes.
        size: u64,
    },
    /// Past the page cache, the device has larger blocks than a target's sectors, or a target does not
    /// start at one.
    Blocks {
        /// The device's name in the table.
        device: String,
        /// Block size of the device, in bytes.
        block: u64,
    },
    /// The cipher is not supported, or the key does not fit it.
    Cipher(CipherError),
    /// The system gives no threads for the queued path, or no descriptor.
    Queues(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(error) => error.fmt(f),
            Self::DeviceTooSmall {
                device,
                needs,
                size,
            } => write!(
                f,
                "{device} has {size} bytes, but the table needs {needs}: it was cut short, or the \
                 table belongs to another device"
            ),
            Self::Blocks { device, block } => write!(
                f,
                "{device} has blocks of {block} bytes, which a write of less would have to read and \
                 change; go through the page cache with --direct-io off"
            ),
            Self::Cipher(error) => error.fmt(f),
            Self::Queues(error) => write!(
                f,
                "cannot start the threads of the queued path: {error}; use --data-path inline"
            ),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Backend(error) => Some(error),
            Self::Cipher(error) => Some(error),
            Self::Queues(error) => Some(error),
            Self::DeviceTooSmall { .. } | Self::Blocks { .. } => None,
        }
    }
}

impl From<BackendError> for OpenError {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

impl From<CipherError> for OpenError {
    fn from(error: CipherError) -> Self {
        Self::Cipher(error)
    }
}
