//! Registers with a word of 32 bits for each of some blocks, which are computed side by side.

use core::arch::asm;
use core::arch::x86_64::*;

use super::super::cpu::{Avx2, Avx2Avx512, Proof};
use super::super::transposed::{in_halves, in_quarters};
use super::bulks::Bulks;
use crate::kernels::adiantum::UNITS_MAX;

/// The same word of each of some blocks, a lane for each. A value can only be had where the CPU has the instructions.
pub(super) trait Lanes: Copy {
    type Width: Proof;

    /// Number of blocks side by side.
    const LANES: usize;

    /// The same word in all lanes.
    fn all(width: Self::Width, word: u32) -> Self;

    /// The first of `words`.
    fn load(width: Self::Width, words: &[u32; UNITS_MAX]) -> Self;

    fn add(self, other: Self) -> Self;

    fn xor(self, other: Self) -> Self;

    /// Rotates to the left by `LEFT` bits, which are 32 less `RIGHT`.
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self;

    /// For each lane the word of the lane that `indices` has there.
    fn select(self, indices: Self) -> Self;

    /// In lanes where `low` has reached `limit`, subtracts it from `low` and adds 1 to `high`. False if it had in none.
    fn carry(low: &mut Self, high: &mut Self, limit: Self) -> bool;

    /// XORs blocks, given as their words, to the next of `bulks`.
    fn xor_blocks(words: [Self; 16], bulks: &mut Bulks<'_>);
}

/// Words of eight blocks.
#[derive(Clone, Copy)]
pub(super) struct Eight(__m256i);

impl Lanes for Eight {
    type Width = Avx2;

    const LANES: usize = 8;

    #[inline(always)]
    fn all(_: Avx2, word: u32) -> Self {
        // SAFETY: the token shows that the CPU has AVX2.
        Self(unsafe { _mm256_set1_epi32(word.cast_signed()) })
    }

    #[inline(always)]
    fn load(_: Avx2, words: &[u32; UNITS_MAX]) -> Self {
        // SAFETY: the token shows that the CPU has AVX2; there are twice as many words.
        Self(unsafe { _mm256_loadu_si256(words.as_ptr().cast()) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: there is a value only where the CPU has AVX2.
        Self(unsafe { _mm256_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        const { assert!(LEFT + RIGHT == 32) };
        // SAFETY: as above.
        Self(unsafe {
            match LEFT {
                16 => by_bytes(self.0, &LEFT_16),
                8 => by_bytes(self.0, &LEFT_8),
                _ => _mm256_or_si256(
                    _mm256_slli_epi32::<LEFT>(self.0),
                    _mm256_srli_epi32::<RIGHT>(self.0),
                ),
            }
        })
    }

    #[inline(always)]
    fn select(self, indices: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm256_permutevar8x32_epi32(self.0, indices.0) })
    }

    #[inline(always)]
    fn carry(low: &mut Self, high: &mut Self, limit: Self) -> bool {
        // SAFETY: as above.
        unsafe {
            let ones = _mm256_set1_epi32(-1);
            let reached = _mm256_andnot_si256(_mm256_cmpgt_epi32(limit.0, low.0), ones);
            low.0 = _mm256_sub_epi32(low.0, _mm256_and_si256(reached, limit.0));
            high.0 = _mm256_sub_epi32(high.0, reached);
            _mm256_testz_si256(reached, reached) == 0
        }
    }

    #[inline(always)]
    fn xor_blocks(words: [Self; 16], bulks: &mut Bulks<'_>) {
        // SAFETY: as above.
        unsafe { xor_eight_blocks(words, bulks) }
    }
}

/// Numbers of the bytes that a byte is taken from, in each half of a register.
#[repr(align(32))]
struct Bytes([[u8; 16]; 2]);

static LEFT_16: Bytes = Bytes::of_halves([2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13]);
static LEFT_8: Bytes = Bytes::of_halves([3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14]);

impl Bytes {
    const fn of_halves(half: [u8; 16]) -> Self {
        Self([half; 2])
    }
}

/// Arranges the bytes of a register. A compiler that knows `bytes` makes two instructions of a rotation by 16 bits, and
/// rotates both operands of the XOR before one by 8 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn by_bytes(register: __m256i, bytes: &'static Bytes) -> __m256i {
    let arranged;
    // SAFETY: the operand in memory is 32 bytes.
    unsafe {
        asm!(
            "vpshufb {arranged}, {register}, ymmword ptr [{bytes}]",
            arranged = lateout(ymm_reg) arranged,
            register = in(ymm_reg) register,
            bytes = in(reg) bytes.0.as_ptr(),
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    arranged
}

/// [`Lanes::xor_blocks`] of eight blocks.
#[inline]
#[target_feature(enable = "avx2")]
fn xor_eight_blocks(words: [Eight; 16], bulks: &mut Bulks<'_>) {
    let [first, second] = halves_of_blocks(words.map(|word| word.0));
    if let Some(blocks) = bulks.next_blocks::<8>() {
        for (block, halves) in blocks.iter_mut().zip(first.into_iter().zip(second)) {
            let (one, other) = block.split_at_mut(32);
            xor_half(one, halves.0);
            xor_half(other, halves.1);
        }
        return;
    }
    for halves in first.into_iter().zip(second) {
        let Some(piece) = bulks.next_piece() else {
            return;
        };
        let (one, other) = piece.split_at_mut(piece.len().min(32));
        xor_half(one, halves.0);
        xor_half(other, halves.1);
    }
}

/// Makes blocks of their words: the first halves of all, and the second halves.
#[inline]
#[target_feature(enable = "avx2")]
fn halves_of_blocks(words: [__m256i; 16]) -> [[__m256i; 8]; 2] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = words;
    let half = |one: [__m256i; 4], other: [__m256i; 4]| {
        let (one, other) = (in_halves(one), in_halves(other));
        [
            _mm256_permute2x128_si256::<0x20>(one[0], other[0]),
            _mm256_permute2x128_si256::<0x20>(one[1], other[1]),
            _mm256_permute2x128_si256::<0x20>(one[2], other[2]),
            _mm256_permute2x128_si256::<0x20>(one[3], other[3]),
            _mm256_permute2x128_si256::<0x31>(one[0], other[0]),
            _mm256_permute2x128_si256::<0x31>(one[1], other[1]),
            _mm256_permute2x128_si256::<0x31>(one[2], other[2]),
            _mm256_permute2x128_si256::<0x31>(one[3], other[3]),
        ]
    };
    [
        half([a, b, c, d], [e, f, g, h]),
        half([i, j, k, l], [m, n, o, p]),
    ]
}

/// XORs half a block to a piece of 0, 16 or 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn xor_half(piece: &mut [u8], stream: __m256i) {
    if let Some(half) = piece.first_chunk_mut::<32>() {
        let at = half.as_mut_ptr().cast();
        // SAFETY: as many bytes.
        unsafe { _mm256_storeu_si256(at, _mm256_xor_si256(_mm256_loadu_si256(at), stream)) };
    } else if let Some(quarter) = piece.first_chunk_mut::<16>() {
        let at = quarter.as_mut_ptr().cast();
        let stream = _mm256_castsi256_si128(stream);
        // SAFETY: as many bytes.
        unsafe { _mm_storeu_si128(at, _mm_xor_si128(_mm_loadu_si128(at), stream)) };
    }
}

/// Words of sixteen blocks.
#[derive(Clone, Copy)]
pub(super) struct Sixteen(__m512i);

impl Lanes for Sixteen {
    type Width = Avx2Avx512;

    const LANES: usize = 16;

    #[inline(always)]
    fn all(_: Avx2Avx512, word: u32) -> Self {
        // SAFETY: the token shows that the CPU has AVX-512.
        Self(unsafe { _mm512_set1_epi32(word.cast_signed()) })
    }

    #[inline(always)]
    fn load(_: Avx2Avx512, words: &[u32; UNITS_MAX]) -> Self {
        // SAFETY: the token shows that the CPU has AVX-512; there are as many words.
        Self(unsafe { _mm512_loadu_si512(words.as_ptr().cast()) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: there is a value only where the CPU has AVX-512.
        Self(unsafe { _mm512_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        const { assert!(LEFT + RIGHT == 32) };
        // SAFETY: as above.
        Self(unsafe { _mm512_rol_epi32::<LEFT>(self.0) })
    }

    #[inline(always)]
    fn select(self, indices: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_permutexvar_epi32(indices.0, self.0) })
    }

    #[inline(always)]
    fn carry(low: &mut Self, high: &mut Self, limit: Self) -> bool {
        // SAFETY: as above.
        unsafe {
            let reached = _mm512_cmpge_epu32_mask(low.0, limit.0);
            low.0 = _mm512_mask_sub_epi32(low.0, reached, low.0, limit.0);
            high.0 = _mm512_mask_add_epi32(high.0, reached, high.0, _mm512_set1_epi32(1));
            reached != 0
        }
    }

    #[inline(always)]
    fn xor_blocks(words: [Self; 16], bulks: &mut Bulks<'_>) {
        // SAFETY: as above.
        unsafe { xor_sixteen_blocks(words, bulks) }
    }
}

/// [`Lanes::xor_blocks`] of sixteen blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn xor_sixteen_blocks(words: [Sixteen; 16], bulks: &mut Bulks<'_>) {
    let streams = blocks(words.map(|word| word.0));
    if let Some(blocks) = bulks.next_blocks::<16>() {
        for (block, stream) in blocks.iter_mut().zip(streams) {
            xor_block(block, stream);
        }
        return;
    }
    for stream in streams {
        let Some(piece) = bulks.next_piece() else {
            return;
        };
        xor_block(piece, stream);
    }
}

/// Makes blocks of their words.
#[inline]
#[target_feature(enable = "avx512f")]
fn blocks(words: [__m512i; 16]) -> [__m512i; 16] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = words;
    // In each, a quarter of the blocks 0, 4, 8 and 12, 1, 5, 9 and 13, and so on.
    let [a, b, c, d] = in_quarters([a, b, c, d]);
    let [e, f, g, h] = in_quarters([e, f, g, h]);
    let [i, j, k, l] = in_quarters([i, j, k, l]);
    let [m, n, o, p] = in_quarters([m, n, o, p]);
    let [a, b, c, d] = [
        quarters([a, e, i, m]),
        quarters([b, f, j, n]),
        quarters([c, g, k, o]),
        quarters([d, h, l, p]),
    ];
    [
        a[0], b[0], c[0], d[0], a[1], b[1], c[1], d[1], a[2], b[2], c[2], d[2], a[3], b[3], c[3],
        d[3],
    ]
}

/// Exchanges rows and columns of four quarters by four.
#[inline]
#[target_feature(enable = "avx512f")]
fn quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let low = [
        _mm512_shuffle_i32x4::<0b01_00_01_00>(a, b),
        _mm512_shuffle_i32x4::<0b01_00_01_00>(c, d),
    ];
    let high = [
        _mm512_shuffle_i32x4::<0b11_10_11_10>(a, b),
        _mm512_shuffle_i32x4::<0b11_10_11_10>(c, d),
    ];
    [
        _mm512_shuffle_i32x4::<0b10_00_10_00>(low[0], low[1]),
        _mm512_shuffle_i32x4::<0b11_01_11_01>(low[0], low[1]),
        _mm512_shuffle_i32x4::<0b10_00_10_00>(high[0], high[1]),
        _mm512_shuffle_i32x4::<0b11_01_11_01>(high[0], high[1]),
    ]
}

/// XORs a block to a piece of whole words.
#[inline]
#[target_feature(enable = "avx512f")]
fn xor_block(piece: &mut [u8], stream: __m512i) {
    if let Some(block) = piece.first_chunk_mut::<64>() {
        let at = block.as_mut_ptr().cast();
        // SAFETY: as many bytes.
        unsafe { _mm512_storeu_si512(at, _mm512_xor_si512(_mm512_loadu_si512(at), stream)) };
    } else {
        let mask = (1 << (piece.len() / 4)) - 1;
        let at = piece.as_mut_ptr().cast::<i32>();
        // SAFETY: the mask leaves out what is beyond the piece.
        unsafe {
            let data = _mm512_maskz_loadu_epi32(mask, at.cast_const());
            _mm512_mask_storeu_epi32(at, mask, _mm512_xor_si512(data, stream));
        }
    }
}
