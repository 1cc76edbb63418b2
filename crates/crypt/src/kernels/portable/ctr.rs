//! CTR (NIST SP 800-38A, 6.5), counting in 128 bits from the IV, big endian.

use scrim_sys::memory::Locked;

use super::blocks::{BLOCKS, BlockCipher, Family, locked, xor};
use crate::kernels::iv::SectorKernel;
use crate::kernels::iv::{Ivs, OneByOne};
use crate::kernels::run::{Run, piecewise};
use crate::wipe;

/// Sets up a cipher with a key of any of its sizes.
pub(super) fn set_up<F: Family>(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    match key.len() {
        16 => Ctr::<F::Key128>::boxed(key),
        24 => Ctr::<F::Key192>::boxed(key),
        32 => Ctr::<F::Key256>::boxed(key),
        _ => None,
    }
}

struct Ctr<C>(Locked<C>);

impl<C: BlockCipher> Ctr<C> {
    fn boxed(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
        Some(Box::new(Self(locked(key)?)))
    }
}

impl<C: BlockCipher> SectorKernel for Ctr<C> {
    fn encrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        transform(&*self.0, ivs, run);
        wipe::stack();
    }

    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        self.encrypt(ivs, run);
    }
}

/// Runs in a stack frame of its own, which the caller wipes: it holds the key stream.
#[inline(never)]
fn transform(cipher: &impl BlockCipher, mut ivs: Ivs<'_>, run: Run<'_>) {
    let unit = run.unit();
    let mut ivs = OneByOne::new(&mut ivs, run.units());
    let mut stream = [[0; 16]; BLOCKS];
    piecewise(run, 1, |data| {
        let stream = &mut stream[..unit / 16];
        let mut counter = ivs.next().swap_bytes();
        for block in &mut *stream {
            *block = counter.to_be_bytes();
            counter = counter.wrapping_add(1);
        }
        cipher.encrypt_all(stream);
        xor(data.as_chunks_mut().0, stream);
    });
}
