//! ECB (NIST SP 800-38A, 6.1).

use scrim_sys::memory::Locked;

use super::blocks::{BLOCKS, BlockCipher, Family, locked};
use crate::kernels::iv::SectorKernel;
use crate::kernels::iv::{Block, Ivs};
use crate::kernels::run::{Run, piecewise};
use crate::wipe;

/// Sets up a cipher with a key of any of its sizes.
pub(super) fn set_up<F: Family>(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    match key.len() {
        16 => Ecb::<F::Key128>::boxed(key),
        24 => Ecb::<F::Key192>::boxed(key),
        32 => Ecb::<F::Key256>::boxed(key),
        _ => None,
    }
}

struct Ecb<C>(Locked<C>);

impl<C: BlockCipher> Ecb<C> {
    fn boxed(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
        Some(Box::new(Self(locked(key)?)))
    }
}

impl<C: BlockCipher> SectorKernel for Ecb<C> {
    fn encrypt(&self, _: Ivs<'_>, run: Run<'_>) {
        transform(run, |blocks| self.0.encrypt_all(blocks));
        wipe::stack();
    }

    fn decrypt(&self, _: Ivs<'_>, run: Run<'_>) {
        transform(run, |blocks| self.0.decrypt_all(blocks));
        wipe::stack();
    }
}

/// Runs in a stack frame of its own, which the caller wipes.
#[inline(never)]
fn transform(run: Run<'_>, cipher: impl Fn(&mut [Block])) {
    let units = (16 * BLOCKS / run.unit()).max(1);
    piecewise(run, units, |data| cipher(data.as_chunks_mut().0));
}
