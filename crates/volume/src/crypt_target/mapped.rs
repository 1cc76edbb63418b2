//! Reads out of the page cache: ciphertext is decrypted where its pages lie, without a copy.

use scrim_backend::{Cached, Medium};

use crate::sync::{AtomicUsize, Ordering};

/// Most bytes that are decrypted at once: nothing waits in a cache of the processor for a next step, and asking the kernel
/// for the pages costs the less the more they are. A power of two that divides
/// [`STRIPE`](crate::range_lock::STRIPE).
pub(super) const PIECE: usize = 128 << 10;

/// Length of a read in bytes, from which asking for the pages costs less than their copy.
const MIN: usize = 32 << 10;

/// Reads by calls for a while, after one whose pages were not in memory. Only calls make the kernel read ahead of a reader
/// and find out that it is sequential: a read out of mapped pages is unseen.
#[derive(Debug, Default)]
pub(crate) struct Cold(AtomicUsize);

impl Cold {
    /// Number of long reads by calls after a miss: 64 MiB or less.
    const READS: usize = 512;

    /// Returns all of the `len` bytes from `at` on, if they are to be read where they lie.
    pub(super) fn pages(&self, medium: Medium<'_>, at: u64, len: usize) -> Option<Cached> {
        if len < MIN || self.is_cold() {
            return None;
        }
        let cached = medium.cached_now(at, len);
        let whole = cached.filter(|cached| cached.len() == len);
        if whole.is_none() {
            self.0.store(Self::READS, Ordering::Relaxed);
        }
        whole
    }

    /// Counts a read; returns whether it is to be made by a call.
    fn is_cold(&self) -> bool {
        // Of two threads one may not be counted.
        let left = self.0.load(Ordering::Relaxed);
        if left > 0 {
            self.0.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}
