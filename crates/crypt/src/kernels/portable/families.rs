//! Block ciphers with keys of 128, 192 and 256 bits.

use super::blocks::{BlockCipher, Family, decrypt_all};
use super::twofish::Schedule;
use crate::kernels::iv::Block;

/// AES of the `aes` crate: bitsliced, or by the processor's instructions.
pub(super) struct Aes;

impl Family for Aes {
    type Key128 = aes::Aes128;
    type Key192 = aes::Aes192;
    type Key256 = aes::Aes256;
}

/// Serpent of the `serpent` crate: bitsliced in words of 32 bits.
pub(super) struct Serpent;

impl Family for Serpent {
    type Key128 = serpent::Serpent;
    type Key192 = serpent::Serpent;
    type Key256 = serpent::Serpent;
}

/// Twofish of this project, which keeps the S-boxes of a key as tables.
pub(super) struct Twofish;

impl Family for Twofish {
    type Key128 = Schedule;
    type Key192 = Schedule;
    type Key256 = Schedule;
}

/// Camellia of the `camellia` crate, which looks S-boxes up in tables.
pub(super) struct Camellia;

impl Family for Camellia {
    type Key128 = camellia::Camellia128;
    type Key192 = camellia::Camellia192;
    type Key256 = camellia::Camellia256;
}

/// One row for each cipher of a crate, with the type that only encrypts.
macro_rules! ciphers {
    ($($cipher:ty, $tweak:ty;)*) => {
        $(
            impl BlockCipher for $cipher {
                type Tweak = $tweak;

                fn decrypt_all(&self, blocks: &mut [Block]) {
                    decrypt_all(self, blocks);
                }
            }
        )*
    };
}

ciphers! {
    aes::Aes128, aes::Aes128Enc;
    aes::Aes192, aes::Aes192Enc;
    aes::Aes256, aes::Aes256Enc;
    serpent::Serpent, Self;
    camellia::Camellia128, Self;
    camellia::Camellia192, Self;
    camellia::Camellia256, Self;
}
