//! Runs as pointers, and positions in them.

use super::run::{Data, Run};

/// A [`Run`] as pointers, for kernels that treat both its forms alike.
///
/// `source` can be read and `destination` written for `units * unit` bytes, as long as what the
/// [`Run`] was made of is borrowed. They are the same address or do not overlap. No alignment is
/// promised.
///
/// Others may change a source meanwhile ([`Data::Shared`]). So encryption loads each of its bytes
/// once, or keeps only the result of the last load, as `tests/shared_source.rs` checks.
pub(super) struct RawRun {
    pub(super) source: *const u8,
    pub(super) destination: *mut u8,
    /// Bytes of a data unit: a multiple of 16, not 0.
    pub(super) unit: usize,
    /// Number of data units.
    pub(super) units: usize,
}

impl From<Run<'_>> for RawRun {
    fn from(run: Run<'_>) -> Self {
        let (unit, units) = (run.unit(), run.units());
        let (at, _) = Cursor::over(run.into_data());
        let (source, destination) = (at.source, at.destination);
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
pub(super) struct Cursor {
    pub(super) source: *const u8,
    pub(super) destination: *mut u8,
}

impl Cursor {
    /// The start of data, and its length in bytes.
    ///
    /// # Panics
    /// When source and destination have different lengths.
    pub(super) fn over(data: Data<'_>) -> (Self, usize) {
        let len = data.len();
        let (source, destination) = match data {
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
        let at = Self {
            source,
            destination,
        };
        (at, len)
    }

    /// The position `bytes` further on.
    ///
    /// # Safety
    /// The new position is in the run, or at its end.
    #[inline]
    pub(super) unsafe fn add(self, bytes: usize) -> Self {
        // SAFETY: source and destination of a run are as long as the run.
        unsafe {
            Self {
                source: self.source.add(bytes),
                destination: self.destination.add(bytes),
            }
        }
    }
}
