//! Kernels of a mode at a width: how they are described, set up and called.

use scrim_sys::memory::Locked;

use super::wide::{KeySet, Mode, Sectors};
use crate::kernels::cursor::{Cursor, RawRun};
use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::{Ivs, SectorKernel};
use crate::kernels::run::Run;
use crate::spec::Algorithm;

/// Describes the kernel of a mode at a width. All are constant in time.
pub(super) const fn kernel<M: Mode<W>, W: Sectors>(
    algorithm: Algorithm,
    driver: &'static str,
) -> Kernel {
    Kernel {
        algorithm,
        driver,
        family: W::FAMILY,
        priority: || W::PRIORITY,
        constant_time: true,
        features: W::FEATURES,
        runs_here: || W::detect().is_some(),
        set_up: |key| set_up::<M, W>(W::detect()?, key),
    }
}

/// A kernel with `key` expanded; `None` for a key of another algorithm.
fn set_up<M: Mode<W>, W: Sectors>(width: W, key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    let aes_keys = M::Keys::AES_KEYS;
    match (key.len() / aes_keys, key.len() % aes_keys) {
        (16, 0) => Some(Box::new(Keyed::<M, W, 10>::new(width, key))),
        (24, 0) => Some(Box::new(Keyed::<M, W, 12>::new(width, key))),
        (32, 0) => Some(Box::new(Keyed::<M, W, 14>::new(width, key))),
        _ => None,
    }
}

struct Keyed<M: Mode<W>, W: Sectors, const ROUNDS: usize> {
    width: W,
    keys: Locked<M::Keys>,
}

impl<M: Mode<W>, W: Sectors, const ROUNDS: usize> Keyed<M, W, ROUNDS> {
    fn new(width: W, key: &[u8]) -> Self {
        let keys = M::Keys::locked::<ROUNDS>(width, key);
        Self { width, keys }
    }

    #[inline]
    fn transform<const ENCRYPT: bool>(&self, ivs: &mut Ivs<'_>, run: Run<'_>) {
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
        let (width, keys) = (self.width, &*self.keys);
        // SAFETY: `width` proves the CPU features of the width. The pointers are of memory that `run` borrows for longer
        // than this call takes: `units` data units of `unit` bytes.
        unsafe { width.transform::<M, ROUNDS, ENCRYPT>(keys, ivs, at, unit, units) }
    }
}

impl<M: Mode<W>, W: Sectors, const ROUNDS: usize> SectorKernel for Keyed<M, W, ROUNDS> {
    fn encrypt(&self, mut ivs: Ivs<'_>, run: Run<'_>) {
        self.transform::<true>(&mut ivs, run);
    }

    fn decrypt(&self, mut ivs: Ivs<'_>, run: Run<'_>) {
        if M::ONE_DIRECTION {
            self.transform::<true>(&mut ivs, run);
        } else {
            self.transform::<false>(&mut ivs, run);
        }
    }
}
