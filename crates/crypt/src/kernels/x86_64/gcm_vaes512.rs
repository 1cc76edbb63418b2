//! AES-GCM with VAES and VPCLMULQDQ on 512-bit registers.
//!
//! | | |
//! |---|---|
//! | for | Ice Lake and Sapphire Rapids, Zen 4, and later |
//! | width | 8 registers of 4 blocks in flight: 512 bytes, hashed by one reduction |
//! | registers | 8 of key stream, 3 sums of products, 1 round key, the first counter and the order of its bytes |
//! | bound | at a VAESENC of 64 bytes a cycle 0.219 cycles a byte for AES-256, 0.156 for AES-128 |
//! | constant time | yes |
//! | why | carry-less products go to another port than AES rounds, so that the hash costs hardly anything |
//!
//! See [`super::gcm`] for what is done; here is how registers multiply.

use core::arch::x86_64::*;

use super::cpu::Vaes512;
use super::gcm::{Factors, Products, WideGcm, kernel};
use super::gcm_aesni::reduced_lane;
use super::vaes512::xor3;
use crate::kernels::gcm::Gcm;

pub(crate) const GCM_VAES512: Gcm = kernel::<Vaes512>("gcm-aes-vaes512");

// SAFETY: the token is only given out where the CPU has all features that the methods use.
unsafe impl WideGcm for Vaes512 {
    #[inline(always)]
    fn reversed(self, blocks: __m512i) -> __m512i {
        // SAFETY: the token shows that the CPU has the features, here and below.
        unsafe { reversed(blocks) }
    }

    #[inline(always)]
    fn add_products(self, sum: &mut Products<Self>, factors: Factors<Self>) {
        // SAFETY: as above.
        unsafe { add_products(sum, &factors) }
    }

    #[inline(always)]
    fn add_products_of_two(self, sum: &mut Products<Self>, [one, other]: [Factors<Self>; 2]) {
        // SAFETY: as above.
        unsafe { add_products_of_two(sum, &one, &other) }
    }

    #[inline(always)]
    fn reduced(self, sum: Products<Self>) -> __m512i {
        // SAFETY: as above.
        unsafe { reduced(&sum) }
    }

    #[inline(always)]
    fn first_lane(self, blocks: __m512i) -> u128 {
        // SAFETY: as above.
        unsafe { super::gcm_aesni::number(_mm512_castsi512_si128(blocks)) }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn reversed(blocks: __m512i) -> __m512i {
    let order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm512_shuffle_epi8(blocks, _mm512_broadcast_i32x4(order))
}

#[inline]
#[target_feature(enable = "vpclmulqdq,avx512f")]
fn add_products(sum: &mut Products<Vaes512>, factors: &Factors<Vaes512>) {
    let [low, middle, high] = products(factors);
    sum.low = _mm512_xor_si512(sum.low, low);
    sum.middle = _mm512_xor_si512(sum.middle, middle);
    sum.high = _mm512_xor_si512(sum.high, high);
}

#[inline]
#[target_feature(enable = "vpclmulqdq,avx512f")]
fn add_products_of_two(
    sum: &mut Products<Vaes512>,
    one: &Factors<Vaes512>,
    other: &Factors<Vaes512>,
) {
    let ([low, middle, high], others) = (products(one), products(other));
    sum.low = xor3(sum.low, low, others[0]);
    sum.middle = xor3(sum.middle, middle, others[1]);
    sum.high = xor3(sum.high, high, others[2]);
}

#[inline]
#[target_feature(enable = "vpclmulqdq,avx512f")]
fn products(factors: &Factors<Vaes512>) -> [__m512i; 3] {
    let blocks = factors.blocks;
    [
        _mm512_clmulepi64_epi128::<0x00>(blocks, factors.powers),
        _mm512_clmulepi64_epi128::<0x00>(folded(blocks), factors.folded),
        _mm512_clmulepi64_epi128::<0x11>(blocks, factors.powers),
    ]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn folded(blocks: __m512i) -> __m512i {
    _mm512_xor_si512(blocks, _mm512_shuffle_epi32::<0x4e>(blocks))
}

#[inline]
#[target_feature(enable = "vpclmulqdq,avx512f")]
fn reduced(sum: &Products<Vaes512>) -> __m512i {
    let block = reduced_lane(
        sum_of_lanes(sum.low),
        sum_of_lanes(sum.middle),
        sum_of_lanes(sum.high),
    );
    _mm512_zextsi128_si512(block)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sum_of_lanes(register: __m512i) -> __m128i {
    let halves = _mm256_xor_si256(
        _mm512_castsi512_si256(register),
        _mm512_extracti64x4_epi64::<1>(register),
    );
    _mm_xor_si128(
        _mm256_castsi256_si128(halves),
        _mm256_extracti128_si256::<1>(halves),
    )
}
