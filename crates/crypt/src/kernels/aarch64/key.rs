//! AES key schedules (FIPS 197, 5.2 and 5.3.5) with the AES instructions, written straight to where
//! they stay.

use core::arch::aarch64::*;

use super::block::zero;
use crate::kernels::iv::Block;

/// Room for the round keys of any AES; a shorter key leaves the last ones zero.
pub(super) type RoundKeys = [Block; 15];

pub(super) const NO_KEYS: RoundKeys = [[0; 16]; 15];

/// Round keys for encryption. `ROUNDS` is 10 for a `key` of 16 bytes, 12 for one of 24, 14 for one
/// of 32.
#[target_feature(enable = "aes")]
pub(super) fn expand<const ROUNDS: usize>(key: &[u8], keys: &mut RoundKeys) {
    let bytes = keys.as_flattened_mut();
    bytes[..key.len()].copy_from_slice(key);
    let (words, _) = bytes.as_chunks_mut::<4>();
    let given = key.len() / 4;
    let mut constant = 1;
    for at in given..4 * (ROUNDS + 1) {
        let mut word = u32::from_le_bytes(words[at - 1]);
        if at % given == 0 {
            word = substituted(word.rotate_right(8)) ^ constant;
            constant = next_constant(constant);
        } else if given == 8 && at % given == 4 {
            word = substituted(word);
        }
        let before = u32::from_le_bytes(words[at - given]);
        words[at] = (before ^ word).to_le_bytes();
    }
}

/// SubWord. With four equal columns ShiftRows moves nothing, so that AESE with a key of zeros is SubWord of each.
#[inline]
#[target_feature(enable = "aes")]
fn substituted(word: u32) -> u32 {
    let columns = vreinterpretq_u8_u32(vdupq_n_u32(word));
    vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vaeseq_u8(columns, zero())))
}

fn next_constant(constant: u32) -> u32 {
    if constant == 0x80 {
        0x1b
    } else {
        constant << 1
    }
}

/// Round keys for decryption, in the order of use (the equivalent inverse cipher), from those for
/// encryption.
#[target_feature(enable = "aes")]
pub(super) fn invert<const ROUNDS: usize>(encrypt: &RoundKeys, decrypt: &mut RoundKeys) {
    decrypt[0] = encrypt[ROUNDS];
    for (round, key) in decrypt.iter_mut().enumerate().take(ROUNDS).skip(1) {
        let inverted = vaesimcq_u8(round_key(encrypt, ROUNDS - round));
        // SAFETY: a round key has 16 bytes.
        unsafe { vst1q_u8(key.as_mut_ptr(), inverted) };
    }
    decrypt[ROUNDS] = encrypt[0];
}

/// The key of a round.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn round_key(keys: &RoundKeys, round: usize) -> uint8x16_t {
    // SAFETY: a round key has 16 bytes.
    unsafe { vld1q_u8(keys[round].as_ptr()) }
}
