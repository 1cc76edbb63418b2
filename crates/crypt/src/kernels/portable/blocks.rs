//! Block ciphers: what all modes share.

use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit, consts::U16};
use scrim_sys::memory::Locked;

use crate::kernels::iv::Block;
use crate::kernels::run::UNIT_MAX;

/// Blocks that are processed in one call of the cipher.
pub(super) const BLOCKS: usize = UNIT_MAX / 16;

/// A block cipher with blocks of 16 bytes, and a type for each size of its key.
pub(super) trait Family {
    type Key128: BlockCipher;
    type Key192: BlockCipher;
    type Key256: BlockCipher;
}

/// A block cipher with an expanded key.
pub(super) trait BlockCipher: BlockEncrypt {
    /// Type that encrypts the tweaks of XTS, which nothing decrypts.
    type Tweak: BlockEncrypt;

    fn decrypt_all(&self, blocks: &mut [Block]);
}

/// The direction of a block cipher that all modes need.
pub(super) trait BlockEncrypt: Sized + Send + Sync + 'static {
    /// Expands a key; `None` for one of another length.
    fn expand(key: &[u8]) -> Option<Self>;

    fn encrypt_all(&self, blocks: &mut [Block]);
}

/// The ciphers of RustCrypto's crates.
impl<C> BlockEncrypt for C
where
    C: BlockCipherEncrypt<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    fn expand(key: &[u8]) -> Option<Self> {
        Self::new_from_slice(key).ok()
    }

    fn encrypt_all(&self, blocks: &mut [Block]) {
        self.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }
}

/// Decrypts by a cipher of RustCrypto's crates.
pub(super) fn decrypt_all<C>(cipher: &C, blocks: &mut [Block])
where
    C: BlockCipherDecrypt<BlockSize = U16>,
{
    cipher.decrypt_blocks(Array::cast_slice_from_core_mut(blocks));
}

/// Expands a key, and moves it into locked memory; `None` for one of another length.
pub(super) fn locked<C: BlockEncrypt>(key: &[u8]) -> Option<Locked<C>> {
    let cipher = C::expand(key)?;
    Some(Locked::new(|| cipher))
}

pub(super) fn xor(blocks: &mut [Block], others: &[Block]) {
    for (block, other) in blocks.iter_mut().zip(others) {
        *block = (u128::from_le_bytes(*block) ^ u128::from_le_bytes(*other)).to_le_bytes();
    }
}
