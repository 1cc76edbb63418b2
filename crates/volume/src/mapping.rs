//! A table at work, on its backends.

mod forgotten;
mod forgotten_key;
mod resize;

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use forgotten_key::ForgottenKey;
pub use resize::ResizeError;

use rustix::event::{EventfdFlags, eventfd};
use scrim_backend::{Backend, BackendError, Durability};

use crate::data_path::{DataPath, Direction};
use crate::error::{OpenError, VolumeError};
use crate::path::CryptPath;
use crate::stats::Record;
use crate::table::{CryptTable, Difference, Line, SECTOR, TargetSpec};
use crate::target::Target;

/// A table at work. Only its end can change: a volume that gets another table gets another mapping.
pub struct Mapping {
    table: CryptTable,
    path: DataPath,
    targets: Vec<Target>,
    /// Backends, each once, with its name in the table.
    backends: Vec<(String, Arc<dyn Backend>)>,
    /// End of the last target, in bytes; it alone changes.
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
        let mut targets = Vec::new();
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
            targets.push(Target::start(line, path, backend)?);
        }
        let size = table.len() * SECTOR;
        if let Some(last) = targets.last_mut() {
            last.range.end = u64::MAX;
        }
        let largest = targets.iter().map(Target::block_size).max();
        Ok(Self {
            size: AtomicU64::new(size),
            block_size: largest
                .and_then(|bytes| u32::try_from(bytes).ok())
                .unwrap_or(512),
            read_only: (opened.iter()).any(|(_, backend)| backend.info().read_only),
            allow_discards: table.lines().iter().all(Line::allows_discards),
            table,
            path,
            targets,
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
                TargetSpec::Crypt(crypt) => Some(crypt),
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
        let mut crypt = self.targets.iter().filter_map(Target::crypt);
        crypt.any(|crypt| crypt.kcryptd.is_some())
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
        self.targets.iter().find_map(Target::driver)
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
    pub(crate) fn read_from_targets(
        &self,
        offset: u64,
        buffer: &mut [u8],
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let mut buffer = buffer;
        for (target, part) in self.within(offset, buffer.len() as u64)? {
            let (now, rest) = buffer.split_at_mut(length(&part));
            buffer = rest;
            target.map_read(part.start, now, record)?;
        }
        Ok(())
    }

    /// Writes plaintext at `offset` (bytes). It is encrypted in place, so `data` holds nothing of use afterwards.
    ///
    /// # Errors
    /// When the volume is read-only, the range passes the end, or the storage fails; part of the
    /// data may then have been written.
    pub(crate) fn write_to_targets(
        &self,
        offset: u64,
        data: &mut [u8],
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        self.check_writable()?;
        let mut data = data;
        for (target, part) in self.within(offset, data.len() as u64)? {
            let (now, rest) = data.split_at_mut(length(&part));
            data = rest;
            target.map_write(part.start, now, durability, record)?;
        }
        Ok(())
    }

    /// Makes all writes that have returned durable.
    ///
    /// # Errors
    /// When the storage fails, now or in an earlier flush.
    pub(crate) fn flush_backends(&self) -> Result<(), VolumeError> {
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
    pub(crate) fn discard_in_targets(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.check_writable()?;
        if !self.allow_discards {
            return Err(VolumeError::DiscardNotAllowed);
        }
        for (target, part) in self.within(offset, len)? {
            target.map_discard(part)?;
        }
        Ok(())
    }

    /// Makes `len` bytes at `offset` read as zeros, by writing encrypted zeros.
    ///
    /// # Errors
    /// As for [`Volume::write`](crate::Volume::write).
    pub(crate) fn write_zeros_to_targets(
        &self,
        offset: u64,
        len: u64,
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        self.check_writable()?;
        for (target, part) in self.within(offset, len)? {
            target.map_zeros(part, durability, record)?;
        }
        Ok(())
    }

    pub(crate) fn backends(&self) -> impl Iterator<Item = &dyn Backend> {
        self.backends.iter().map(|(_, backend)| &**backend)
    }

    pub(crate) fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Returns the index of the target in which a range lies whole, and the range's offset in it, in bytes.
    pub(crate) fn target_of(&self, offset: u64, len: usize) -> Option<(usize, u64)> {
        let end = offset
            .checked_add(len as u64)
            .filter(|&end| end <= self.size())?;
        let index = self
            .targets
            .partition_point(|target| target.range.end <= offset);
        let range = &self.targets.get(index)?.range;
        (end <= range.end).then(|| (index, offset - range.start))
    }

    /// Returns the crypt target in which a range lies whole, and the range's offset in it, in bytes.
    pub(crate) fn crypt_of(&self, offset: u64, len: usize) -> Option<(&CryptPath, u64)> {
        let (index, within) = self.target_of(offset, len)?;
        let crypt = self.targets.get(index)?.crypt()?;
        Some((crypt, within))
    }

    fn check_writable(&self) -> Result<(), VolumeError> {
        if self.read_only {
            Err(VolumeError::ReadOnly)
        } else {
            Ok(())
        }
    }

    /// Returns the targets that a range touches, each with the part of the range in it, in bytes from
    /// the target's start.
    fn within(
        &self,
        offset: u64,
        len: u64,
    ) -> Result<impl Iterator<Item = (&Target, Range<u64>)>, VolumeError> {
        let size = self.size();
        let end = offset
            .checked_add(len)
            .filter(|&end| end <= size)
            .ok_or(VolumeError::OutOfRange { offset, len, size })?;
        let first = self
            .targets
            .partition_point(|target| target.range.end <= offset);
        let touched = self.targets[first..]
            .iter()
            .take_while(move |target| target.range.start < end);
        Ok(touched.map(move |target| {
            let start = offset.max(target.range.start) - target.range.start;
            let end = end.min(target.range.end) - target.range.start;
            (target, start..end)
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
