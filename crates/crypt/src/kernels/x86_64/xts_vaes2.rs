//! AES-XTS with VAES on 256-bit registers.
//!
//! | | |
//! |---|---|
//! | for | CPUs with VAES but without AVX-512: Zen 3, Alder Lake and later |
//! | width | 8 registers of 2 blocks in flight, for a latency of up to 4 cycles at 2 VAESENC a cycle |
//! | registers | 8 of data, 1 round key, the rest for tweak arithmetic; tweaks rest in L1 |
//! | bound | at two VAESENC of 32 bytes a cycle 0.219 cycles a byte for AES-256, 0.156 for AES-128 |
//! | constant time | yes |
//! | why | twice as much an instruction as AES-NI |
//!
//! Of three vector ports two have an AES unit. What is not an AES round has the third one for itself,
//! and takes time from the others when it is too much for it, or comes in a lump:
//!
//! - *The tweaks of blocks* follow from those 16 blocks before by multiplication by α¹⁶ in GF(2¹²⁸),
//!   a shift by bytes and a carry-less product. Each of the first 8 rounds of a group makes one of
//!   the 8 registers of tweaks of the next.
//! - *The tweaks of data units* are encryptions of their own, whose rounds wait for each other.
//!   Those of four units are encrypted together, as soon as the last of the four before is taken,
//!   and are done before they are needed; also between two calls (see [`super::ahead`]).

use core::arch::x86_64::*;
use core::mem;

use super::ahead::{Ahead, BATCH};
use super::cpu::Vaes2;
use super::cursor::Cursor;
use super::mode::kernel;
use super::opaque::{opaque, opaque_mut};
use super::vaes2::{
    GROUP, Group, Schedule, WIDTH, in_step, last_round, load, one_round, round, store, words,
};
use super::wide::Wide;
use super::xts::{InPairs, Keys, NextIvs, WideXts, Xts, in_pairs, xts_in_pairs};
use crate::kernels::descriptor::Kernel;
use crate::spec::Algorithm;

pub(crate) const XTS_VAES2: Kernel = kernel::<Xts, Vaes2>(Algorithm::AesXts, "xts-aes-vaes2");

// The functions below need `vaes`, `vpclmulqdq` and `avx2`, which `Vaes2` proves.
xts_in_pairs!(Vaes2, __m256i);

#[inline]
#[target_feature(enable = "avx2")]
fn in_all_lanes(tweak: __m128i) -> __m256i {
    _mm256_broadcastsi128_si256(tweak)
}

/// The tweak of the block a group further on.
#[inline]
#[target_feature(enable = "vpclmulqdq,avx2")]
fn next_group(first: __m256i) -> __m256i {
    times_alpha_bytes::<2, 14>(first)
}

/// Encrypts IVs, side by side.
#[inline]
#[target_feature(enable = "vaes,avx2")]
fn encrypt_ivs<const ROUNDS: usize>(keys: &Schedule, ivs: [__m128i; BATCH]) -> [__m128i; BATCH] {
    let [a, b, c, d] = ivs;
    let mut tweaks = [_mm256_set_m128i(b, a), _mm256_set_m128i(d, c)];
    tweaks = tweaks.map(|two| _mm256_xor_si256(two, keys[0]));
    for key in &keys[1..ROUNDS] {
        tweaks = tweaks.map(|two| one_round::<true>(two, *key));
    }
    tweaks = tweaks.map(|two| last_round::<true>(two, keys[ROUNDS]));
    // SAFETY: twice 256 bits either way.
    unsafe { mem::transmute::<[__m256i; 2], [__m128i; BATCH]>(tweaks) }
}

/// Transforms 16 blocks with `tweaks`, and writes those of the next 16 to `next`: of the same data
/// unit or, at the `END` of it, of the next, whose tweak is in both lanes of `following`.
///
/// # Safety
/// It is inlined into a function with the features that it needs, on a CPU that has them.
/// 16 blocks can be read and written `at`.
#[inline(always)]
unsafe fn group<const ROUNDS: usize, const ENCRYPT: bool, const END: bool>(
    keys: &Schedule,
    tweaks: &mut Group,
    next: &mut Group,
    following: __m256i,
    at: Cursor,
) {
    // SAFETY: the caller promises the features, and what is read and written.
    unsafe {
        let (keys, tweaks, next) = (opaque(keys), opaque_mut(tweaks), opaque_mut(next));
        let mut data = begin::<true>(keys, tweaks, at, GROUP / 16);
        // Spelt out: as a loop it would not be unrolled.
        macro_rules! round_and_tweaks {
        ($($index:literal)*) => {
            $(
                round::<ENCRYPT>(&mut data, keys[1 + $index]);
                next[$index] = if !END {
                    times_alpha_bytes::<2, 14>(tweaks[$index])
                } else if $index < 4 {
                    powers(following, $index)
                } else {
                    times_alpha_bytes::<1, 15>(next[$index % 4])
                };
            )*
        };
    }
        round_and_tweaks!(0 1 2 3 4 5 6 7);
        for key in &keys[9..ROUNDS] {
            round::<ENCRYPT>(&mut data, *key);
        }
        end::<ROUNDS, ENCRYPT, true>(keys, data, tweaks, at, GROUP / 16);
    }
}

/// Transforms the first `blocks` of 16 blocks; the tweak of the first is in both lanes of `first`.
/// `tweaks` is room for all.
///
/// # Safety
/// So many blocks can be read and written `at`.
#[inline]
#[target_feature(enable = "vaes,vpclmulqdq,avx2")]
unsafe fn part<const ROUNDS: usize, const ENCRYPT: bool>(
    keys: &Schedule,
    tweaks: &mut Group,
    first: __m256i,
    at: Cursor,
    blocks: usize,
) {
    *tweaks = first_tweaks(first);
    let (keys, tweaks) = (opaque(keys), opaque_mut(tweaks));
    // SAFETY: the caller promises the blocks.
    unsafe {
        let mut data = begin::<false>(keys, tweaks, at, blocks);
        for key in &keys[1..ROUNDS] {
            round::<ENCRYPT>(&mut data, *key);
        }
        end::<ROUNDS, ENCRYPT, false>(keys, data, tweaks, at, blocks);
    }
}

/// Loads blocks, 16 when they are `WHOLE`, and adds tweaks and the first key.
///
/// # Safety
/// They can be read `at`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn begin<const WHOLE: bool>(
    keys: &Schedule,
    tweaks: &Group,
    at: Cursor,
    blocks: usize,
) -> Group {
    let mut data = [Vaes2::ZERO; WIDTH];
    for (index, two) in data.iter_mut().enumerate() {
        // SAFETY: the caller promises the blocks.
        let input =
            unsafe { load::<WHOLE>(at.source.wrapping_add(32 * index), words(index, blocks)) };
        *two = _mm256_xor_si256(_mm256_xor_si256(input, keys[0]), tweaks[index]);
    }
    data
}

/// The last round; adds tweaks again, and stores.
///
/// # Safety
/// The blocks, 16 when they are `WHOLE`, can be written `at`.
#[inline]
#[target_feature(enable = "vaes,avx2")]
unsafe fn end<const ROUNDS: usize, const ENCRYPT: bool, const WHOLE: bool>(
    keys: &Schedule,
    mut data: Group,
    tweaks: &Group,
    at: Cursor,
    blocks: usize,
) {
    in_step(&mut data);
    for (index, two) in data.iter().enumerate() {
        let key = _mm256_xor_si256(keys[ROUNDS], tweaks[index]);
        let output = last_round::<ENCRYPT>(*two, key);
        let to = at.destination.wrapping_add(32 * index);
        // SAFETY: the caller promises the blocks.
        unsafe { store::<WHOLE>(to, words(index, blocks), output) };
    }
}

/// The tweaks of the first group of a data unit: `tweak`, which is in both lanes, times α⁰ to α¹⁵.
#[inline]
#[target_feature(enable = "vpclmulqdq,avx2")]
fn first_tweaks(tweak: __m256i) -> Group {
    let [a, b, c, d] = [0, 1, 2, 3].map(|index| powers(tweak, index));
    let [e, f, g, h] = [a, b, c, d].map(|two| times_alpha_bytes::<1, 15>(two));
    [a, b, c, d, e, f, g, h]
}

/// `tweak`, which is in both lanes, times α to the power of 2 × `index` and of one more. `index` is
/// less than 32.
#[inline]
#[target_feature(enable = "vpclmulqdq,avx2")]
fn powers(tweak: __m256i, index: usize) -> __m256i {
    let factors = _mm256_set_epi64x(0, 2 << (2 * index), 0, 1 << (2 * index));
    let low = _mm256_clmulepi64_epi128::<0x00>(tweak, factors);
    let high = _mm256_clmulepi64_epi128::<0x01>(tweak, factors);
    let carries = _mm256_clmulepi64_epi128::<0x01>(high, reduction());
    let high = _mm256_bslli_epi128::<8>(high);
    _mm256_xor_si256(_mm256_xor_si256(low, high), carries)
}

/// `tweaks` times α to the power of 8 × `BYTES`: shifted left by as many bytes, with the product of
/// what falls out. `REST` is 16 - `BYTES`.
#[inline]
#[target_feature(enable = "vpclmulqdq,avx2")]
fn times_alpha_bytes<const BYTES: i32, const REST: i32>(tweaks: __m256i) -> __m256i {
    let out = _mm256_bsrli_epi128::<REST>(tweaks);
    let carries = _mm256_clmulepi64_epi128::<0x00>(out, reduction());
    _mm256_xor_si256(_mm256_bslli_epi128::<BYTES>(tweaks), carries)
}

/// α¹²⁸ in GF(2¹²⁸) (IEEE Std 1619, 5.2).
#[inline]
#[target_feature(enable = "avx2")]
fn reduction() -> __m256i {
    _mm256_set_epi64x(0, 0x87, 0, 0x87)
}
