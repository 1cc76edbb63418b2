//! XTS (IEEE Std 1619).

use scrim_sys::memory::Locked;

use super::blocks::{BLOCKS, BlockCipher, BlockEncrypt, Family, xor};
use crate::kernels::iv::SectorKernel;
use crate::kernels::iv::{Block, Ivs};
use crate::kernels::run::{Run, UNIT_MAX, piecewise};
use crate::wipe;

/// Data units whose tweaks are encrypted in one call of the cipher.
const UNITS: usize = 8;

/// Sets up a cipher with a pair of keys of any of its sizes.
pub(super) fn set_up<F: Family>(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    match key.len() {
        32 => Xts::<F::Key128>::boxed(key),
        48 => Xts::<F::Key192>::boxed(key),
        64 => Xts::<F::Key256>::boxed(key),
        _ => None,
    }
}

struct Xts<C: BlockCipher>(Locked<Keys<C>>);

struct Keys<C: BlockCipher> {
    data: C,
    tweak: C::Tweak,
}

impl<C: BlockCipher> Xts<C> {
    fn boxed(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
        let (data, tweak) = key.split_at(key.len() / 2);
        let (data, tweak) = (C::expand(data)?, C::Tweak::expand(tweak)?);
        Some(Box::new(Self(Locked::new(|| Keys { data, tweak }))))
    }
}

impl<C: BlockCipher> SectorKernel for Xts<C> {
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

/// XTS with `cipher` as the block cipher's direction. Runs in a stack frame of its own, which
/// the caller wipes: it holds tweaks, and what the cipher's crate keeps of round keys.
#[inline(never)]
fn transform(
    tweak: &impl BlockEncrypt,
    mut ivs: Ivs<'_>,
    run: Run<'_>,
    cipher: impl Fn(&mut [Block]),
) {
    let unit = run.unit();
    let mut first = [[0; 16]; UNITS];
    let mut tweaks = [[0; 16]; BLOCKS];
    piecewise(run, (UNIT_MAX / unit).min(UNITS), |data| {
        let first = &mut first[..data.len() / unit];
        ivs.fill(first);
        tweak.encrypt_all(first);
        for (first, tweaks) in first.iter().zip(tweaks.chunks_mut(unit / 16)) {
            powers(*first, tweaks);
        }
        let (blocks, _) = data.as_chunks_mut();
        xor(blocks, &tweaks);
        cipher(blocks);
        xor(blocks, &tweaks);
    });
}

/// Fills `tweaks` with `first` times α⁰, α¹, α² … in GF(2¹²⁸) (IEEE Std 1619, 5.2).
fn powers(first: Block, tweaks: &mut [Block]) {
    let mut power = u128::from_le_bytes(first);
    for tweak in tweaks {
        *tweak = power.to_le_bytes();
        let carry = power >> 127;
        power = (power << 1) ^ (carry.wrapping_neg() & 0x87);
    }
}
