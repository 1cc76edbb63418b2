//! Kernels for x86-64, on `core::arch`.

mod aesni;
pub(crate) mod argon2;
mod cbc_aesni;
mod cpu;
mod ctr_aesni;
mod ecb_aesni;
mod key;
mod lanes;
mod opaque;
mod xts_aesni;

pub(crate) use cbc_aesni::CBC_AESNI;
pub(crate) use ctr_aesni::CTR_AESNI;
pub(crate) use ecb_aesni::ECB_AESNI;
pub(crate) use xts_aesni::XTS_AESNI;

use crate::run::{Data, Run};

/// A [`Run`] as pointers, for kernels that treat both its forms alike.
///
/// `source` can be read and `destination` written for `units * unit` bytes, as long as what the
/// [`Run`] was made of is borrowed. They are the same address or do not overlap. No alignment is
/// promised.
struct RawRun {
    source: *const u8,
    destination: *mut u8,
    /// Bytes of a data unit: a multiple of 16, not 0.
    unit: usize,
    /// How many there are.
    units: usize,
}

impl From<Run<'_>> for RawRun {
    fn from(run: Run<'_>) -> Self {
        let unit = run.unit();
        let (source, destination, len) = match run.into_data() {
            Data::InPlace(data) => {
                let start = data.as_mut_ptr();
                (start.cast_const(), start, data.len())
            }
            Data::Copy {
                source,
                destination,
            } => (source.as_ptr(), destination.as_mut_ptr(), source.len()),
        };
        Self {
            source,
            destination,
            unit,
            units: len / unit,
        }
    }
}
