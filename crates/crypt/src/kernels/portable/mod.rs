//! Every mode on the RustCrypto `aes` crate, in safe code.
//!
//! | | |
//! |---|---|
//! | for | every CPU; also the fallback when the others are disabled |
//! | width | 4 KiB at a time: as many blocks as the crate's widest backend takes in one call |
//! | state | tweaks, counters or ciphertext of those blocks, on the stack, wiped after each call |
//! | constant time | yes: the crate's software backend is bitsliced, all else is arithmetic |
//! | why | correct where nothing else runs, and the second opinion on every other kernel |
//!
//! The crate uses AES instructions where it finds them. `RUSTFLAGS='--cfg aes_backend="soft"'`
//! builds it without.

mod cbc;
mod ctr;
mod ecb;
mod null;
#[cfg(test)]
mod tests;
mod xts;

use aes::cipher::{
    Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16,
};
use scrim_sys::memory::Locked;

pub(crate) use cbc::CBC;
pub(crate) use ctr::CTR;
pub(crate) use ecb::ECB;
pub(crate) use null::NULL;
pub(crate) use xts::XTS;

use crate::iv::Block;
use crate::run::{Data, Run, UNIT_MAX};

/// Blocks that are processed in one call of the cipher.
const BLOCKS: usize = UNIT_MAX / 16;

/// AES with a key of some length.
trait Aes:
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

/// Hands the run to `turn` in pieces of `units` data units, in their place at the destination.
fn piecewise(run: Run<'_>, units: usize, turn: impl FnMut(&mut [u8])) {
    let piece = run.unit() * units;
    let mut turn = turn;
    match run.into_data() {
        Data::InPlace(data) => data.chunks_mut(piece).for_each(turn),
        Data::Copy {
            source,
            destination,
        } => {
            for (source, destination) in source.chunks(piece).zip(destination.chunks_mut(piece)) {
                destination.copy_from_slice(source);
                turn(destination);
            }
        }
        Data::Shared {
            source,
            destination,
        } => {
            for (at, destination) in (0..).step_by(piece).zip(destination.chunks_mut(piece)) {
                source.part(at, destination.len()).copy_to(destination);
                turn(destination);
            }
        }
    }
}

fn xor(blocks: &mut [Block], others: &[Block]) {
    for (block, other) in blocks.iter_mut().zip(others) {
        *block = (u128::from_le_bytes(*block) ^ u128::from_le_bytes(*other)).to_le_bytes();
    }
}
