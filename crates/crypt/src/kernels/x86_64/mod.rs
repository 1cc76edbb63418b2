//! Kernels for x86-64, on `core::arch`.

mod aesni;
mod ahead;
pub(crate) mod argon2;
mod cbc;
mod cbc_aesni;
mod cbc_vaes2;
mod cbc_vaes512;
mod cpu;
mod ctr;
mod ctr_aesni;
mod ctr_vaes2;
mod ctr_vaes512;
mod ecb;
mod ecb_aesni;
mod ecb_vaes2;
mod ecb_vaes512;
mod key;
mod lanes;
mod mode;
mod opaque;
pub(crate) mod probe;
mod vaes;
mod vaes2;
mod vaes512;
mod wide;
mod xts;
mod xts_aesni;
mod xts_vaes2;
mod xts_vaes512;

pub(crate) use cbc_aesni::CBC_AESNI;
pub(crate) use cbc_vaes2::CBC_VAES2;
pub(crate) use cbc_vaes512::CBC_VAES512;
pub(crate) use ctr_aesni::CTR_AESNI;
pub(crate) use ctr_vaes2::CTR_VAES2;
pub(crate) use ctr_vaes512::CTR_VAES512;
pub(crate) use ecb_aesni::ECB_AESNI;
pub(crate) use ecb_vaes2::ECB_VAES2;
pub(crate) use ecb_vaes512::ECB_VAES512;
pub(crate) use xts_aesni::XTS_AESNI;
pub(crate) use xts_vaes2::XTS_VAES2;
pub(crate) use xts_vaes512::XTS_VAES512;

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use crate::run::{Data, Run};

/// A [`Run`] as pointers, for kernels that treat both its forms alike.
///
/// `source` can be read and `destination` written for `units * unit` bytes, as long as what the
/// [`Run`] was made of is borrowed. They are the same address or do not overlap. No alignment is
/// promised.
///
/// Others may change a source meanwhile ([`Data::Shared`]). So encryption loads each of its bytes
/// once (or only the result of the last time stays), as `tests/shared_source.rs` checks.
struct RawRun {
    source: *const u8,
    destination: *mut u8,
    /// Bytes of a data unit: a multiple of 16, not 0.
    unit: usize,
    /// Number of data units.
    units: usize,
}

impl From<Run<'_>> for RawRun {
    fn from(run: Run<'_>) -> Self {
        let (unit, units) = (run.unit(), run.units());
        let (source, destination) = match run.into_data() {
            Data::InPlace(data) => {
                let start = data.as_mut_ptr();
                (start.cast_const(), start)
            }
            Data::Copy {
                source,
                destination,
            } => (source.as_ptr(), destination.as_mut_ptr()),
            Data::Shared {
                source,
                destination,
            } => (source.start(), destination.as_mut_ptr()),
        };
        Self {
            source,
            destination,
            unit,
            units,
        }
    }
}

/// Position of a kernel in a run.
#[derive(Clone, Copy)]
struct Cursor {
    source: *const u8,
    destination: *mut u8,
}

impl Cursor {
    /// The position `bytes` further on.
    ///
    /// # Safety
    /// The new position is in the run, or at its end.
    #[inline]
    unsafe fn add(self, bytes: usize) -> Self {
        // SAFETY: source and destination of a run are as long as the run.
        unsafe {
            Self {
                source: self.source.add(bytes),
                destination: self.destination.add(bytes),
            }
        }
    }

    /// Asks for the `len` bytes that begin [`AHEAD`] bytes further on, if they are among the `left`
    /// bytes of the run. Processors do so of their own accord, but not across pages.
    #[inline]
    fn prefetch(self, len: usize, left: usize) {
        if left < AHEAD + len {
            return;
        }
        ask_for(self.source, len);
        if self.source != self.destination {
            ask_for(self.destination, len);
        }
    }
}

/// Asks for the `len` bytes that begin [`AHEAD`] bytes after `here`.
#[inline(always)]
fn ask_for(here: *const u8, len: usize) {
    for line in (AHEAD..AHEAD + len).step_by(64) {
        // SAFETY: every x86-64 has the instruction, and it changes nothing that can be seen.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(here.wrapping_add(line).cast()) };
    }
}

/// Distance in bytes: about what memory delivers in the time that it takes to answer.
const AHEAD: usize = 2048;
