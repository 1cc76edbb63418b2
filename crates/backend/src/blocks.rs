//! Keeps changes of parts of blocks apart from other writes to these blocks.
//!
//! Past the page cache a device takes whole blocks only, so a write of part of one reads the block, changes it and
//! writes it again. Data that another request writes to the block in between would be undone: so writes of whole
//! blocks share the locks of their regions, and a change of a part takes its region's alone. Readers need no lock:
//! the bytes that a change leaves as they are read the same before and after it.

use std::array;
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// Bytes that share a lock.
pub(crate) const STRIPE: u64 = 1 << 20;
const REGIONS: usize = 64;

/// Locks of a file's blocks, by region.
pub struct BlockLocks(Box<[Region; REGIONS]>);

/// A lock on a cache line of its own, so that writes to different regions do not slow each other down.
#[repr(align(128))]
struct Region(RwLock<()>);

/// Locks that a write of whole blocks holds.
pub struct SharedBlocks<'a> {
    _first: Option<RwLockReadGuard<'a, ()>>,
    /// The other locks of a range that lies in several regions.
    _others: Vec<RwLockReadGuard<'a, ()>>,
}

impl BlockLocks {
    /// Creates locks, all of them free.
    #[must_use]
    pub fn new() -> Self {
        Self(Box::new(array::from_fn(|_| Region(RwLock::new(())))))
    }

    /// Locks a range for a write of whole blocks. A caller that holds such locks already must use
    /// [`try_share`](Self::try_share): waiting with them could be for ever.
    #[must_use]
    pub fn share(&self, range: &Range<u64>) -> SharedBlocks<'_> {
        // In the order of the regions, so that no two callers wait for each other.
        let mut regions = self.regions(range);
        SharedBlocks {
            _first: regions.next().map(read),
            _others: regions.map(read).collect(),
        }
    }

    /// Does the same without waiting; `None` while a change of a part holds one of the locks, or waits for it.
    #[must_use]
    pub fn try_share(&self, range: &Range<u64>) -> Option<SharedBlocks<'_>> {
        let mut regions = self.regions(range);
        Some(SharedBlocks {
            _first: match regions.next() {
                Some(region) => Some(try_read(region)?),
                None => None,
            },
            _others: regions.map(try_read).collect::<Option<_>>()?,
        })
    }

    /// Locks the region of `offset`, which ends at the next multiple of a MiB, for a change of a part of a block. Its
    /// caller holds none of these locks.
    pub fn take(&self, offset: u64) -> RwLockWriteGuard<'_, ()> {
        let region = offset / STRIPE % REGIONS as u64;
        #[allow(clippy::cast_possible_truncation, reason = "below REGIONS")]
        let lock = &self.0[region as usize].0;
        lock.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the locks of a range, each once.
    fn regions(&self, range: &Range<u64>) -> impl Iterator<Item = &RwLock<()>> + use<'_> {
        let first = range.start / STRIPE;
        let count = match range.is_empty() {
            true => 0,
            false => range.end.div_ceil(STRIPE) - first,
        };
        let all = REGIONS as u64;
        // Behind the last region comes the first again.
        let is_touched = move |region: u64| (region + all - first % all) % all < count;
        let regions = (0u64..).zip(self.0.iter());
        regions.filter_map(move |(region, lock)| is_touched(region).then_some(&lock.0))
    }
}

impl Default for BlockLocks {
    fn default() -> Self {
        Self::new()
    }
}

fn read(region: &RwLock<()>) -> RwLockReadGuard<'_, ()> {
    region.read().unwrap_or_else(PoisonError::into_inner)
}

fn try_read(region: &RwLock<()>) -> Option<RwLockReadGuard<'_, ()>> {
    match region.try_read() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl std::fmt::Debug for BlockLocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockLocks").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regions in which a change keeps a write of `range` waiting.
    fn met_by(range: Range<u64>) -> Vec<u64> {
        let locks = BlockLocks::new();
        let stripes = 0..REGIONS as u64;
        let met = stripes.filter(|stripe| {
            let _alone = locks.take(stripe * STRIPE);
            locks.try_share(&range).is_none()
        });
        met.collect()
    }

    #[test]
    fn a_range_meets_changes_in_its_own_regions() {
        let last = REGIONS as u64 - 1;
        assert!(met_by(5..5).is_empty());
        assert_eq!(met_by(0..STRIPE), [0]);
        assert_eq!(met_by(STRIPE - 512..STRIPE + 512), [0, 1]);
        assert_eq!(met_by(last * STRIPE + 512..(last + 2) * STRIPE), [0, last]);
        assert_eq!(met_by(512..(last + 1) * STRIPE).len(), REGIONS);
        assert_eq!(met_by(0..1 << 60).len(), REGIONS);
    }

    #[test]
    fn writes_of_whole_blocks_share_and_a_change_is_alone() {
        let locks = BlockLocks::new();
        let shared = (locks.share(&(0..2 * STRIPE)), locks.share(&(4096..8192)));
        assert!(locks.0[0].0.try_write().is_err() && locks.0[1].0.try_write().is_err());
        drop(shared);
        assert!(locks.0[0].0.try_write().is_ok() && locks.0[1].0.try_write().is_ok());
    }
}
