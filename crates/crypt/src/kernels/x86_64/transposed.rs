//! Words of four blocks out of the blocks, or blocks out of words: rows and columns of four words by four, exchanged in each
//! 128 bits of the registers.

use core::arch::x86_64::*;

/// Exchanges rows and columns in both halves of the registers.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn in_halves([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let low = [_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d)];
    let high = [_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d)];
    [
        _mm256_unpacklo_epi64(low[0], low[1]),
        _mm256_unpackhi_epi64(low[0], low[1]),
        _mm256_unpacklo_epi64(high[0], high[1]),
        _mm256_unpackhi_epi64(high[0], high[1]),
    ]
}

/// Exchanges rows and columns in all quarters of the registers.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn in_quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let low = [_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)];
    let high = [_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)];
    [
        _mm512_unpacklo_epi64(low[0], low[1]),
        _mm512_unpackhi_epi64(low[0], low[1]),
        _mm512_unpacklo_epi64(high[0], high[1]),
        _mm512_unpackhi_epi64(high[0], high[1]),
    ]
}
