//! AES on many blocks, and runs cut into pieces: what all modes share.

use aes::cipher::{
    Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16,
};
use scrim_sys::memory::Locked;

use crate::kernels::iv::Block;
use crate::kernels::run::{Data, Run, UNIT_MAX};

/// Blocks that are processed in one call of the cipher.
pub(super) const BLOCKS: usize = UNIT_MAX / 16;

/// AES with a key of some length.
pub(super) trait Aes:
    BlockCipherEncrypt
    + BlockCipherDecrypt
    + BlockSizeUser<BlockSize = U16>
    + KeyInit
    + Send
    + Sync
    + 'static
{
    /// Expands a key, in locked memory; `None` for one of another length.
    fn locked(key: &[u8]) -> Option<Locked<Self>> {
        let key = key.try_into().ok()?;
        Some(Locked::new(|| Self::new(key)))
    }

    fn encrypt_all(&self, blocks: &mut [Block]) {
        self.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }

    fn decrypt_all(&self, blocks: &mut [Block]) {
        self.decrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }
}

impl Aes for aes::Aes128 {}
impl Aes for aes::Aes192 {}
impl Aes for aes::Aes256 {}

/// Hands the run to `transform` in pieces of `units` data units, in their place at the destination.
pub(super) fn piecewise(run: Run<'_>, units: usize, transform: impl FnMut(&mut [u8])) {
    let piece = run.unit() * units;
    let mut transform = transform;
    match run.into_data() {
        Data::InPlace(data) => data.chunks_mut(piece).for_each(transform),
        Data::Copy {
            source,
            destination,
        } => {
            for (source, destination) in source.chunks(piece).zip(destination.chunks_mut(piece)) {
                destination.copy_from_slice(source);
                transform(destination);
            }
        }
        Data::Shared {
            source,
            destination,
        } => {
            for (at, destination) in (0..).step_by(piece).zip(destination.chunks_mut(piece)) {
                source.part(at, destination.len()).copy_to(destination);
                transform(destination);
            }
        }
    }
}

pub(super) fn xor(blocks: &mut [Block], others: &[Block]) {
    for (block, other) in blocks.iter_mut().zip(others) {
        *block = (u128::from_le_bytes(*block) ^ u128::from_le_bytes(*other)).to_le_bytes();
    }
}
