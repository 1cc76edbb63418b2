//! Argon2's compression function G (RFC 9106, section 3.5) with AVX-512 and with AVX2.
//!
//! | | AVX-512 | AVX2 |
//! |---|---|---|
//! | for | Skylake-X, Zen 4 and later | Haswell, Zen and later |
//! | width | half the block in flight: two rows, or four columns in eight registers | a row, or two columns |
//! | bound | 480 instructions for two ports | 1000 for three |
//! | constant time | yes; the order of Argon2's reads depends on its data, and is not decided here | likewise |
//!
//! A block is an 8 × 8 matrix of pairs of words. P takes sixteen words as a 4 × 4 matrix, and works
//! on its columns, then on its diagonals. *A row of the block* lies in memory as P's matrix, row by
//! row: each of P's rows is a quarter of a register, and the diagonals become columns by rotating
//! P's rows. *A column of the block* has P's matrix in pairs of words under each other, so that
//! neighbouring columns are worked on side by side with no move at all, and P's diagonals become
//! columns by exchanging halves of pairs between the registers of two rows.
//!
//! Columns to the left come first: the first word of the result is in column 0, and the caller is
//! waiting for it.

use core::arch::x86_64::*;

pub(crate) use super::cpu::{Avx2, Avx512, Proof};
use crate::kernels::argon2::{Block, Write};

/// Implements [`compress`](crate::argon2::Compressor::compress) with AVX-512.
#[inline]
pub(crate) fn compress_avx512(
    _proof: Avx512,
    x: &Block,
    y: &Block,
    into: &mut Block,
    write: Write,
    early: impl FnOnce(u64),
) {
    // SAFETY: the proof shows that the CPU has the feature.
    unsafe { avx512::compress(x, y, into, write, early) }
}

/// Implements [`compress`](crate::argon2::Compressor::compress) with AVX2.
#[inline]
pub(crate) fn compress_avx2(
    _proof: Avx2,
    x: &Block,
    y: &Block,
    into: &mut Block,
    write: Write,
    early: impl FnOnce(u64),
) {
    // SAFETY: the proof shows that the CPU has the feature.
    unsafe { avx2::compress(x, y, into, write, early) }
}

/// Implements [`prefetch`](crate::argon2::prefetch), a line at a time.
#[inline]
pub(crate) fn prefetch(block: &Block) {
    for line in block.chunks_exact(8) {
        // SAFETY: every x86-64 has the instruction, and it reads nothing that the program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

mod avx512 {
    use super::*;

    /// Registers of a block; two make a row.
    const REGISTERS: usize = 16;

    #[target_feature(enable = "avx512f")]
    pub(super) fn compress(
        x: &Block,
        y: &Block,
        into: &mut Block,
        write: Write,
        early: impl FnOnce(u64),
    ) {
        let mut z = [_mm512_setzero_si512(); REGISTERS];
        for (i, z) in z.iter_mut().enumerate() {
            *z = _mm512_xor_si512(load(x, i), load(y, i));
        }
        for [a, b, c, d] in z.as_chunks_mut().0 {
            rows(a, b, c, d);
        }
        columns(&mut z, 0);
        finish(&z, 0, x, y, into, write);
        early(into[0]);
        columns(&mut z, 1);
        finish(&z, 1, x, y, into, write);
    }

    /// P on two rows: `p0` and `p1`, `q0` and `q1`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn rows(p0: &mut __m512i, p1: &mut __m512i, q0: &mut __m512i, q1: &mut __m512i) {
        const LOWER: i32 = 0b01_00_01_00;
        const UPPER: i32 = 0b11_10_11_10;
        let mut a = _mm512_shuffle_i64x2::<LOWER>(*p0, *q0);
        let mut b = _mm512_shuffle_i64x2::<UPPER>(*p0, *q0);
        let mut c = _mm512_shuffle_i64x2::<LOWER>(*p1, *q1);
        let mut d = _mm512_shuffle_i64x2::<UPPER>(*p1, *q1);
        quarter(&mut a, &mut b, &mut c, &mut d);
        b = _mm512_permutex_epi64::<0b00_11_10_01>(b);
        c = _mm512_permutex_epi64::<0b01_00_11_10>(c);
        d = _mm512_permutex_epi64::<0b10_01_00_11>(d);
        quarter(&mut a, &mut b, &mut c, &mut d);
        b = _mm512_permutex_epi64::<0b10_01_00_11>(b);
        c = _mm512_permutex_epi64::<0b01_00_11_10>(c);
        d = _mm512_permutex_epi64::<0b00_11_10_01>(d);
        *p0 = _mm512_shuffle_i64x2::<LOWER>(a, b);
        *q0 = _mm512_shuffle_i64x2::<UPPER>(a, b);
        *p1 = _mm512_shuffle_i64x2::<LOWER>(c, d);
        *q1 = _mm512_shuffle_i64x2::<UPPER>(c, d);
    }

    /// P on four columns: the left ones for `half` 0, the right ones for 1.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn columns(z: &mut [__m512i; REGISTERS], half: usize) {
        let row = |i: usize| 2 * i + half;
        let [mut a0, mut a1, mut b0, mut b1] = [z[row(0)], z[row(1)], z[row(2)], z[row(3)]];
        let [mut c0, mut c1, mut d0, mut d1] = [z[row(4)], z[row(5)], z[row(6)], z[row(7)]];
        quarter(&mut a0, &mut b0, &mut c0, &mut d0);
        quarter(&mut a1, &mut b1, &mut c1, &mut d1);
        (b0, b1) = (exchange(b0, b1), exchange(b1, b0));
        (d0, d1) = (exchange(d1, d0), exchange(d0, d1));
        quarter(&mut a0, &mut b0, &mut c1, &mut d0);
        quarter(&mut a1, &mut b1, &mut c0, &mut d1);
        (b0, b1) = (exchange(b1, b0), exchange(b0, b1));
        (d0, d1) = (exchange(d0, d1), exchange(d1, d0));
        [z[row(0)], z[row(1)], z[row(2)], z[row(3)]] = [a0, a1, b0, b1];
        [z[row(4)], z[row(5)], z[row(6)], z[row(7)]] = [c0, c1, d0, d1];
    }

    /// The second words of the pairs of `a`, each followed by the first word of a pair of `b`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn exchange(a: __m512i, b: __m512i) -> __m512i {
        let (a, b) = (_mm512_castsi512_pd(a), _mm512_castsi512_pd(b));
        _mm512_castpd_si512(_mm512_shuffle_pd::<0b0101_0101>(a, b))
    }

    /// GB (section 3.6) on eight columns at once.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn quarter(a: &mut __m512i, b: &mut __m512i, c: &mut __m512i, d: &mut __m512i) {
        *a = multiply_add(*a, *b);
        *d = _mm512_ror_epi64::<32>(_mm512_xor_si512(*d, *a));
        *c = multiply_add(*c, *d);
        *b = _mm512_ror_epi64::<24>(_mm512_xor_si512(*b, *c));
        *a = multiply_add(*a, *b);
        *d = _mm512_ror_epi64::<16>(_mm512_xor_si512(*d, *a));
        *c = multiply_add(*c, *d);
        *b = _mm512_ror_epi64::<63>(_mm512_xor_si512(*b, *c));
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn multiply_add(a: __m512i, b: __m512i) -> __m512i {
        let product = _mm512_mul_epu32(a, b);
        _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(product, product))
    }

    /// Writes one half of each row.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn finish(
        z: &[__m512i; REGISTERS],
        half: usize,
        x: &Block,
        y: &Block,
        into: &mut Block,
        write: Write,
    ) {
        const XOR_OF_THREE: i32 = 0x96;
        for row in 0..8 {
            let i = 2 * row + half;
            let mut word = _mm512_ternarylogic_epi64::<XOR_OF_THREE>(z[i], load(x, i), load(y, i));
            if write == Write::Xor {
                word = _mm512_xor_si512(word, load(into, i));
            }
            let to = &mut into.as_chunks_mut::<8>().0[i];
            // SAFETY: a chunk is 64 writable bytes.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), word) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(block: &Block, i: usize) -> __m512i {
        let from = &block.as_chunks::<8>().0[i];
        // SAFETY: a chunk is 64 readable bytes.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }
}

mod avx2 {
    use super::*;

    /// Registers of a block; four make a row.
    const REGISTERS: usize = 32;

    #[target_feature(enable = "avx2")]
    pub(super) fn compress(
        x: &Block,
        y: &Block,
        into: &mut Block,
        write: Write,
        early: impl FnOnce(u64),
    ) {
        let mut z = [_mm256_setzero_si256(); REGISTERS];
        for (i, z) in z.iter_mut().enumerate() {
            *z = _mm256_xor_si256(load(x, i), load(y, i));
        }
        for [a, b, c, d] in z.as_chunks_mut().0 {
            row(a, b, c, d);
        }
        columns(&mut z, 0);
        finish(&z, 0, x, y, into, write);
        early(into[0]);
        for part in 1..4 {
            columns(&mut z, part);
            finish(&z, part, x, y, into, write);
        }
    }

    /// P on a row.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn row(a: &mut __m256i, b: &mut __m256i, c: &mut __m256i, d: &mut __m256i) {
        quarter(a, b, c, d);
        *b = _mm256_permute4x64_epi64::<0b00_11_10_01>(*b);
        *c = _mm256_permute4x64_epi64::<0b01_00_11_10>(*c);
        *d = _mm256_permute4x64_epi64::<0b10_01_00_11>(*d);
        quarter(a, b, c, d);
        *b = _mm256_permute4x64_epi64::<0b10_01_00_11>(*b);
        *c = _mm256_permute4x64_epi64::<0b01_00_11_10>(*c);
        *d = _mm256_permute4x64_epi64::<0b00_11_10_01>(*d);
    }

    /// P on two columns, `part` 0 to 3 from the left.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn columns(z: &mut [__m256i; REGISTERS], part: usize) {
        let row = |i: usize| 4 * i + part;
        let [mut a0, mut a1, mut b0, mut b1] = [z[row(0)], z[row(1)], z[row(2)], z[row(3)]];
        let [mut c0, mut c1, mut d0, mut d1] = [z[row(4)], z[row(5)], z[row(6)], z[row(7)]];
        quarter(&mut a0, &mut b0, &mut c0, &mut d0);
        quarter(&mut a1, &mut b1, &mut c1, &mut d1);
        (b0, b1) = (exchange(b0, b1), exchange(b1, b0));
        (d0, d1) = (exchange(d1, d0), exchange(d0, d1));
        quarter(&mut a0, &mut b0, &mut c1, &mut d0);
        quarter(&mut a1, &mut b1, &mut c0, &mut d1);
        (b0, b1) = (exchange(b1, b0), exchange(b0, b1));
        (d0, d1) = (exchange(d0, d1), exchange(d1, d0));
        [z[row(0)], z[row(1)], z[row(2)], z[row(3)]] = [a0, a1, b0, b1];
        [z[row(4)], z[row(5)], z[row(6)], z[row(7)]] = [c0, c1, d0, d1];
    }

    /// The second words of the pairs of `a`, each followed by the first word of a pair of `b`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn exchange(a: __m256i, b: __m256i) -> __m256i {
        let (a, b) = (_mm256_castsi256_pd(a), _mm256_castsi256_pd(b));
        _mm256_castpd_si256(_mm256_shuffle_pd::<0b0101>(a, b))
    }

    /// GB (section 3.6) on four columns at once.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn quarter(a: &mut __m256i, b: &mut __m256i, c: &mut __m256i, d: &mut __m256i) {
        let right_24 = _mm256_broadcastsi128_si256(_mm_setr_epi8(
            3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10,
        ));
        let right_16 = _mm256_broadcastsi128_si256(_mm_setr_epi8(
            2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9,
        ));
        *a = multiply_add(*a, *b);
        *d = _mm256_shuffle_epi32::<0b10_11_00_01>(_mm256_xor_si256(*d, *a));
        *c = multiply_add(*c, *d);
        *b = _mm256_shuffle_epi8(_mm256_xor_si256(*b, *c), right_24);
        *a = multiply_add(*a, *b);
        *d = _mm256_shuffle_epi8(_mm256_xor_si256(*d, *a), right_16);
        *c = multiply_add(*c, *d);
        let word = _mm256_xor_si256(*b, *c);
        *b = _mm256_or_si256(_mm256_srli_epi64::<63>(word), _mm256_add_epi64(word, word));
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn multiply_add(a: __m256i, b: __m256i) -> __m256i {
        let product = _mm256_mul_epu32(a, b);
        _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(product, product))
    }

    /// Writes one quarter of each row.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn finish(
        z: &[__m256i; REGISTERS],
        part: usize,
        x: &Block,
        y: &Block,
        into: &mut Block,
        write: Write,
    ) {
        for row in 0..8 {
            let i = 4 * row + part;
            let mut word = _mm256_xor_si256(z[i], _mm256_xor_si256(load(x, i), load(y, i)));
            if write == Write::Xor {
                word = _mm256_xor_si256(word, load(into, i));
            }
            let to = &mut into.as_chunks_mut::<4>().0[i];
            // SAFETY: a chunk is 32 writable bytes.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), word) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(block: &Block, i: usize) -> __m256i {
        let from = &block.as_chunks::<4>().0[i];
        // SAFETY: a chunk is 32 readable bytes.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }
}
