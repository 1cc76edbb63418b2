//! AES-GCM with VAES and VPCLMULQDQ on 512-bit registers.
//!
//! | | |
//! |---|---|
//! | for | Ice Lake and Sapphire Rapids, Zen 4, and later |
//! | width | 8 registers of 4 blocks in flight: 512 bytes, hashed by one reduction |
//! | registers | 8 of key stream and 8 of the next, 3 sums of products, 1 round key, the first counter, orders of bytes |
//! | bound | Golden Cove: of two ports, one computes the rounds, 0.207 cycles a byte for AES-256; for AES-128 both are full, 0.161 |
//! | constant time | yes |
//! | why | carry-less products go to another port than AES rounds, so that the hash costs hardly anything |
//!
//! See [`super::gcm`] for what is done; here is how registers multiply.

use core::arch::x86_64::*;

use super::cpu::Vaes512;
use super::gcm::kernel;
use super::gcm_aesni::number;
use super::gcm_width::{Factors, Products, WideGcm, gcm_by_functions, held};
use super::vaes512::{Group, xor3};
use crate::kernels::gcm::Gcm;

pub(crate) const GCM_VAES512: Gcm = kernel::<Vaes512>("gcm-aes-vaes512");

gcm_by_functions!(Vaes512, __m512i, true);

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn reversed(blocks: __m512i) -> __m512i {
    let order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm512_shuffle_epi8(blocks, _mm512_broadcast_i32x4(order))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn reversed_but_one(blocks: __m512i) -> __m512i {
    let order = _mm_set_epi8(-1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm512_shuffle_epi8(blocks, _mm512_broadcast_i32x4(order))
}

/// # Safety
/// Four can be read there.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn first_columns(columns: *const u32) -> __m512i {
    // SAFETY: the caller promises the columns.
    let columns = unsafe { _mm_loadu_si128(columns.cast()) };
    let order = _mm512_set_epi32(0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0);
    let columns = _mm512_broadcast_i32x4(columns);
    _mm512_maskz_permutexvar_epi32(0x1111, order, columns)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn plus(one: __m512i, other: __m512i) -> __m512i {
    _mm512_add_epi64(one, other)
}

/// Two products are added to a sum by one instruction, so of one register only those crosswise are.
#[inline]
#[target_feature(enable = "vpclmulqdq,avx512f")]
fn add_products(sum: &mut Products<Vaes512>, factors: &[Factors<Vaes512>]) {
    let (pairs, rest) = factors.as_chunks::<2>();
    for [one, other] in pairs {
        let (products, others) = (products(one), products(other));
        sum.low = xor3(sum.low, products[0], others[0]);
        sum.middle = xor3(sum.middle, products[1], products[2]);
        sum.middle = xor3(sum.middle, others[1], others[2]);
        sum.high = xor3(sum.high, products[3], others[3]);
    }
    for factors in rest {
        let [low, one, other, high] = products(factors);
        sum.low = _mm512_xor_si512(sum.low, low);
        sum.middle = xor3(sum.middle, one, other);
        sum.high = _mm512_xor_si512(sum.high, high);
    }
}

/// Of the lower halves, of both crosswise, and of the upper halves. Karatsuba's method would save one product, which costs
/// no more than the two instructions that it takes.
#[inline]
#[target_feature(enable = "vpclmulqdq,avx512f")]
fn products(factors: &Factors<Vaes512>) -> [__m512i; 4] {
    let (blocks, powers) = (factors.blocks, factors.powers);
    [
        _mm512_clmulepi64_epi128::<0x00>(blocks, powers),
        _mm512_clmulepi64_epi128::<0x01>(blocks, powers),
        _mm512_clmulepi64_epi128::<0x10>(blocks, powers),
        _mm512_clmulepi64_epi128::<0x11>(blocks, powers),
    ]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn hold(group: &mut Group, sum: &mut Products<Vaes512>, next: &mut Group) {
    let [a, b, c, d, e, f, g, h] = group;
    let [i, j, k, l, m, n, o, p] = next;
    #[rustfmt::skip]
    held!(
        zmm_reg,
        a = *a, b = *b, c = *c, d = *d, e = *e, f = *f, g = *g, h = *h,
        low = sum.low, middle = sum.middle, high = sum.high,
        i = *i, j = *j, k = *k, l = *l, m = *m, n = *n, o = *o, p = *p
    );
}

/// [`gcm_aesni::reduced`](super::gcm_aesni), in each lane.
#[inline]
#[target_feature(enable = "vpclmulqdq,avx512f")]
fn reduced(sum: &Products<Vaes512>) -> __m512i {
    let fold = _mm512_broadcast_i32x4(_mm_set_epi64x(0, 0xc2 << 56));
    let product = _mm512_clmulepi64_epi128::<0x00>(sum.low, fold);
    let middle = xor3(sum.middle, _mm512_shuffle_epi32::<0x4e>(sum.low), product);
    let product = _mm512_clmulepi64_epi128::<0x00>(middle, fold);
    xor3(sum.high, _mm512_shuffle_epi32::<0x4e>(middle), product)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sum_of_lanes(lanes: __m512i) -> __m512i {
    let halves = _mm256_xor_si256(
        _mm512_castsi512_si256(lanes),
        _mm512_extracti64x4_epi64::<1>(lanes),
    );
    let upper = _mm256_extracti128_si256::<1>(halves);
    _mm512_zextsi128_si512(_mm_xor_si128(_mm256_castsi256_si128(halves), upper))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn first_lane(blocks: __m512i) -> u128 {
    number(_mm512_castsi512_si128(blocks))
}
