//! Keeps changes of parts of sectors apart from other requests for the same sectors.
//!
//! A write of part of a sector reads the whole sector, changes it, and stores all of its ciphertext again.
//! Two kinds of requests must be kept apart from that:
//!
//! - **Writes.** Data that another request writes to the sector between the read and the store would be undone. So
//!   writes of whole sectors share the lock of their region, and a change of a part takes it alone.
//! - **Reads.** Neither the page cache nor a device whose blocks are smaller than the sector stores a sector in
//!   one step, so a read beside the store may get the beginning of one ciphertext and the end of another. In
//!   most modes that decrypts to noise in bytes that nobody writes: of a changed byte, XTS and ECB change the
//!   block of 16 bytes that it lies in, and CBC all blocks of the sector from there on.
//!
//! Readers take no lock: very few of them meet a change, and a lock costs two atomic operations on memory that
//! all threads write to. Instead, each region counts its stores, and the count is odd while one is in progress
//! ([`Alone::begin_store`]). A reader loads it before and after its read ([`RangeLock::undisturbed`]), from memory
//! that only changes of parts write to. If the count has moved, the reader holds off all stores
//! ([`RangeLock::hold_off`]) and reads again. It waits for one store at most, and a change waits only for readers
//! that an earlier store has disturbed, so neither side starves. A reader never waits for a change that itself still
//! waits for writes of whole sectors. A slow storage keeps a change waiting for such a reader, and with it writes of
//! whole sectors of the region, for as long as the read takes.
//!
//! All of this holds for stores that succeed: one that the storage fails half-way leaves both ciphertexts behind, and
//! the writer gets the error.
//!
//! Reads beside a write of the *whole* sector are not covered: they get of this sector what the storage gives, which
//! may be a mixture of old and new ciphertext. All bytes of such a sector are being written; bytes that nobody writes
//! lie in other sectors. To cover this as well, each write would have to count, and each read to wait for all
//! writes of its region.

use std::ops::RangeInclusive;

use crate::sync::{
    AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError, RwLock, RwLockReadGuard,
    RwLockWriteGuard, TryLockError, fence,
};

/// Bytes of a target that share a lock: stripe `n` belongs to region `n` modulo [`REGIONS`].
pub(crate) const STRIPE: u64 = 1 << 20;
const REGIONS: usize = 64;

/// Locks by region. They are taken in one order: the writers' lock of a region, then its readers', then locks of the
/// storage's blocks. A ring, which holds the writers' locks of several transfers, only tries for others.
pub(crate) struct RangeLock {
    regions: [Region; REGIONS],
    stores: Stores,
}

/// Begun and ended stores of changed sectors, by region; odd while one is in progress. Apart from the locks, on cache
/// lines of their own, so that readers share these as long as no part changes.
#[repr(align(128))]
struct Stores([AtomicUsize; REGIONS]);

struct Region {
    /// Shared by writes of whole sectors, and taken alone by a read-modify-write.
    writers: RwLock<()>,
    /// Number of readers that hold off stores.
    readers: Mutex<usize>,
    /// Notified when a store ends, and when the last of these readers does.
    ended: Condvar,
}

/// State of a range before a read of it.
pub(crate) struct Watch {
    stripes: RangeInclusive<u64>,
    stores: usize,
}

/// The right to change a part of a sector.
pub(crate) struct Alone<'a> {
    region: &'a Region,
    stores: &'a AtomicUsize,
    _writers: RwLockWriteGuard<'a, ()>,
}

/// A store of a changed sector in progress; it ends when this is dropped.
pub(crate) struct Store<'a>(&'a Alone<'a>);

/// Guard of a reader: no changed sector of its region is stored while it lives.
pub(crate) struct HeldOff<'a>(&'a Region);

impl RangeLock {
    pub(crate) fn new() -> Self {
        Self {
            regions: [const {
                Region {
                    writers: RwLock::new(()),
                    readers: Mutex::new(0),
                    ended: Condvar::new(),
                }
            }; REGIONS],
            stores: Stores([const { AtomicUsize::new(0) }; REGIONS]),
        }
    }

    /// Takes the shared lock of the region of a write of whole sectors, which does not cross a [`STRIPE`] boundary.
    pub(crate) fn share(&self, offset: u64) -> RwLockReadGuard<'_, ()> {
        let writers = &self.regions[region_of(offset / STRIPE)].writers;
        writers.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`share`](Self::share), if no thread holds the lock or waits for it alone, and for any length;
    /// `None` too when a boundary is crossed.
    pub(crate) fn try_share(&self, offset: u64, len: u64) -> Option<RwLockReadGuard<'_, ()>> {
        let stripes = stripes_of(offset, len);
        if stripes.start() != stripes.end() {
            return None;
        }
        match self.regions[region_of(*stripes.start())].writers.try_read() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Locks the region of a sector for a read-modify-write within the sector.
    pub(crate) fn take(&self, offset: u64) -> Alone<'_> {
        let index = region_of(offset / STRIPE);
        let region = &self.regions[index];
        let writers = region.writers.write();
        Alone {
            region,
            stores: &self.stores.0[index],
            _writers: writers.unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Reads a range; `None` where a store of a changed sector may have met the read.
    pub(crate) fn undisturbed<T>(
        &self,
        offset: u64,
        len: u64,
        read: impl FnOnce() -> T,
    ) -> Option<T> {
        let watch = self.watch(offset, len)?;
        let read = read();
        self.is_undisturbed(&watch).then_some(read)
    }

    /// Looks at a range before it is read; `None` while a changed sector is being stored there.
    pub(crate) fn watch(&self, offset: u64, len: u64) -> Option<Watch> {
        let stripes = stripes_of(offset, len);
        let mut stores = 0usize;
        for stripe in stripes.clone() {
            let region = self.stores.0[region_of(stripe)].load(Ordering::Acquire);
            if is_storing(region) {
                return None;
            }
            stores = stores.wrapping_add(region);
        }
        Some(Watch { stripes, stores })
    }

    /// Looks again, after the read; `false` where a store of a changed sector may have met it.
    pub(crate) fn is_undisturbed(&self, watch: &Watch) -> bool {
        // The data was read before these counts are. They only grow, so an equal sum means equal counts.
        fence(Ordering::Acquire);
        let regions = watch.stripes.clone().map(region_of);
        let stores = regions.fold(0usize, |sum, region| {
            sum.wrapping_add(self.stores.0[region].load(Ordering::Relaxed))
        });
        stores == watch.stores
    }

    /// Waits for the store in progress in a region, if there is one, and keeps the next from beginning. Its
    /// caller holds no lock for which a store may wait.
    pub(crate) fn hold_off(&self, offset: u64) -> HeldOff<'_> {
        let index = region_of(offset / STRIPE);
        let region = &self.regions[index];
        let mut readers = region.readers();
        *readers += 1;
        while is_storing(self.stores.0[index].load(Ordering::Acquire)) {
            let waited = region.ended.wait(readers);
            readers = waited.unwrap_or_else(PoisonError::into_inner);
        }
        drop(readers);
        HeldOff(region)
    }
}

impl Alone<'_> {
    /// Begins the store of the changed sector, once no reader holds it off.
    pub(crate) fn begin_store(&self) -> Store<'_> {
        let mut readers = self.region.readers();
        while *readers > 0 {
            let waited = self.region.ended.wait(readers);
            readers = waited.unwrap_or_else(PoisonError::into_inner);
        }
        self.stores.fetch_add(1, Ordering::Relaxed);
        drop(readers);
        // A reader that gets a byte of the store finds the count moved afterwards.
        fence(Ordering::SeqCst);
        Store(self)
    }
}

impl Drop for Store<'_> {
    fn drop(&mut self) {
        let Alone { region, stores, .. } = self.0;
        let readers = region.readers();
        stores.fetch_add(1, Ordering::Release);
        if *readers > 0 {
            region.ended.notify_all();
        }
    }
}

impl Drop for HeldOff<'_> {
    fn drop(&mut self) {
        let mut readers = self.0.readers();
        *readers -= 1;
        if *readers == 0 {
            self.0.ended.notify_all();
        }
    }
}

impl Region {
    fn readers(&self) -> MutexGuard<'_, usize> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stripes_of(offset: u64, len: u64) -> RangeInclusive<u64> {
    let last = offset + len.saturating_sub(1);
    offset / STRIPE..=last / STRIPE
}

/// Returns the region that a stripe belongs to.
#[allow(clippy::cast_possible_truncation, reason = "below REGIONS")]
fn region_of(stripe: u64) -> usize {
    (stripe % REGIONS as u64) as usize
}

fn is_storing(stores: usize) -> bool {
    !stores.is_multiple_of(2)
}
