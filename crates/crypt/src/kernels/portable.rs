//! XTS on the RustCrypto `aes` crate, in safe code.
//!
//! | | |
//! |---|---|
//! | for | every CPU; also the one to fall back on when the others are disabled |
//! | width | 4 KiB at a time: as many blocks as the crate's widest backend takes in one call |
//! | state | the tweaks of those blocks, on the stack, which is wiped after each call |
//! | constant time | yes: the crate's software backend is bitsliced, the tweaks are arithmetic |
//! | why | correct where nothing else runs, and the second opinion on every other kernel |
//!
//! The crate uses AES instructions where it finds them. `RUSTFLAGS='--cfg aes_backend="soft"'`
//! builds it without.

use aes::cipher::{
    Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, Key, KeyInit, consts::U16,
};
use scrim_sys::memory::Locked;

use super::{Kernel, SectorKernel};
use crate::iv::{Block, Ivs};
use crate::run::{Data, Run, UNIT_MAX};
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
        64 => Xts::<aes::Aes256, aes::Aes256Enc>::boxed(key),
        _ => None,
    },
};

/// Blocks whose tweaks are made ahead.
const BLOCKS: usize = UNIT_MAX / 16;

/// Data units whose tweaks are encrypted in one call of the cipher.
const UNITS: usize = 8;

struct Xts<D, T>(Locked<Keys<D, T>>);

struct Keys<D, T> {
    data: D,
    tweak: T,
}

impl<D, T> Xts<D, T>
where
    D: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
    T: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
    Self: SectorKernel + 'static,
{
    fn boxed(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
        let (data, tweak) = key.split_at(key.len() / 2);
        let data: &Key<D> = data.try_into().ok()?;
        let tweak: &Key<T> = tweak.try_into().ok()?;
        Some(Box::new(Self(Locked::new(|| Keys {
            data: D::new(data),
            tweak: T::new(tweak),
        }))))
    }
}

impl<D, T> SectorKernel for Xts<D, T>
where
    D: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + Send + Sync,
    T: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + Send + Sync,
{
    fn encrypt(&self, ivs: Ivs, run: Run<'_>) {
        transform(&self.0.tweak, ivs, run, |blocks| {
            self.0.data.encrypt_blocks(blocks);
        });
        wipe::stack();
    }

    fn decrypt(&self, ivs: Ivs, run: Run<'_>) {
        transform(&self.0.tweak, ivs, run, |blocks| {
            self.0.data.decrypt_blocks(blocks);
        });
        wipe::stack();
    }
}

/// XTS with `cipher` as the block cipher's direction. In a frame of its own, which the caller
/// wipes: it holds tweaks, and what the `aes` crate keeps of round keys.
#[inline(never)]
fn transform<T>(tweak: &T, mut ivs: Ivs, run: Run<'_>, cipher: impl Fn(&mut [Array<u8, U16>]))
where
    T: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let unit = run.unit();
    let batch = unit * (UNIT_MAX / unit).min(UNITS);
    let mut first = [[0; 16]; UNITS];
    let mut tweaks = [[0; 16]; BLOCKS];
    let mut turn = |data: &mut [u8]| {
        let first = &mut first[..data.len() / unit];
        ivs.fill(first);
        tweak.encrypt_blocks(Array::cast_slice_from_core_mut(first));
        for (first, tweaks) in first.iter().zip(tweaks.chunks_mut(unit / 16)) {
            powers(*first, tweaks);
        }
        let (blocks, _) = data.as_chunks_mut::<16>();
        xor(blocks, &tweaks);
        cipher(Array::cast_slice_from_core_mut(blocks));
        xor(blocks, &tweaks);
    };
    match run.into_data() {
        Data::InPlace(data) => data.chunks_mut(batch).for_each(turn),
        Data::Copy {
            source,
            destination,
        } => {
            for (source, destination) in source.chunks(batch).zip(destination.chunks_mut(batch)) {
                destination.copy_from_slice(source);
                turn(destination);
            }
        }
    }
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

fn xor(blocks: &mut [Block], tweaks: &[Block]) {
    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
        *block = (u128::from_le_bytes(*block) ^ u128::from_le_bytes(*tweak)).to_le_bytes();
    }
}
