//! AES rounds of up to 8 blocks side by side.

use core::arch::aarch64::*;

use super::key::{RoundKeys, round_key};

/// Blocks in flight, and data units that are worked on together.
pub(super) const GROUP: usize = 8;

/// One value for each block of a group.
pub(super) type Group = [uint8x16_t; GROUP];

/// Takes the first `LANES` blocks through all rounds. The last round key is not added: the caller adds it together
/// with what the mode adds. The other blocks remain.
#[inline]
#[target_feature(enable = "aes")]
pub(super) fn rounds<const ROUNDS: usize, const ENCRYPT: bool, const LANES: usize>(
    keys: &RoundKeys,
    data: &mut Group,
) {
    for round in 0..ROUNDS - 1 {
        let key = round_key(keys, round);
        for block in &mut data[..LANES] {
            *block = one_round::<ENCRYPT>(*block, key);
        }
    }
    let key = round_key(keys, ROUNDS - 1);
    for block in &mut data[..LANES] {
        *block = if ENCRYPT {
            vaeseq_u8(*block, key)
        } else {
            vaesdq_u8(*block, key)
        };
    }
}

/// The addition of a round key, and the round that follows it.
#[inline]
#[target_feature(enable = "aes")]
pub(super) fn one_round<const ENCRYPT: bool>(block: uint8x16_t, key: uint8x16_t) -> uint8x16_t {
    if ENCRYPT {
        vaesmcq_u8(vaeseq_u8(block, key))
    } else {
        vaesimcq_u8(vaesdq_u8(block, key))
    }
}
