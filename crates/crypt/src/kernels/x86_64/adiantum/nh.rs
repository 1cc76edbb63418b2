//! NH with four passes, whose keys are four words apart, and which pair words that are two apart (section 6.3 of the
//! paper).
//!
//! The words of each block, of message and key, are brought into the order 0, 2, 1, 3. Then the two factors of a product
//! are beside each other, and a pass is an addition, a shift, a multiplication and another addition for each register.

use core::arch::x86_64::*;

use crate::kernels::adiantum::{NH_MESSAGE, NhKey};

/// The key, with the words of each block in the order 0, 2, 1, 3.
#[repr(C, align(64))]
pub(super) struct Key(NhKey);

impl Key {
    pub(super) fn new(key: &NhKey) -> Self {
        let mut words = *key;
        let (blocks, _) = words.as_chunks_mut::<4>();
        blocks.iter_mut().for_each(|block| block.swap(1, 2));
        Self(words)
    }
}

/// NH of a message of whole blocks, at most [`NH_MESSAGE`] bytes, on registers of 512 bits.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn by_512_bits(key: &Key, message: &[u8]) -> [u128; 2] {
    assert!(message.len() <= NH_MESSAGE);
    let mut sums = [_mm512_setzero_si512(); 4];
    let mut key = key.0.as_ptr();
    let (whole, rest) = message.as_chunks::<64>();
    for part in whole {
        // SAFETY: a part is as long. The key has as many words as the message, and twelve more.
        unsafe {
            let message = _mm512_loadu_si512(part.as_ptr().cast());
            passes_of_512_bits(&mut sums, key, message, 0xffff);
            key = key.add(16);
        }
    }
    if !rest.is_empty() {
        let mask = (1 << (rest.len() / 4)) - 1;
        // SAFETY: the mask leaves out what is beyond the rest. The longest message has none, so there is as much of the key
        // as for a whole part.
        unsafe {
            let message = _mm512_maskz_loadu_epi32(mask, rest.as_ptr().cast());
            passes_of_512_bits(&mut sums, key, message, mask);
        }
    }
    let [a, b, c, d] = sums;
    // In each quarter, two sums.
    let one = _mm512_add_epi64(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    let other = _mm512_add_epi64(_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
    let both = _mm512_add_epi64(
        _mm512_shuffle_i64x2::<0b10_00_10_00>(one, other),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(one, other),
    );
    let both = _mm512_add_epi64(both, _mm512_shuffle_i64x2::<0b10_11_00_01>(both, both));
    [
        number(_mm512_castsi512_si128(both)),
        number(_mm512_extracti32x4_epi32::<2>(both)),
    ]
}

/// Adds what four blocks add to the sums of the passes. `mask` has bits for the words that are there.
///
/// # Safety
/// 28 words of the key can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn passes_of_512_bits(
    sums: &mut [__m512i; 4],
    key: *const u32,
    message: __m512i,
    mask: __mmask16,
) {
    let message = _mm512_shuffle_epi32::<0b11_01_10_00>(message);
    for (pass, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller promises the words.
        let key = unsafe { _mm512_loadu_si512(key.add(4 * pass).cast()) };
        let words = _mm512_maskz_add_epi32(mask, message, key);
        let products = _mm512_mul_epu32(words, _mm512_srli_epi64::<32>(words));
        *sum = _mm512_add_epi64(*sum, products);
    }
}

/// NH of a message of whole blocks, at most [`NH_MESSAGE`] bytes, on registers of 256 bits.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn by_256_bits(key: &Key, message: &[u8]) -> [u128; 2] {
    assert!(message.len() <= NH_MESSAGE);
    let mut sums = [_mm256_setzero_si256(); 4];
    let mut key = key.0.as_ptr();
    let (whole, rest) = message.as_chunks::<32>();
    for part in whole {
        // SAFETY: a part is as long. The key has as many words as the message, and twelve more.
        unsafe {
            let message = _mm256_loadu_si256(part.as_ptr().cast());
            passes_of_256_bits::<false>(&mut sums, key, message);
            key = key.add(8);
        }
    }
    if let Some(block) = rest.first_chunk::<16>() {
        // SAFETY: a block is as long. The longest message has no rest, so there is as much of the key as for a whole part.
        unsafe {
            let message = _mm_loadu_si128(block.as_ptr().cast());
            let message = _mm256_zextsi128_si256(message);
            passes_of_256_bits::<true>(&mut sums, key, message);
        }
    }
    let [a, b, c, d] = sums;
    // In each half, two sums.
    let one = _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    let other = _mm256_add_epi64(_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
    let both = _mm256_add_epi64(
        _mm256_permute2x128_si256::<0x20>(one, other),
        _mm256_permute2x128_si256::<0x31>(one, other),
    );
    [
        number(_mm256_castsi256_si128(both)),
        number(_mm256_extracti128_si256::<1>(both)),
    ]
}

/// Adds what two blocks, or with `HALF` the first of them, add to the sums of the passes.
///
/// # Safety
/// 20 words of the key can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn passes_of_256_bits<const HALF: bool>(
    sums: &mut [__m256i; 4],
    key: *const u32,
    message: __m256i,
) {
    let message = _mm256_shuffle_epi32::<0b11_01_10_00>(message);
    for (pass, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller promises the words.
        let key = unsafe { _mm256_loadu_si256(key.add(4 * pass).cast()) };
        let mut words = _mm256_add_epi32(message, key);
        if HALF {
            words = _mm256_zextsi128_si256(_mm256_castsi256_si128(words));
        }
        let products = _mm256_mul_epu32(words, _mm256_srli_epi64::<32>(words));
        *sum = _mm256_add_epi64(*sum, products);
    }
}

#[inline]
fn number(register: __m128i) -> u128 {
    // SAFETY: 128 bits either way.
    unsafe { core::mem::transmute(register) }
}
