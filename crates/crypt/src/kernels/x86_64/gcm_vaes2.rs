//! AES-GCM with VAES and VPCLMULQDQ on 256-bit registers.
//!
//! | | |
//! |---|---|
//! | for | Zen 3, and Intel's processors without AVX-512 |
//! | width | 8 registers of 2 blocks in flight: 256 bytes, hashed by one reduction |
//! | registers | 8 of key stream, 3 sums of products, 1 round key |
//! | bound | Zen 3: two pipes take the rounds and three products a block: 0.28 cycles a byte for AES-128 |
//! | constant time | yes |
//! | why | for CPUs with VAES but without AVX-512 |
//!
//! See [`super::gcm`] for what is done; here is how registers multiply.

use core::arch::x86_64::*;

use super::cpu::Vaes2;
use super::gcm::kernel;
use super::gcm_aesni::number;
use super::gcm_width::{Factors, Products, WideGcm, gcm_by_functions, held};
use super::vaes2::Group;
use crate::kernels::gcm::Gcm;

pub(crate) const GCM_VAES2: Gcm = kernel::<Vaes2>("gcm-aes-vaes2");

gcm_by_functions!(Vaes2, __m256i, false);

#[inline]
#[target_feature(enable = "avx2")]
fn reversed(blocks: __m256i) -> __m256i {
    let order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm256_shuffle_epi8(blocks, _mm256_broadcastsi128_si256(order))
}

#[inline]
#[target_feature(enable = "avx2")]
fn reversed_but_one(blocks: __m256i) -> __m256i {
    let order = _mm_set_epi8(-1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm256_shuffle_epi8(blocks, _mm256_broadcastsi128_si256(order))
}

/// # Safety
/// Two can be read there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn first_columns(columns: *const u32) -> __m256i {
    // SAFETY: the caller promises the columns.
    let columns = unsafe { columns.cast::<i64>().read_unaligned() };
    let [one, other, none] = [0x0302_0100, 0x0706_0504, -1];
    let order = _mm256_set_epi32(none, none, none, other, none, none, none, one);
    _mm256_shuffle_epi8(_mm256_set1_epi64x(columns), order)
}

#[inline]
#[target_feature(enable = "avx2")]
fn plus(one: __m256i, other: __m256i) -> __m256i {
    _mm256_add_epi64(one, other)
}

#[inline]
#[target_feature(enable = "vpclmulqdq,avx2")]
fn add_products(sum: &mut Products<Vaes2>, factors: &[Factors<Vaes2>]) {
    for factors in factors {
        let [low, middle, high] = products(factors);
        sum.low = _mm256_xor_si256(sum.low, low);
        sum.middle = _mm256_xor_si256(sum.middle, middle);
        sum.high = _mm256_xor_si256(sum.high, high);
    }
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
#[target_feature(enable = "avx2")]
fn hold(group: &mut Group, sum: &mut Products<Vaes2>, _next: &mut Group) {
    let [a, b, c, d, e, f, g, h] = group;
    #[rustfmt::skip]
    held!(
        ymm_reg,
        a = *a, b = *b, c = *c, d = *d, e = *e, f = *f, g = *g, h = *h,
        low = sum.low, middle = sum.middle, high = sum.high
    );
}

/// [`gcm_aesni::reduced`](super::gcm_aesni), in each lane.
#[inline]
#[target_feature(enable = "vpclmulqdq,avx2")]
fn reduced(sum: &Products<Vaes2>) -> __m256i {
    let fold = _mm256_broadcastsi128_si256(_mm_set_epi64x(0, 0xc2 << 56));
    let product = _mm256_clmulepi64_epi128::<0x00>(sum.low, fold);
    let mut middle = _mm256_xor_si256(sum.middle, _mm256_xor_si256(sum.low, sum.high));
    middle = _mm256_xor_si256(middle, _mm256_shuffle_epi32::<0x4e>(sum.low));
    middle = _mm256_xor_si256(middle, product);
    let product = _mm256_clmulepi64_epi128::<0x00>(middle, fold);
    let high = _mm256_xor_si256(sum.high, _mm256_shuffle_epi32::<0x4e>(middle));
    _mm256_xor_si256(high, product)
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum_of_lanes(lanes: __m256i) -> __m256i {
    let upper = _mm256_extracti128_si256::<1>(lanes);
    _mm256_zextsi128_si256(_mm_xor_si128(_mm256_castsi256_si128(lanes), upper))
}

#[inline]
#[target_feature(enable = "avx2")]
fn first_lane(blocks: __m256i) -> u128 {
    number(_mm256_castsi256_si128(blocks))
}
