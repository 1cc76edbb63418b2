//! AES key schedules (FIPS 197, 5.2 and 5.3.5) with the AES instructions, written straight to where
//! they stay.

use core::arch::x86_64::*;

/// Room for the round keys of any AES; a shorter key leaves the last ones zero.
pub(super) type RoundKeys = [__m128i; 15];

/// Round keys for encryption. `ROUNDS` is 10 for a `key` of 16 bytes, 14 for one of 32.
#[target_feature(enable = "aes")]
pub(super) fn expand<const ROUNDS: usize>(key: &[u8], keys: &mut RoundKeys) {
    let (given, _) = key.as_chunks::<16>();
    for (round_key, block) in keys.iter_mut().zip(given) {
        // SAFETY: a block is 16 readable bytes.
        *round_key = unsafe { _mm_loadu_si128(block.as_ptr().cast()) };
    }
    let mut constant = 1;
    for round in given.len()..=ROUNDS {
        let word = _mm_shuffle_epi32::<0xff>(keys[round - 1]);
        // With four equal columns ShiftRows moves nothing, so that AESENCLAST is SubWord.
        let word = if given.len() == 2 && round % 2 == 1 {
            _mm_aesenclast_si128(word, _mm_setzero_si128())
        } else {
            let rotated = _mm_or_si128(_mm_srli_epi32::<8>(word), _mm_slli_epi32::<24>(word));
            let word = _mm_aesenclast_si128(rotated, _mm_set1_epi32(constant));
            constant = if constant == 0x80 {
                0x1b
            } else {
                constant << 1
            };
            word
        };
        let mut next = keys[round - given.len()];
        next = _mm_xor_si128(next, _mm_slli_si128::<4>(next));
        next = _mm_xor_si128(next, _mm_slli_si128::<8>(next));
        keys[round] = _mm_xor_si128(next, word);
    }
}

/// Round keys for decryption, in the order of use (the equivalent inverse cipher), from those for
/// encryption.
#[target_feature(enable = "aes")]
pub(super) fn invert<const ROUNDS: usize>(encrypt: &RoundKeys, decrypt: &mut RoundKeys) {
    decrypt[0] = encrypt[ROUNDS];
    for round in 1..ROUNDS {
        decrypt[round] = _mm_aesimc_si128(encrypt[ROUNDS - round]);
    }
    decrypt[ROUNDS] = encrypt[0];
}
