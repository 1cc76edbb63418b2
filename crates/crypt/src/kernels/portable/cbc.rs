//! CBC (NIST SP 800-38A, 6.2). Within a data unit, blocks are encrypted one after another, so that
//! several units are encrypted side by side; decryption has no such chain.

use scrim_sys::memory::Locked;

use super::blocks::{BLOCKS, BlockCipher, Family, locked, xor};
use crate::kernels::iv::SectorKernel;
use crate::kernels::iv::{Ivs, OneByOne};
use crate::kernels::run::{Run, piecewise};
use crate::wipe;

/// Sets up a cipher with a key of any of its sizes.
pub(super) fn set_up<F: Family>(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    match key.len() {
        16 => Cbc::<F::Key128>::boxed(key),
        24 => Cbc::<F::Key192>::boxed(key),
        32 => Cbc::<F::Key256>::boxed(key),
        _ => None,
    }
}

/// Data units that are encrypted side by side.
const LANES: usize = 8;

struct Cbc<C>(Locked<C>);

impl<C: BlockCipher> Cbc<C> {
    fn boxed(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
        Some(Box::new(Self(locked(key)?)))
    }
}

impl<C: BlockCipher> SectorKernel for Cbc<C> {
    fn encrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        encrypt(&*self.0, ivs, run);
        wipe::stack();
    }

    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        decrypt(&*self.0, ivs, run);
        wipe::stack();
    }
}

/// Runs in a stack frame of its own, which the caller wipes.
#[inline(never)]
fn encrypt(cipher: &impl BlockCipher, mut ivs: Ivs<'_>, run: Run<'_>) {
    let unit = run.unit();
    // The last ciphertext block of each lane.
    let mut chain = [[0; 16]; LANES];
    piecewise(run, LANES, |data| {
        let chain = &mut chain[..data.len() / unit];
        ivs.fill(chain);
        let (blocks, _) = data.as_chunks_mut::<16>();
        for position in 0..unit / 16 {
            for (last, lane) in chain.iter_mut().zip(blocks.chunks(unit / 16)) {
                xor(std::slice::from_mut(last), &lane[position..]);
            }
            cipher.encrypt_all(chain);
            for (last, lane) in chain.iter().zip(blocks.chunks_mut(unit / 16)) {
                lane[position] = *last;
            }
        }
    });
}

/// Runs in a stack frame of its own, which the caller wipes.
#[inline(never)]
fn decrypt(cipher: &impl BlockCipher, mut ivs: Ivs<'_>, run: Run<'_>) {
    let unit = run.unit();
    let mut ivs = OneByOne::new(&mut ivs, run.units());
    // Each block's predecessor, which is XORed to it: the IV, then the ciphertext without its last block.
    let mut before = [[0; 16]; BLOCKS];
    piecewise(run, 1, |data| {
        let (blocks, _) = data.as_chunks_mut::<16>();
        before[0] = ivs.next().to_le_bytes();
        for (before, block) in before[1..].iter_mut().zip(&blocks[..unit / 16 - 1]) {
            *before = *block;
        }
        cipher.decrypt_all(blocks);
        xor(blocks, &before);
    });
}
