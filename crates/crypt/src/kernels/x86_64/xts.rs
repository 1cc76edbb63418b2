//! What AES-XTS kernels of different widths have in common: keys, and the way in.

use scrim_sys::memory::Locked;
use zeroize::Zeroize;

use super::ahead::{Ahead, Places};
use super::wide::{Schedule, Schedules, Wide, expand_to_encrypt};
use super::{Cursor, RawRun};
use crate::iv::Ivs;
use crate::kernels::SectorKernel;
use crate::run::Run;

/// A width for which there is a kernel.
pub(super) trait WideXts: Wide {
    /// The tweaks of a group of blocks.
    type Tweaks: Copy + Send + Zeroize;
    const NO_TWEAKS: Self::Tweaks;

    /// Transforms the run that the last three arguments are. Not a [`RawRun`], which would come in
    /// memory: what is stored there by words may be loaded by pairs, and such a load waits until
    /// all that was before it has ended. Then the work of two calls would not overlap.
    ///
    /// # Safety
    /// They keep the promises of [`RawRun`].
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        self,
        keys: &Keys<Self>,
        ivs: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    );
}

#[repr(C, align(64))]
pub(super) struct Keys<W: WideXts> {
    pub(super) data: Schedules<W>,
    pub(super) tweak: Schedule<W>,
    pub(super) ahead: Places<Ahead<W::Tweaks>>,
}

/// A kernel with `key` expanded; `None` for a key of another algorithm.
pub(super) fn set_up<W: WideXts>(width: W, key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    match key.len() {
        32 => Some(Box::new(Xts::<W, 10>::new(width, key))),
        48 => Some(Box::new(Xts::<W, 12>::new(width, key))),
        64 => Some(Box::new(Xts::<W, 14>::new(width, key))),
        _ => None,
    }
}

struct Xts<W: WideXts, const ROUNDS: usize> {
    width: W,
    keys: Locked<Keys<W>>,
}

impl<W: WideXts, const ROUNDS: usize> Xts<W, ROUNDS> {
    fn new(width: W, key: &[u8]) -> Self {
        let mut keys = Locked::new(|| Keys {
            data: Schedules::EMPTY,
            tweak: [W::ZERO; 15],
            ahead: Places::new(|| Ahead::nothing(W::NO_TWEAKS)),
        });
        let (data, tweak) = key.split_at(key.len() / 2);
        keys.data.expand::<ROUNDS>(width, data);
        expand_to_encrypt::<W, ROUNDS>(width, tweak, &mut keys.tweak);
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
        // SAFETY: the memory that the pointers point to was borrowed by `run`, for longer than this
        // call takes.
        unsafe { (self.width).transform::<ROUNDS, ENCRYPT>(&self.keys, ivs, at, unit, units) }
    }
}

impl<W: WideXts, const ROUNDS: usize> SectorKernel for Xts<W, ROUNDS> {
    fn encrypt(&self, mut ivs: Ivs<'_>, run: Run<'_>) {
        self.transform::<true>(&mut ivs, run);
    }

    fn decrypt(&self, mut ivs: Ivs<'_>, run: Run<'_>) {
        self.transform::<false>(&mut ivs, run);
    }
}
