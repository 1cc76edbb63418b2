//! AES-XTS with AES-NI.
//!
//! | | |
//! |---|---|
//! | for | every x86-64 with AES-NI and PCLMULQDQ, from Westmere and Goldmont on; no AVX needed |
//! | width | 8 blocks of 128 bits in flight, for a latency of up to 4 cycles at 2 AESENC a cycle |
//! | registers | 8 of data, 1 round key, the rest for tweak arithmetic; tweaks rest in L1 |
//! | bound | at 2 AESENC a cycle 0.4375 cycles a byte for AES-256, 0.3125 for AES-128 |
//! | constant time | yes |
//! | why | the kernel for CPUs with AES-NI but without VAES |
//!
//! Besides the rounds of the data there are two costs:
//!
//! - *The tweaks of data units* are encryptions of their own, whose rounds wait for each other. Those
//!   of 4 units are encrypted together, as soon as the last of the 4 before is taken, and are done
//!   before they are needed; also between two calls (see [`super::ahead`]).
//! - *The tweaks of blocks* follow from them by multiplication in GF(2¹²⁸). Vector arithmetic
//!   competes with AESENC for ports, the more so in a lump between two groups of blocks. So the
//!   multiplication is by α⁸, a byte shift and a carry-less product, which work on another port,
//!   and each of the first 8 rounds of a group makes one of the 8 tweaks of the next.

use core::arch::x86_64::*;

use super::aesni::{Schedule, load, store};
use super::ahead::{Ahead, BATCH};
use super::cpu::AesNi;
use super::cursor::Cursor;
use super::lanes::{
    GROUP as WIDTH, Group, all_rounds, in_groups, in_step, last_round, round, zero,
};
use super::mode::kernel;
use super::opaque::{opaque, opaque_mut};
use super::wide::Wide;
use super::xts::{InPairs, Keys, NextIvs, WideXts, Xts, in_pairs, xts_in_pairs};
use crate::kernels::descriptor::Kernel;
use crate::spec::Algorithm;

pub(crate) const XTS_AESNI: Kernel = kernel::<Xts, AesNi>(Algorithm::AesXts, "xts-aes-aesni");

/// Bytes of a group.
const GROUP: usize = size_of::<Group>();

// The functions below need `aes`, `pclmulqdq` and `sse2`: `AesNi` proves the first two, and every x86-64 has SSE2.
xts_in_pairs!(AesNi, __m128i);

#[inline]
#[target_feature(enable = "sse2")]
fn in_all_lanes(tweak: __m128i) -> __m128i {
    tweak
}

/// The tweak of the block a group further on.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn next_group(first: __m128i) -> __m128i {
    times_alpha_8(first)
}

/// Encrypts IVs, side by side.
#[inline]
#[target_feature(enable = "aes")]
fn encrypt_ivs<const ROUNDS: usize>(keys: &Schedule, ivs: [__m128i; BATCH]) -> [__m128i; BATCH] {
    let [a, b, c, d] = ivs;
    let mut tweaks = [a, b, c, d, zero(), zero(), zero(), zero()];
    all_rounds::<ROUNDS, true, BATCH>(keys, &mut tweaks);
    let [a, b, c, d, ..] = tweaks;
    [a, b, c, d]
}

/// Transforms 8 blocks with `tweaks`, and writes those of the next 8 to `next`: of the same data unit
/// or, at the `END` of it, of the next, whose tweak is `following`.
///
/// # Safety
/// It is inlined into a function with the features that it needs, on a CPU that has them.
/// 8 blocks can be read and written `at`.
#[inline(always)]
unsafe fn group<const ROUNDS: usize, const ENCRYPT: bool, const END: bool>(
    keys: &Schedule,
    tweaks: &mut Group,
    next: &mut Group,
    mut following: __m128i,
    at: Cursor,
) {
    // SAFETY: the caller promises the features, and what is read and written.
    unsafe {
        let (keys, tweaks, next) = (opaque(keys), opaque_mut(tweaks), opaque_mut(next));
        let reduction = opaque(&REDUCTION);
        let mut data = [zero(); WIDTH];
        for (index, block) in data.iter_mut().enumerate() {
            let input = load(at.source, index);
            *block = _mm_xor_si128(_mm_xor_si128(input, keys[0]), tweaks[index]);
        }
        // Spelt out: as a loop it would not be unrolled.
        macro_rules! round_and_tweak {
        ($($index:literal)*) => {
            $(
                round::<ENCRYPT, WIDTH>(&mut data, keys[1 + $index]);
                if END {
                    next[$index] = following;
                    following = times_alpha(following);
                } else {
                    next[$index] = times_alpha_8_by(tweaks[$index], *reduction);
                }
            )*
        };
    }
        round_and_tweak!(0 1 2 3 4 5 6 7);
        for key in &keys[1 + WIDTH..ROUNDS] {
            round::<ENCRYPT, WIDTH>(&mut data, *key);
        }
        in_step(&mut data);
        for (index, block) in data.iter().enumerate() {
            let output = _mm_xor_si128(last_round::<ENCRYPT>(*block, keys[ROUNDS]), tweaks[index]);
            store(at.destination, index, output);
        }
    }
}

/// Transforms the first `blocks` of 8 blocks; the tweak of the first is `first`. `tweaks` is room for
/// all.
///
/// # Safety
/// `blocks` blocks can be read and written `at`.
#[inline]
#[target_feature(enable = "aes,pclmulqdq")]
unsafe fn part<const ROUNDS: usize, const ENCRYPT: bool>(
    keys: &Schedule,
    tweaks: &mut Group,
    first: __m128i,
    at: Cursor,
    blocks: usize,
) {
    *tweaks = first_tweaks(first);
    let tweaks = opaque_mut(tweaks);
    in_groups!(blocks, index, LANES => {
        let mut data = [zero(); WIDTH];
        // The remainders are the numbers themselves, and spare the checks.
        for (lane, block) in data[..LANES].iter_mut().enumerate() {
            // SAFETY: the caller promises the blocks.
            let input = unsafe { load(at.source, index + lane) };
            *block = _mm_xor_si128(input, tweaks[(index + lane) % WIDTH]);
        }
        all_rounds::<ROUNDS, ENCRYPT, LANES>(opaque(keys), &mut data);
        for (lane, block) in data[..LANES].iter().enumerate() {
            let output = _mm_xor_si128(*block, tweaks[(index + lane) % WIDTH]);
            // SAFETY: as for the loads.
            unsafe { store(at.destination, index + lane, output) };
        }
    });
}

/// `tweak` times α⁰ to α⁷.
#[inline]
#[target_feature(enable = "sse2")]
fn first_tweaks(mut tweak: __m128i) -> Group {
    let mut powers = [tweak; WIDTH];
    for power in &mut powers[1..] {
        tweak = times_alpha(tweak);
        *power = tweak;
    }
    powers
}

/// `tweak` times α: shifted left by one bit, with α¹²⁸ added for a bit that falls out.
#[inline]
#[target_feature(enable = "sse2")]
fn times_alpha(tweak: __m128i) -> __m128i {
    // The top bits of both halves, as masks where they are carried to: bit 127 to the low half,
    // bit 63 to the high one.
    let carries = _mm_srai_epi32::<31>(_mm_shuffle_epi32::<0b00_01_00_11>(tweak));
    let carries = _mm_and_si128(carries, _mm_set_epi64x(1, ALPHA_128.cast_signed()));
    _mm_xor_si128(_mm_add_epi64(tweak, tweak), carries)
}

/// `tweak` times α⁸: shifted left by one byte, with the product of what falls out.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn times_alpha_8(tweak: __m128i) -> __m128i {
    times_alpha_8_by(tweak, REDUCTION)
}

/// The same with [`REDUCTION`], wherever it is.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn times_alpha_8_by(tweak: __m128i, reduction: __m128i) -> __m128i {
    let carries = _mm_clmulepi64_si128::<0>(_mm_srli_si128::<15>(tweak), reduction);
    _mm_xor_si128(_mm_slli_si128::<1>(tweak), carries)
}

/// α¹²⁸ in GF(2¹²⁸) (IEEE Std 1619, 5.2).
const ALPHA_128: u64 = 0x87;

/// The same in a register; here to be a memory operand: moved over from a general register it would
/// take another turn of the port that multiplies.
// SAFETY: any pattern of bits is a value.
static REDUCTION: __m128i = unsafe { core::mem::transmute([ALPHA_128, 0]) };
