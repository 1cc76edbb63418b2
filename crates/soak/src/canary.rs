//! Backends that lie: a test that trusts one must be caught, or the judge is of no use.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scrim_backend::sim::SimBackend;
use scrim_backend::{Backend, BackendError, Durability, HeaderLock, Info, LockKind};

/// A false answer of the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canary {
    /// The nth flush succeeds without being done.
    SkipsFlush(u64),
    /// Every nth flush succeeds without being done.
    SkipsEveryFlush(u64),
    /// Durable writes stay in the cache.
    CachesDurableWrites,
    /// Writes that fail are said to have been done.
    HidesErrors,
    /// Every nth write goes a sector further.
    Misplaces(u64),
    /// Every nth write is acknowledged first, as by a queue that answers too early, and stored once the
    /// next one comes or a flush is over.
    AnswersEarly(u64),
    /// In each header operation, and nowhere else, the nth flush succeeds without being done.
    SkipsFlushOfHeader(u64),
    /// In each header operation, and nowhere else, the nth write is done after the flush behind it.
    HoldsBackWriteOfHeader(u64),
}

/// A backend that lies about a simulated disk.
pub(crate) struct Lying {
    disk: Arc<SimBackend>,
    canary: Canary,
    flushes: AtomicU64,
    writes: AtomicU64,
    /// A write that is done after the next flush.
    held_back: Mutex<Option<(u64, Vec<u8>)>>,
}

impl Lying {
    pub(crate) fn new(disk: Arc<SimBackend>, canary: Canary) -> Self {
        Self {
            disk,
            canary,
            flushes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            held_back: Mutex::default(),
        }
    }
}

impl Lying {
    fn store_held_back(&self) -> Result<(), BackendError> {
        match lock(&self.held_back).take() {
            Some((offset, data)) => self.disk.write_at(offset, &data, Durability::Cached),
            None => Ok(()),
        }
    }
}

/// The disk, or what lies about it.
pub(crate) fn backend(disk: &Arc<SimBackend>, canary: Option<Canary>) -> Arc<dyn Backend> {
    let disk = Arc::clone(disk);
    match canary {
        None => disk,
        Some(canary) => Arc::new(Lying::new(disk, canary)),
    }
}

/// The disk as the volume sees it.
pub(crate) fn of_volume(disk: &Arc<SimBackend>, canary: Option<Canary>) -> Arc<dyn Backend> {
    backend(disk, canary.filter(|canary| !canary.is_of_headers()))
}

/// The disk as one header operation sees it: as the volume does, which is `same`, or with a lie that
/// starts anew with each.
pub(crate) fn of_header(
    disk: &Arc<SimBackend>,
    canary: Option<Canary>,
    same: &Arc<dyn Backend>,
) -> Arc<dyn Backend> {
    match canary {
        Some(canary) if canary.is_of_headers() => backend(disk, Some(canary)),
        _ => Arc::clone(same),
    }
}

impl Canary {
    fn is_of_headers(self) -> bool {
        matches!(
            self,
            Self::SkipsFlushOfHeader(_) | Self::HoldsBackWriteOfHeader(_)
        )
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Backend for Lying {
    fn info(&self) -> Info {
        self.disk.info()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        self.disk.read_at(offset, buffer)
    }

    fn write_at(
        &self,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), BackendError> {
        let nth = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        if matches!(self.canary, Canary::AnswersEarly(_)) {
            self.store_held_back()?;
        }
        match self.canary {
            Canary::AnswersEarly(every) if nth.is_multiple_of(every) => {
                *lock(&self.held_back) = Some((offset, data.to_vec()));
                Ok(())
            }
            Canary::CachesDurableWrites => self.disk.write_at(offset, data, Durability::Cached),
            Canary::HidesErrors => self
                .disk
                .write_at(offset, data, durability)
                .or_else(|error| {
                    if self.disk.is_cut() {
                        Err(error)
                    } else {
                        Ok(())
                    }
                }),
            Canary::Misplaces(every) if nth.is_multiple_of(every) => {
                let further = offset + 512;
                let fits = further + data.len() as u64 <= self.disk.info().size;
                let at = if fits { further } else { offset };
                self.disk.write_at(at, data, durability)
            }
            Canary::HoldsBackWriteOfHeader(one) if nth == one => {
                *lock(&self.held_back) = Some((offset, data.to_vec()));
                Ok(())
            }
            _ => self.disk.write_at(offset, data, durability),
        }
    }

    fn flush(&self) -> Result<(), BackendError> {
        let nth = self.flushes.fetch_add(1, Ordering::Relaxed) + 1;
        let skipped = match self.canary {
            Canary::SkipsFlush(one) | Canary::SkipsFlushOfHeader(one) => nth == one,
            Canary::SkipsEveryFlush(every) => nth.is_multiple_of(every),
            _ => false,
        };
        if skipped && !self.disk.is_cut() {
            return Ok(());
        }
        self.disk.flush()?;
        self.store_held_back()
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        self.disk.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, durability: Durability) -> Result<(), BackendError> {
        self.disk.write_zeroes(range, durability)
    }

    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.disk.lock_header(kind)
    }
}
