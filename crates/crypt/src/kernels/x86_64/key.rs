//! AES key schedules (FIPS 197, 5.2 and 5.3.5) with the AES instructions, written straight to where
//! they stay.

use core::arch::x86_64::*;
use core::ptr;

/// Room for the round keys of any AES; a shorter key leaves the last ones zero.
pub(super) type RoundKeys = [__m128i; 15];

/// Round keys for encryption. `ROUNDS` is 10 for a `key` of 16 bytes, 12 for one of 24, 14 for one
/// of 32.
#[target_feature(enable = "aes")]
pub(super) fn expand<const ROUNDS: usize>(key: &[u8], keys: &mut RoundKeys) {
    match key.first_chunk() {
        Some(key) if ROUNDS == 12 => expand_192(key, keys),
        _ => expand_by_blocks::<ROUNDS>(key, keys),
    }
}

/// A key of whole blocks: each round key follows from the one before and the one that is a whole
/// key before.
#[inline]
#[target_feature(enable = "aes")]
fn expand_by_blocks<const ROUNDS: usize>(key: &[u8], keys: &mut RoundKeys) {
    begin(key, keys);
    let given = key.len() / 16;
    let mut constant = 1;
    for round in given..=ROUNDS {
        let word = _mm_shuffle_epi32::<0xff>(keys[round - 1]);
        // With four equal columns ShiftRows moves nothing, so that AESENCLAST is SubWord.
        let word = if given == 2 && round % 2 == 1 {
            _mm_aesenclast_si128(word, _mm_setzero_si128())
        } else {
            let word = substituted(word, constant);
            constant = next_constant(constant);
            word
        };
        keys[round] = _mm_xor_si128(running_xor(keys[round - given]), word);
    }
}

/// A key of a block and a half. So are its steps: each makes the next 24 bytes of round keys.
#[inline]
#[target_feature(enable = "aes")]
fn expand_192(key: &[u8; 24], keys: &mut RoundKeys) {
    begin(key, keys);
    let to: *mut u8 = keys.as_mut_ptr().cast();
    let (mut block, mut half) = (keys[0], _mm_move_epi64(keys[1]));
    let mut constant = 1;
    for step in 0..=8 {
        // SAFETY: step 8 writes up to byte 208 of the 240 of `keys`, those before it less.
        unsafe {
            _mm_storeu_si128(to.add(24 * step).cast(), block);
            if step == 8 {
                break;
            }
            _mm_storel_epi64(to.add(24 * step + 16).cast(), half);
        }
        let word = substituted(_mm_shuffle_epi32::<0x55>(half), constant);
        constant = next_constant(constant);
        block = _mm_xor_si128(running_xor(block), word);
        half = _mm_xor_si128(half, _mm_slli_si128::<4>(half));
        half = _mm_xor_si128(half, _mm_shuffle_epi32::<0xff>(block));
    }
}

/// Writes the first round keys, which are `key` itself, as bytes: an unaligned load to a register goes through a variable
/// on the stack where the compiler does not optimise, and would leave the key there.
#[inline]
fn begin(key: &[u8], keys: &mut RoundKeys) {
    let len = key.len().min(size_of::<RoundKeys>());
    // SAFETY: both have `len` bytes.
    unsafe { ptr::copy_nonoverlapping(key.as_ptr(), keys.as_mut_ptr().cast(), len) };
}

/// SubWord(RotWord(`word`)) with a round constant, in every column as `word` is.
#[inline]
#[target_feature(enable = "aes")]
fn substituted(word: __m128i, constant: i32) -> __m128i {
    let rotated = _mm_or_si128(_mm_srli_epi32::<8>(word), _mm_slli_epi32::<24>(word));
    _mm_aesenclast_si128(rotated, _mm_set1_epi32(constant))
}

/// Each word with all words before it.
#[inline]
#[target_feature(enable = "sse2")]
fn running_xor(words: __m128i) -> __m128i {
    let pairs = _mm_xor_si128(words, _mm_slli_si128::<4>(words));
    _mm_xor_si128(pairs, _mm_slli_si128::<8>(pairs))
}

fn next_constant(constant: i32) -> i32 {
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
    for round in 1..ROUNDS {
        decrypt[round] = _mm_aesimc_si128(encrypt[ROUNDS - round]);
    }
    decrypt[ROUNDS] = encrypt[0];
}
