//! AES-XTS with VAES on 512-bit registers.
//!
//! | | |
//! |---|---|
//! | for | Ice Lake and Sapphire Rapids, Zen 4, and later |
//! | tweaks | by vector registers, and as a second kernel by general ones ([`super::xts_scalar`]): for Zen 4, whose vector units have 256 bits and take two turns for everything here |
//! | width | 8 registers of 4 blocks in flight: 512 bytes, the smallest sector |
//! | registers | 8 of data, 8 of tweaks and 8 of those that follow, 1 or 2 round keys, 3 constants |
//! | bound | at a VAESENC of 64 bytes a cycle 0.219 cycles a byte for AES-256, 0.156 for AES-128; with a new tweak every 512 bytes 0.226 and 0.161 |
//! | constant time | yes |
//! | why | one AES unit 64 bytes wide sets the pace, and every wait for a tweak leaves it idle |
//!
//! The AES unit is on one port of the processor. Everything else is kept off that port and out of
//! its way:
//!
//! - *The tweaks of blocks* are products in GF(2¹²⁸). Shifts by bits would take turns with the AES
//!   unit; carry-less multiplication and shifts by bytes are on another port. Each of the first 8
//!   rounds of a group makes one of the 8 registers of tweaks of the next group: in one lump they
//!   would fill the scheduler, all the more when two threads share it, and no round would get in.
//! - *The tweaks of data units* are encryptions of their own, whose rounds wait for each other.
//!   Those of four units share a register, and are begun as soon as the last of the four before is
//!   taken. Older than the rounds of the data that follow, they go first when both can, and are
//!   done before they are needed.
//!
//! So the AES unit always finds a round that can start; also between two calls (see
//! [`super::ahead`]).

use core::arch::x86_64::*;
use core::mem;

use super::ahead::{Ahead, BATCH};
use super::cpu::{Vaes512, has_vector_units_of_256_bits};
use super::mode::kernel;
use super::vaes512::{GROUP, Group, Schedule, WIDTH, encrypt, in_step, last_round, round, xor3};
use super::wide::Wide;
use super::xts::{Keys, NextIvs, Tweaks, WideXts, Xts, next_unit};
use super::xts_scalar::Scalar;
use crate::kernels::cursor::Cursor;
use crate::kernels::descriptor::Kernel;
use crate::kernels::opaque::opaque;
use crate::spec::Algorithm;

pub(crate) const XTS_VAES512: Kernel =
    kernel::<Xts<Vector>, Vaes512>(Algorithm::AesXts, "xts-aes-vaes512");

pub(crate) const XTS_VAES512_SCALAR: Kernel = Kernel {
    priority: || match has_vector_units_of_256_bits() {
        true => Vaes512::PRIORITY + 50,
        false => Vaes512::PRIORITY - 50,
    },
    ..kernel::<Xts<Scalar>, Vaes512>(Algorithm::AesXts, "xts-aes-vaes512-scalar")
};

impl WideXts for Vaes512 {
    #[inline(always)]
    fn encrypt_ivs<const ROUNDS: usize>(
        self,
        keys: &Schedule,
        ivs: [__m128i; BATCH],
    ) -> [__m128i; BATCH] {
        // SAFETY: the token shows that the CPU has the features, here and below.
        unsafe { encrypt_ivs::<ROUNDS>(keys, ivs) }
    }
}

/// Tweaks of blocks by vector registers.
pub(super) struct Vector;

impl Tweaks<Vaes512> for Vector {
    /// The tweaks of the first group of the next data unit.
    type Kept = Group;
    const NOTHING: Group = [Vaes512::ZERO; WIDTH];

    #[inline(always)]
    fn begun(_: &Group, _: usize) -> Option<usize> {
        Some(1)
    }

    #[inline(always)]
    fn begin<const ROUNDS: usize>(
        width: Vaes512,
        keys: &Keys<Vaes512, Self>,
        ivs: &mut impl NextIvs,
        ahead: &mut Ahead<Group>,
        _: usize,
    ) {
        let first = next_unit::<_, _, ROUNDS>(width, keys, ivs, &mut ahead.units);
        // SAFETY: as above.
        ahead.blocks = unsafe { powers(_mm512_broadcast_i32x4(first)) };
    }

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn whole_units<const ROUNDS: usize, const ENCRYPT: bool>(
        width: Vaes512,
        keys: &Keys<Vaes512, Self>,
        ivs: &mut impl NextIvs,
        ahead: &mut Ahead<Group>,
        at: Cursor,
        unit: usize,
        units: usize,
    ) {
        // SAFETY: as above; the rest is the caller's.
        unsafe { whole_units::<ROUNDS, ENCRYPT>(width, keys, ivs, ahead, at, unit, units) }
    }
}

/// The tweaks of a group are in registers while it is in flight; in `ahead` only between calls.
///
/// # Safety
/// It is inlined into a function with the features that it needs, on a CPU that has them.
/// As for [`Tweaks::whole_units`].
#[inline(always)]
unsafe fn whole_units<const ROUNDS: usize, const ENCRYPT: bool>(
    width: Vaes512,
    keys: &Keys<Vaes512, Vector>,
    ivs: &mut impl NextIvs,
    ahead: &mut Ahead<Group>,
    mut at: Cursor,
    unit: usize,
    units: usize,
) {
    // SAFETY: the caller promises the features, and what is read and written.
    unsafe {
        let mut tweaks = ahead.blocks;
        let mut first = _mm512_broadcast_i32x4(_mm512_castsi512_si128(tweaks[0]));
        let groups = unit / GROUP;
        let mut in_unit = groups;
        let mut left = unit * units;
        while left > 0 {
            at.prefetch(GROUP, left);
            // The tweak of the first block of the next group.
            in_unit -= 1;
            first = if in_unit > 0 {
                times_alpha_bytes::<4, 12>(first)
            } else {
                in_unit = groups;
                let tweak = next_unit::<_, _, ROUNDS>(width, keys, ivs, &mut ahead.units);
                _mm512_broadcast_i32x4(tweak)
            };
            // At least a group is left of the run.
            tweaks = group::<ROUNDS, ENCRYPT>(keys.data.of::<ENCRYPT>(), tweaks, first, at);
            at = at.add(GROUP);
            left -= GROUP;
        }
        ahead.blocks = tweaks;
    }
}

/// Encrypts IVs, side by side.
#[inline]
#[target_feature(enable = "vaes,avx512f")]
fn encrypt_ivs<const ROUNDS: usize>(keys: &Schedule, ivs: [__m128i; BATCH]) -> [__m128i; BATCH] {
    // SAFETY: four times 128 bits, here and below.
    let ivs = unsafe { mem::transmute::<[__m128i; BATCH], __m512i>(ivs) };
    let tweaks = encrypt::<ROUNDS>(ivs, keys);
    // SAFETY: as above.
    unsafe { mem::transmute::<__m512i, [__m128i; BATCH]>(tweaks) }
}

/// Transforms 32 blocks with `tweaks`, and returns those of the next 32, the first of which is in all
/// lanes of `first`.
///
/// # Safety
/// It is inlined into a function with the features that it needs, on a CPU that has them.
/// 32 blocks can be read and written `at`.
#[inline(always)]
unsafe fn group<const ROUNDS: usize, const ENCRYPT: bool>(
    keys: &Schedule,
    tweaks: Group,
    first: __m512i,
    at: Cursor,
) -> Group {
    // SAFETY: the caller promises the features, and what is read and written.
    unsafe {
        let keys = opaque(keys);
        let mut data = begin(keys, tweaks, at);
        let mut next = tweaks;
        // Spelt out: as a loop it would not be unrolled.
        macro_rules! round_and_tweaks {
            ($number:literal, $tweaks:expr) => {
                round::<ENCRYPT>(&mut data, keys[$number]);
                next[$number - 1] = $tweaks;
            };
        }
        round_and_tweaks!(1, powers_0_to_3(first));
        round_and_tweaks!(2, powers_4_to_7(first));
        round_and_tweaks!(3, times_alpha_bytes::<1, 15>(next[0]));
        round_and_tweaks!(4, times_alpha_bytes::<1, 15>(next[1]));
        round_and_tweaks!(5, times_alpha_bytes::<2, 14>(next[0]));
        round_and_tweaks!(6, times_alpha_bytes::<2, 14>(next[1]));
        round_and_tweaks!(7, times_alpha_bytes::<3, 13>(next[0]));
        round_and_tweaks!(8, times_alpha_bytes::<3, 13>(next[1]));
        for key in &keys[9..ROUNDS] {
            round::<ENCRYPT>(&mut data, *key);
        }
        end::<ROUNDS, ENCRYPT>(keys, data, tweaks, at);
        next
    }
}

/// Loads blocks, and adds tweaks and the first key.
///
/// # Safety
/// They can be read `at`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn begin(keys: &Schedule, tweaks: Group, at: Cursor) -> Group {
    let mut data = tweaks;
    for (index, four) in data.iter_mut().enumerate() {
        let from = at.source.wrapping_add(64 * index);
        // SAFETY: the caller promises the blocks.
        let input = unsafe { _mm512_loadu_si512(from.cast()) };
        *four = xor3(input, keys[0], tweaks[index]);
    }
    data
}

/// The last round; adds tweaks again, and stores.
///
/// # Safety
/// The blocks can be written `at`.
#[inline]
#[target_feature(enable = "vaes,avx512f")]
unsafe fn end<const ROUNDS: usize, const ENCRYPT: bool>(
    keys: &Schedule,
    mut data: Group,
    tweaks: Group,
    at: Cursor,
) {
    in_step(&mut data);
    for (index, four) in data.iter().enumerate() {
        // In time for the last round: the sum of key and tweak need not wait for it.
        let key = _mm512_xor_si512(keys[ROUNDS], tweaks[index]);
        let output = last_round::<ENCRYPT>(*four, key);
        let to = at.destination.wrapping_add(64 * index);
        // SAFETY: the caller promises the blocks.
        unsafe { _mm512_storeu_si512(to.cast(), output) };
    }
}

/// `first`, which is in all lanes, times α⁰ to α³¹.
#[inline]
#[target_feature(enable = "vpclmulqdq,avx512f,avx512bw")]
fn powers(first: __m512i) -> Group {
    let (low, high) = (powers_0_to_3(first), powers_4_to_7(first));
    [
        low,
        high,
        times_alpha_bytes::<1, 15>(low),
        times_alpha_bytes::<1, 15>(high),
        times_alpha_bytes::<2, 14>(low),
        times_alpha_bytes::<2, 14>(high),
        times_alpha_bytes::<3, 13>(low),
        times_alpha_bytes::<3, 13>(high),
    ]
}

#[inline]
#[target_feature(enable = "vpclmulqdq,avx512f,avx512bw")]
fn powers_0_to_3(first: __m512i) -> __m512i {
    times(
        first,
        _mm512_set_epi64(0, 1 << 3, 0, 1 << 2, 0, 1 << 1, 0, 1),
    )
}

#[inline]
#[target_feature(enable = "vpclmulqdq,avx512f,avx512bw")]
fn powers_4_to_7(first: __m512i) -> __m512i {
    times(
        first,
        _mm512_set_epi64(0, 1 << 7, 0, 1 << 6, 0, 1 << 5, 0, 1 << 4),
    )
}

/// `tweaks` times `factors`, polynomials in α of a degree below 64.
#[inline]
#[target_feature(enable = "vpclmulqdq,avx512f,avx512bw")]
fn times(tweaks: __m512i, factors: __m512i) -> __m512i {
    let low = _mm512_clmulepi64_epi128::<0x00>(tweaks, factors);
    let high = _mm512_clmulepi64_epi128::<0x01>(tweaks, factors);
    let carries = _mm512_clmulepi64_epi128::<0x01>(high, reduction());
    xor3(low, _mm512_bslli_epi128::<8>(high), carries)
}

/// `tweaks` times α to the power of 8 × `BYTES`: shifted left by as many bytes, with the product of
/// what falls out. `REST` is 16 - `BYTES`.
#[inline]
#[target_feature(enable = "vpclmulqdq,avx512f,avx512bw")]
fn times_alpha_bytes<const BYTES: i32, const REST: i32>(tweaks: __m512i) -> __m512i {
    let out = _mm512_bsrli_epi128::<REST>(tweaks);
    let carries = _mm512_clmulepi64_epi128::<0x00>(out, reduction());
    _mm512_xor_si512(_mm512_bslli_epi128::<BYTES>(tweaks), carries)
}

/// α¹²⁸ in GF(2¹²⁸) (IEEE Std 1619, 5.2).
#[inline]
#[target_feature(enable = "avx512f")]
fn reduction() -> __m512i {
    _mm512_set_epi64(0, 0x87, 0, 0x87, 0, 0x87, 0, 0x87)
}
