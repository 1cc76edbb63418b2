//! LRW (Liskov, Rivest, Wagner: "Tweakable Block Ciphers"), as draft 5 of IEEE P1619 and the kernel have it: a block is
//! encrypted between two XORs with the tweak key times the block's index, in GF(2¹²⁸).

use scrim_sys::memory::Locked;

use super::blocks::{BLOCKS, BlockCipher, Family, xor};
use crate::kernels::iv::{Block, Ivs, SectorKernel};
use crate::kernels::lrw::TweakKey;
use crate::kernels::run::{Run, UNIT_MAX, piecewise};
use crate::wipe;

/// Data units that are transformed in one call of the cipher.
const UNITS: usize = 8;

/// Sets up a cipher with a key of any of its sizes, and the tweak key that follows it.
pub(super) fn set_up<F: Family>(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    match key.len() {
        32 => Lrw::<F::Key128>::boxed(key),
        40 => Lrw::<F::Key192>::boxed(key),
        48 => Lrw::<F::Key256>::boxed(key),
        _ => None,
    }
}

struct Lrw<C>(Locked<Keys<C>>);

struct Keys<C> {
    data: C,
    tweak: TweakKey,
}

impl<C: BlockCipher> Lrw<C> {
    fn boxed(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
        let (data, tweak) = key.split_last_chunk()?;
        let (data, tweak) = (C::expand(data)?, TweakKey::new(*tweak));
        Some(Box::new(Self(Locked::new(|| Keys { data, tweak }))))
    }
}

impl<C: BlockCipher> SectorKernel for Lrw<C> {
    fn encrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        transform(&self.0.tweak, ivs, run, |blocks| {
            self.0.data.encrypt_all(blocks);
        });
        wipe::stack();
    }

    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        transform(&self.0.tweak, ivs, run, |blocks| {
            self.0.data.decrypt_all(blocks);
        });
        wipe::stack();
    }
}

/// LRW with `cipher` as the block cipher's direction. Runs in a stack frame of its own, which the caller wipes: it
/// holds tweaks, and what the cipher's crate keeps of round keys.
#[inline(never)]
fn transform(tweak: &TweakKey, mut ivs: Ivs<'_>, run: Run<'_>, cipher: impl Fn(&mut [Block])) {
    let unit = run.unit();
    let mut first = [[0; 16]; UNITS];
    let mut tweaks = [[0; 16]; BLOCKS];
    piecewise(run, (UNIT_MAX / unit).min(UNITS), |data| {
        let first = &mut first[..data.len() / unit];
        ivs.fill(first);
        for (first, tweaks) in first.iter().zip(tweaks.chunks_mut(unit / 16)) {
            tweak.products(u128::from_be_bytes(*first), tweaks);
        }
        let (blocks, _) = data.as_chunks_mut();
        xor(blocks, &tweaks);
        cipher(blocks);
        xor(blocks, &tweaks);
    });
}
