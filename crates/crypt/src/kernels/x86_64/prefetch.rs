//! Prefetching of a run.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use crate::kernels::cursor::Cursor;

impl Cursor {
    /// Prefetches the `len` bytes that begin [`AHEAD`] bytes further on, if they are among the `left`
    /// bytes of the run. Processors prefetch by themselves, but not across pages.
    #[inline]
    pub(super) fn prefetch(self, len: usize, left: usize) {
        if left < AHEAD + len {
            return;
        }
        prefetch_lines(self.source, len);
        if self.source != self.destination {
            prefetch_lines(self.destination, len);
        }
    }
}

/// Prefetches the `len` bytes that begin [`AHEAD`] bytes after `here`.
#[inline(always)]
fn prefetch_lines(here: *const u8, len: usize) {
    for line in (AHEAD..AHEAD + len).step_by(64) {
        // SAFETY: every x86-64 has the instruction, and it changes nothing that can be seen.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(here.wrapping_add(line).cast()) };
    }
}

/// Distance of prefetching in bytes: about the bandwidth of memory times its latency.
const AHEAD: usize = 2048;
