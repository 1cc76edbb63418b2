//! Common parts of kernels of modes with one key, whatever their width: keys, and the way in.

use scrim_sys::memory::Locked;

use super::cursor::{Cursor, RawRun};
use super::wide::{Schedules, Wide};
use crate::kernels::iv::{Ivs, SectorKernel};
use crate::kernels::run::Run;

/// A mode of operation with registers of one width.
pub(super) trait Mode: 'static {
    type Width: Wide;

    /// Transforms the run that the last three arguments describe. It takes no [`RawRun`], which would come
    /// in memory: what is stored there by words may be loaded by pairs, and such a load waits until
    /// all that was before it has ended. Then the work of two calls would not overlap.
    ///
    /// # Safety
    /// They keep the promises of [`RawRun`].
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        proof: Self::Width,
        keys: &Schedules<Self::Width>,
        ivs: Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    );
}

/// A kernel with `key` expanded; `None` for a key of another algorithm.
pub(super) fn set_up<M: Mode>(width: M::Width, key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    match key.len() {
        16 => Some(Box::new(Keyed::<M, 10>::new(width, key))),
        24 => Some(Box::new(Keyed::<M, 12>::new(width, key))),
        32 => Some(Box::new(Keyed::<M, 14>::new(width, key))),
        _ => None,
    }
}

struct Keyed<M: Mode, const ROUNDS: usize> {
    width: M::Width,
    keys: Locked<Schedules<M::Width>>,
}

impl<M: Mode, const ROUNDS: usize> Keyed<M, ROUNDS> {
    fn new(width: M::Width, key: &[u8]) -> Self {
        let mut keys = Locked::new(|| Schedules::EMPTY);
        keys.expand::<ROUNDS>(width, key);
        Self { width, keys }
    }

    #[inline]
    fn transform<const ENCRYPT: bool>(&self, ivs: Ivs<'_>, run: Run<'_>) {
        let RawRun {
            source,
            destination,
            unit,
            units,
        } = run.into();
        let at = Cursor {
            source,
            destination,
        };
        // SAFETY: the memory that the pointers point to was borrowed by `run`, for longer than this
        // call takes.
        unsafe { M::transform::<ROUNDS, ENCRYPT>(self.width, &self.keys, ivs, at, unit, units) }
    }
}

impl<M: Mode, const ROUNDS: usize> SectorKernel for Keyed<M, ROUNDS> {
    fn encrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        self.transform::<true>(ivs, run);
    }

    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        self.transform::<false>(ivs, run);
    }
}
