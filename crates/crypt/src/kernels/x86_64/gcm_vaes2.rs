//! AES-GCM with VAES and VPCLMULQDQ on 256-bit registers.
//!
//! | | |
//! |---|---|
//! | for | Zen 3, and Intel's processors without AVX-512 |
//! | width | 8 registers of 2 blocks in flight: 256 bytes, hashed by one reduction |
//! | registers | 8 of key stream, 3 sums of products, 1 round key |
//! | bound | Zen 3: 0.325 cycles a byte for the rounds of AES-128 and four products a block |
//! | constant time | yes |
//! | why | for CPUs with VAES but without AVX-512 |
//!
//! See [`super::gcm`] for what is done; here is how registers multiply.

use core::arch::x86_64::*;

use super::cpu::Vaes2;
use super::gcm::{Factors, Products, WideGcm, kernel};
use super::gcm_aesni::reduced_lane;
use crate::kernels::gcm::Gcm;

pub(crate) const GCM_VAES2: Gcm = kernel::<Vaes2>("gcm-aes-vaes2");

// SAFETY: the token is only given out where the CPU has all features that the methods use.
unsafe impl WideGcm for Vaes2 {
    #[inline(always)]
    fn reversed(self, blocks: __m256i) -> __m256i {
        // SAFETY: the token shows that the CPU has the features, here and below.
        unsafe { reversed(blocks) }
    }

    #[inline(always)]
    fn add_products(self, sum: &mut Products<Self>, factors: Factors<Self>) {
        // SAFETY: as above.
        unsafe { add_products(sum, &factors) }
    }

    #[inline(always)]
    fn reduced(self, sum: Products<Self>) -> __m256i {
        // SAFETY: as above.
        unsafe { reduced(&sum) }
    }

    #[inline(always)]
    fn first_lane(self, blocks: __m256i) -> u128 {
        // SAFETY: as above.
        unsafe { super::gcm_aesni::number(_mm256_castsi256_si128(blocks)) }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn reversed(blocks: __m256i) -> __m256i {
    let order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm256_shuffle_epi8(blocks, _mm256_broadcastsi128_si256(order))
}

#[inline]
#[target_feature(enable = "vpclmulqdq,avx2")]
fn add_products(sum: &mut Products<Vaes2>, factors: &Factors<Vaes2>) {
    let [low, middle, high] = products(factors);
    sum.low = _mm256_xor_si256(sum.low, low);
    sum.middle = _mm256_xor_si256(sum.middle, middle);
    sum.high = _mm256_xor_si256(sum.high, high);
}

#[inline]
#[target_feature(enable = "vpclmulqdq,avx2")]
fn products(factors: &Factors<Vaes2>) -> [__m256i; 3] {
    let blocks = factors.blocks;
    [
        _mm256_clmulepi64_epi128::<0x00>(blocks, factors.powers),
        _mm256_clmulepi64_epi128::<0x00>(folded(blocks), factors.folded),
        _mm256_clmulepi64_epi128::<0x11>(blocks, factors.powers),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn folded(blocks: __m256i) -> __m256i {
    _mm256_xor_si256(blocks, _mm256_shuffle_epi32::<0x4e>(blocks))
}

#[inline]
#[target_feature(enable = "vpclmulqdq,avx2")]
fn reduced(sum: &Products<Vaes2>) -> __m256i {
    let block = reduced_lane(
        sum_of_lanes(sum.low),
        sum_of_lanes(sum.middle),
        sum_of_lanes(sum.high),
    );
    _mm256_zextsi128_si256(block)
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum_of_lanes(register: __m256i) -> __m128i {
    _mm_xor_si128(
        _mm256_castsi256_si128(register),
        _mm256_extracti128_si256::<1>(register),
    )
}
