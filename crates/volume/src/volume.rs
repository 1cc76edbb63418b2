//! An open volume: requests on the one side, the exchange of its table on the other.

mod forget;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use forget::{ForgetError, KeyState, RecallError};

use scrim_backend::{Backend, BackendError, Durability};
use scrim_sys::memory::SecretBytes;

use crate::data_path::{DataPath, Direction};
use crate::error::{OpenError, VolumeError};
use crate::gate::{Gate, Pass};
use crate::mapping::{Mapping, ResizeError};
use crate::stats::{Counters, Record, Statistics};
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError};
use crate::table::{CryptTable, Difference, Keys};

/// An open table on its backends, shared between threads. Its data path says which threads do the work of a request.
///
/// The table can be exchanged while requests come, as device mapper does it: [`load`](Self::load) starts
/// another one beside it, and [`resume`](Self::resume) puts that in its place, between the requests. Requests
/// begun on the old table end on it; those that come meanwhile wait for the new one.
pub struct Volume {
    gate: Gate<Mapping>,
    /// Number of times the table has been exchanged.
    generation: AtomicUsize,
    /// Table that is loaded beside it. Locked by the thread that loads, suspends or resumes, one at a time.
    inactive: Mutex<Option<Mapping>>,
    counters: Counters,
}

/// Changes that a new table may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Serve the same data in another way.
    OfService,
    /// Change anything, also the data that the table gives.
    OfMeaning,
}

impl Volume {
    /// Starts a table. `open` is asked once for each device that the table names.
    ///
    /// # Errors
    /// When a device cannot be opened, a target passes its end, or a cipher or key does not fit.
    pub fn start(
        table: CryptTable,
        path: DataPath,
        open: impl FnMut(&str) -> Result<Arc<dyn Backend>, BackendError>,
    ) -> Result<Self, OpenError> {
        Ok(Self {
            gate: Gate::new(Mapping::start(table, path, open)?),
            generation: AtomicUsize::new(0),
            inactive: Mutex::default(),
            counters: Counters::new(),
        })
    }

    /// Starts another table beside the one that is at work, in place of a table that was loaded before.
    /// Devices that both tables use stay open; `open` is asked for the others.
    ///
    /// # Errors
    /// As for [`Volume::start`], when a key is masked, and when the table would give other data although
    /// that was not asked for. Nothing has changed then.
    pub fn load(
        &self,
        table: CryptTable,
        path: DataPath,
        change: Change,
        mut open: impl FnMut(&str) -> Result<Arc<dyn Backend>, BackendError>,
    ) -> Result<(), LoadError> {
        let mut inactive = self.inactive();
        let active = self.gate.peek();
        if active.forgotten().is_some() {
            return Err(LoadError::KeyForgotten);
        }
        if let Some(line) = active.table().masked_key(&table) {
            return Err(LoadError::MaskedKey { line });
        }
        if change == Change::OfService
            && let Some(difference) = active.difference(&table)
        {
            return Err(LoadError::Meaning(difference));
        }
        let replaced = inactive.as_ref();
        let loaded = Mapping::start(table, path, |name| {
            let loaded = || replaced.and_then(|mapping| mapping.backend(name));
            match active.backend(name).or_else(loaded) {
                Some(backend) => {
                    // It may have grown, and the new table go as far.
                    backend.measure()?;
                    Ok(Arc::clone(backend))
                }
                None => open(name),
            }
        })?;
        *inactive = Some(loaded);
        Ok(())
    }

    /// Forgets a loaded table. Returns whether there was one.
    pub fn clear(&self) -> bool {
        self.inactive().take().is_some()
    }

    /// Waits until requests that have begun end, and holds those that come. Returns `false` if one of
    /// them takes longer than `limit`; then all go on as before.
    pub fn suspend(&self, limit: Duration) -> bool {
        let _one_at_a_time = self.inactive();
        self.gate.close(limit)
    }

    /// Lets requests go on, on the loaded table if there is one. A volume that has not been suspended before is
    /// suspended while the tables are exchanged.
    ///
    /// # Errors
    /// When the key is forgotten, requests do not end within `limit`, or a device that the new table no
    /// longer uses cannot be flushed. The old table stays at work then, and the loaded one stays loaded.
    pub fn resume(&self, limit: Duration) -> Result<Resumed, ResumeError> {
        let mut inactive = self.inactive();
        let Some(new) = inactive.take() else {
            if self.gate.peek().forgotten().is_some() {
                return Err(ResumeError::KeyForgotten);
            }
            self.gate.open();
            return Ok(Resumed::AsItWas);
        };
        let was_suspended = self.gate.is_closed();
        if !self.gate.close(limit) {
            *inactive = Some(new);
            return Err(ResumeError::Busy);
        }
        let old = self.gate.peek();
        // What was acknowledged before must not escape the flushes that come.
        if let Err(error) = old.flush_those_not_in(&new) {
            *inactive = Some(new);
            if !was_suspended {
                self.gate.open();
            }
            return Err(ResumeError::Flush(error));
        }
        self.exchange(new);
        self.gate.open();
        // Its threads end, and its devices are closed, while requests go on.
        old.retire();
        drop(old);
        Ok(Resumed::OnNewTable)
    }

    /// Returns whether requests are held, or are about to be.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.gate.is_closed()
    }

    /// Returns whether a table is loaded that is not at work.
    #[must_use]
    pub fn has_inactive_table(&self) -> bool {
        self.inactive().is_some()
    }

    /// Returns the loaded table as text.
    #[must_use]
    pub fn inactive_table_text(&self, keys: Keys) -> Option<SecretBytes> {
        let inactive = self.inactive();
        inactive.as_ref().map(|loaded| loaded.table_text(keys))
    }

    /// Returns the number of times the table has been exchanged.
    #[must_use]
    pub fn generation(&self) -> usize {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the mapping that is at work now.
    #[must_use]
    pub fn mapping(&self) -> Arc<Mapping> {
        self.gate.peek()
    }

    /// Returns the size in bytes; [`Volume::resize`] and another table change it.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.mapping().size()
    }

    /// The largest encryption sector, in bytes (512 to 4096). Requests of any size and offset are
    /// served; those that are multiples of it cost least.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.mapping().block_size()
    }

    /// Returns whether writes are refused.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.mapping().is_read_only()
    }

    /// Returns whether discards are passed on.
    #[must_use]
    pub fn allows_discard(&self) -> bool {
        self.mapping().allows_discard()
    }

    /// Returns the table as text, as long as the volume is now; see [`CryptTable::to_text`].
    #[must_use]
    pub fn table_text(&self, keys: Keys) -> SecretBytes {
        self.mapping().table_text(keys)
    }

    /// Returns the statistics of the volume so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.counters.statistics()
    }

    /// Sets the volume's size to `size` bytes. Requests that have begun keep the size that they began
    /// with. Data behind a new end stays on the device; behind the old end the volume shows the device's
    /// contents, decrypted.
    ///
    /// # Errors
    /// [`ResizeError`]; the size has not changed.
    pub fn resize(&self, size: u64) -> Result<(), ResizeError> {
        let inactive = self.inactive();
        let mapping = self.mapping();
        if mapping.forgotten().is_some() {
            return Err(ResizeError::KeyForgotten);
        }
        // That table was judged by this size, and would put it back.
        if inactive.is_some() && size != mapping.size() {
            return Err(ResizeError::Loaded);
        }
        mapping.resize(size)
    }

    /// Reads plaintext from `offset` (bytes) into `buffer`.
    ///
    /// # Errors
    /// When the range passes the end or the storage fails; `buffer` then holds no plaintext of
    /// another place, but may hold ciphertext.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), VolumeError> {
        let len = buffer.len();
        self.run_counted(Direction::Read, len, |mapping, record| {
            mapping.read_from_targets(offset, buffer, record)
        })
    }

    /// Writes plaintext at `offset` (bytes). It is encrypted in place, so `data` holds nothing of use afterwards.
    ///
    /// # Errors
    /// When the volume is read-only, the range passes the end, or the storage fails; part of the
    /// data may then have been written.
    pub fn write(
        &self,
        offset: u64,
        data: &mut [u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.run_counted(Direction::Write, data.len(), |mapping, record| {
            mapping.write_to_targets(offset, data, durability, record)
        })
    }

    /// Makes `len` bytes at `offset` read as zeros, by writing encrypted zeros.
    ///
    /// # Errors
    /// As for [`Volume::write`].
    pub fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        let counted = usize::try_from(len).unwrap_or(usize::MAX);
        self.run_counted(Direction::Write, counted, |mapping, record| {
            mapping.write_zeros_to_targets(offset, len, durability, record)
        })
    }

    /// Makes all writes that have returned durable.
    ///
    /// # Errors
    /// When the storage fails, now or in an earlier flush.
    pub fn flush(&self) -> Result<(), VolumeError> {
        self.enter().flush_backends()
    }

    /// Says that `len` bytes at `offset` are no longer needed. What they read as afterwards is
    /// undefined: a hole in the ciphertext decrypts to noise.
    ///
    /// # Errors
    /// When discards are not allowed, the range passes the end, or the storage fails.
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.enter().discard_in_targets(offset, len)
    }

    /// Does [`write_zeroes`](Self::write_zeroes) if that need not wait: `None` while requests are held.
    ///
    /// # Errors
    /// As for [`Volume::write`].
    pub fn try_write_zeroes(
        &self,
        offset: u64,
        len: u64,
        durability: Durability,
    ) -> Option<Result<(), VolumeError>> {
        let mapping = self.try_enter()?;
        let mut record = self.counters.begin(Direction::Write);
        let result = mapping.write_zeros_to_targets(offset, len, durability, &mut record);
        let counted = usize::try_from(len).unwrap_or(usize::MAX);
        let bytes = result.is_ok().then_some(counted);
        self.counters.end(Direction::Write, bytes, &record);
        Some(result)
    }

    /// Does [`discard`](Self::discard) if that need not wait: `None` while requests are held.
    ///
    /// # Errors
    /// As for [`Volume::discard`].
    pub fn try_discard(&self, offset: u64, len: u64) -> Option<Result<(), VolumeError>> {
        Some(self.try_enter()?.discard_in_targets(offset, len))
    }

    /// Does [`flush`](Self::flush) if that need not wait: `None` while requests are held.
    ///
    /// # Errors
    /// As for [`Volume::flush`].
    pub fn try_flush(&self) -> Option<Result<(), VolumeError>> {
        Some(self.try_enter()?.flush_backends())
    }

    /// Returns the mapping, which stays at work until the pass is dropped. See [`Pass`] for what its holder must
    /// not do.
    pub(crate) fn enter(&self) -> Pass<'_, Mapping> {
        self.gate.enter()
    }

    /// Returns the mapping as [`enter`](Self::enter) does, unless the gate is closed.
    pub(crate) fn try_enter(&self) -> Option<Pass<'_, Mapping>> {
        self.gate.try_enter()
    }

    /// Puts a mapping in place of the active one, while the gate is closed. The caller retires the old one
    /// afterwards: a connection that is notified by it then finds the new generation.
    fn exchange(&self, new: Mapping) {
        self.gate.exchange(&Arc::new(new));
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    fn run_counted(
        &self,
        direction: Direction,
        len: usize,
        work: impl FnOnce(&Mapping, &mut Record) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let mut record = self.counters.begin(direction);
        let result = work(&self.enter(), &mut record);
        let bytes = result.is_ok().then_some(len);
        self.counters.end(direction, bytes, &record);
        result
    }

    fn inactive(&self) -> MutexGuard<'_, Option<Mapping>> {
        self.inactive.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Table with which requests have gone on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// The table that was at work before.
    AsItWas,
    /// The one that had been loaded.
    OnNewTable,
}

/// Reason why a table was not loaded.
#[derive(Debug)]
pub enum LoadError {
    /// The new table could not be started.
    Open(OpenError),
    /// The new table would make other data of the stored bytes.
    Meaning(Difference),
    /// A key of the new table is all zeros, as where keys are not shown, and no key of the table at work is.
    MaskedKey {
        /// Number of the line, counted from 1.
        line: usize,
    },
    /// The key of the table at work is forgotten.
    KeyForgotten,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::KeyForgotten => f.write_str(KEY_FORGOTTEN),
            Self::MaskedKey { line } => write!(
                f,
                "line {line}: the key is masked (all zeros): print the table with --showkeys"
            ),
            Self::Meaning(difference) => write!(
                f,
                "this table would read other data than the one at work ({difference}); check it, and \
                 use --force if that is what you want"
            ),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open(error) => Some(error),
            Self::Meaning(_) | Self::MaskedKey { .. } | Self::KeyForgotten => None,
        }
    }
}

impl From<OpenError> for LoadError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

/// Reason why the table at work was not exchanged.
#[derive(Debug)]
pub enum ResumeError {
    /// Requests did not end in time.
    Busy,
    /// A device that is to be let go could not be flushed.
    Flush(VolumeError),
    /// Only [`Volume::recall_key`] brings back a volume whose key is forgotten.
    KeyForgotten,
}

/// Error text for a volume whose key is forgotten.
const KEY_FORGOTTEN: &str = "the volume is suspended and its key is forgotten: `scrim luksResume` asks for \
                             the passphrase";

impl fmt::Display for ResumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str(
                "requests in flight do not end; the table at work stays, and the other one stays \
                 loaded: resume again once the storage answers",
            ),
            Self::KeyForgotten => f.write_str(KEY_FORGOTTEN),
            Self::Flush(error) => write!(
                f,
                "{error}: a device of the table at work cannot be flushed, so it is not let go; the \
                 other table stays loaded"
            ),
        }
    }
}

impl std::error::Error for ResumeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Busy | Self::KeyForgotten => None,
            Self::Flush(error) => Some(error),
        }
    }
}
