//! Keeps a read-modify-write of part of a sector apart from other writes to that sector.

use crate::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// How many bytes of the volume share a lock.
pub(crate) const STRIPE: u64 = 1 << 20;
const LOCKS: usize = 64;

/// Locks by region. Writes of whole sectors share a region's lock, since they may overtake each
/// other as on any disk; a read-modify-write takes it alone. One lock at a time, so no deadlock.
pub(crate) struct RangeLock([RwLock<()>; LOCKS]);

impl RangeLock {
    pub(crate) fn new() -> Self {
        Self([const { RwLock::new(()) }; LOCKS])
    }

    /// For a write of whole sectors that does not cross a [`STRIPE`] boundary.
    pub(crate) fn share(&self, offset: u64) -> RwLockReadGuard<'_, ()> {
        self.stripe(offset)
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`share`](Self::share), if nobody holds or waits for it, and for any length; `None` too when
    /// a boundary is crossed.
    pub(crate) fn try_share(&self, offset: u64, len: u64) -> Option<RwLockReadGuard<'_, ()>> {
        let last = offset + len.saturating_sub(1);
        if offset / STRIPE != last / STRIPE {
            return None;
        }
        match self.stripe(offset).try_read() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// For a read-modify-write within one sector.
    pub(crate) fn take(&self, offset: u64) -> RwLockWriteGuard<'_, ()> {
        self.stripe(offset)
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn stripe(&self, offset: u64) -> &RwLock<()> {
        // The remainder is below 64.
        #[allow(clippy::cast_possible_truncation, reason = "below LOCKS")]
        let index = (offset / STRIPE % LOCKS as u64) as usize;
        &self.0[index]
    }
}
