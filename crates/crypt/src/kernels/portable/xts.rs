//! XTS (IEEE Std 1619).

use aes::cipher::{Array, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16};
use scrim_sys::memory::Locked;

use super::blocks::{Aes, BLOCKS, piecewise, xor};
use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::SectorKernel;
use crate::kernels::iv::{Block, Ivs};
use crate::kernels::run::{Run, UNIT_MAX};
use crate::spec::Algorithm;
use crate::wipe;

pub(crate) const XTS: Kernel = Kernel {
    algorithm: Algorithm::AesXts,
    driver: "xts-aes-portable",
    family: "portable",
    priority: 100,
    constant_time: true,
    features: &[],
    runs_here: || true,
    set_up: |key| match key.len() {
        32 => Xts::<aes::Aes128, aes::Aes128Enc>::boxed(key),
        48 => Xts::<aes::Aes192, aes::Aes192Enc>::boxed(key),
        64 => Xts::<aes::Aes256, aes::Aes256Enc>::boxed(key),
        _ => None,
    },
};

/// Data units whose tweaks are encrypted in one call of the cipher.
const UNITS: usize = 8;

struct Xts<D, T>(Locked<Keys<D, T>>);

struct Keys<D, T> {
    data: D,
    tweak: T,
}

/// The cipher that encrypts the tweaks.
trait Enc: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync {}

impl Enc for aes::Aes128Enc {}
impl Enc for aes::Aes192Enc {}
impl Enc for aes::Aes256Enc {}

impl<D: Aes, T: Enc + 'static> Xts<D, T> {
    fn boxed(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
        let (data, tweak) = key.split_at(key.len() / 2);
        let (data, tweak) = (data.try_into().ok()?, tweak.try_into().ok()?);
        Some(Box::new(Self(Locked::new(|| Keys {
            data: D::new(data),
            tweak: T::new(tweak),
        }))))
    }
}

impl<D: Aes, T: Enc> SectorKernel for Xts<D, T> {
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
/// the caller wipes: it holds tweaks, and what the `aes` crate keeps of round keys.
#[inline(never)]
fn transform<T: Enc>(tweak: &T, mut ivs: Ivs<'_>, run: Run<'_>, cipher: impl Fn(&mut [Block])) {
    let unit = run.unit();
    let mut first = [[0; 16]; UNITS];
    let mut tweaks = [[0; 16]; BLOCKS];
    piecewise(run, (UNIT_MAX / unit).min(UNITS), |data| {
        let first = &mut first[..data.len() / unit];
        ivs.fill(first);
        tweak.encrypt_blocks(Array::cast_slice_from_core_mut(first));
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
