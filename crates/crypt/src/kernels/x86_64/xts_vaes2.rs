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
//! Of three vector ports two have an AES unit. What is no AES round has the third one for itself,
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

use super::Cursor;
use super::ahead::{Ahead, BATCH, Units};
use super::cpu::Vaes2;
use super::opaque::{opaque, opaque_mut};
use super::vaes2::{
    GROUP, Group, Schedule, WIDTH, in_step, last_round, load, one_round, round, store, words,
};
use super::wide::Wide;
use super::xts::{Keys, WideXts, set_up};
use crate::iv::{Ivs, Numbers};
use crate::kernels::Kernel;
use crate::spec::Algorithm;

pub(crate) const XTS_VAES2: Kernel = Kernel {
    algorithm: Algorithm::AesXts,
    driver: "xts-aes-vaes2",
    family: "vaes2",
    priority: 600,
    constant_time: true,
    features: Vaes2::FEATURES,
    runs_here: || Vaes2::detect().is_some(),
    set_up: |key| set_up(Vaes2::detect()?, key),
};

impl WideXts for Vaes2 {
    /// Of two groups: the one in flight and, made meanwhile, the one after it.
    type Tweaks = [Group; 2];
    const NO_TWEAKS: [Group; 2] = [[Self::ZERO; WIDTH]; 2];

    /// # Safety
    /// As the trait says.
    #[inline]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        self,
        keys: &Keys<Self>,
        ivs: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    ) {
        // SAFETY: the token shows that the CPU has the features; the rest is the caller's.
        unsafe {
            if unit.is_multiple_of(2 * GROUP) {
                transform::<ROUNDS, ENCRYPT>(keys, ivs, at, unit, units);
            } else {
                transform_odd::<ROUNDS, ENCRYPT>(keys, ivs, at, unit, units);
            }
        }
    }
}

/// The whole run, 16 blocks at a time, of data units that are pairs of groups, as every sector is.
///
/// # Safety
/// As for [`WideXts::transform`].
#[target_feature(enable = "vaes,vpclmulqdq,avx2")]
unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
    keys: &Keys<Vaes2>,
    ivs: &mut Ivs<'_>,
    mut at: Cursor,
    unit: usize,
    units: usize,
) {
    // Here and not by the caller: three words in memory could be loaded by pairs (see `WideXts`).
    let Some(mut ivs) = ivs.numbers() else {
        // SAFETY: as for this one.
        return unsafe { transform_odd::<ROUNDS, ENCRYPT>(keys, ivs, at, unit, units) };
    };
    let data_keys = keys.data.of::<ENCRYPT>();
    // SAFETY: until this one returns there is no other call in this thread: IVs that would be
    // encrypted by one are none that come here.
    let mine = unsafe { keys.ahead.mine() };
    let mut spare = None;
    let Ahead {
        blocks: [this, next],
        units: ahead,
    } = mine.unwrap_or_else(|| spare.insert(Ahead::nothing(Vaes2::NO_TWEAKS)));
    // After a pair of groups they are again what their names say.
    let (mut this, mut next) = (this, next);
    if !ahead.go_on(&mut ivs) {
        refill::<ROUNDS>(keys, &mut ivs, ahead);
        *this = first_tweaks(_mm256_broadcastsi128_si256(ahead.next()));
    }
    let mut left = unit * units;
    while left > 0 {
        let following = next_unit::<ROUNDS>(keys, &mut ivs, ahead);
        // SAFETY: at least a unit is left of the run, and at least a group of a unit whenever one
        // is transformed.
        unsafe {
            for _ in 1..unit / GROUP {
                at.prefetch(GROUP, left);
                group::<ROUNDS, ENCRYPT, false>(data_keys, this, next, following, at);
                at = at.add(GROUP);
                left -= GROUP;
                mem::swap(&mut this, &mut next);
            }
            at.prefetch(GROUP, left);
            group::<ROUNDS, ENCRYPT, true>(data_keys, this, next, following, at);
            at = at.add(GROUP);
            left -= GROUP;
            mem::swap(&mut this, &mut next);
        }
    }
}

/// As [`transform`] for other data units and for IVs of other rules. Leaves nothing for the next call.
///
/// # Safety
/// As for [`WideXts::transform`].
#[inline(never)]
#[target_feature(enable = "vaes,vpclmulqdq,avx2")]
unsafe fn transform_odd<const ROUNDS: usize, const ENCRYPT: bool>(
    keys: &Keys<Vaes2>,
    ivs: &mut Ivs<'_>,
    mut at: Cursor,
    unit: usize,
    units: usize,
) {
    let mut ahead = Ahead::nothing(Vaes2::NO_TWEAKS);
    for _ in 0..units {
        if ahead.units.are_used_up() {
            refill_with_any::<ROUNDS>(keys, ivs, &mut ahead.units);
        }
        let mut first = _mm256_broadcastsi128_si256(ahead.units.next());
        let mut left = unit;
        while left > 0 {
            let len = left.min(GROUP);
            // SAFETY: so much is left of the unit.
            unsafe {
                part::<ROUNDS, ENCRYPT>(
                    keys.data.of::<ENCRYPT>(),
                    &mut ahead.blocks[0],
                    first,
                    at,
                    len / 16,
                );
                at = at.add(len);
            }
            left -= len;
            first = times_alpha_bytes::<2, 14>(first);
        }
    }
}

/// The tweak of the next data unit, in both lanes.
#[inline]
#[target_feature(enable = "vaes,avx2")]
fn next_unit<const ROUNDS: usize>(
    keys: &Keys<Vaes2>,
    ivs: &mut Numbers,
    units: &mut Units,
) -> __m256i {
    let tweak = _mm256_broadcastsi128_si256(units.next());
    if units.are_used_up() {
        refill::<ROUNDS>(keys, ivs, units);
    }
    tweak
}

/// Encrypts the next IVs.
#[inline]
#[target_feature(enable = "vaes,avx2")]
fn refill<const ROUNDS: usize>(keys: &Keys<Vaes2>, ivs: &mut Numbers, units: &mut Units) {
    let [a, b, c, d] = ivs.next().map(u64::cast_signed);
    let ivs_of_units = [_mm256_set_epi64x(0, b, 0, a), _mm256_set_epi64x(0, d, 0, c)];
    refill_with::<ROUNDS>(keys, ivs_of_units, units, ivs.position());
}

/// The same, whatever IVs they are.
#[inline]
#[target_feature(enable = "vaes,avx2")]
fn refill_with_any<const ROUNDS: usize>(keys: &Keys<Vaes2>, ivs: &mut Ivs<'_>, units: &mut Units) {
    let mut next = [[0; 16]; BATCH];
    ivs.fill(&mut next);
    let start: *const __m256i = next.as_ptr().cast();
    // SAFETY: twice 32 bytes.
    let next = unsafe { [_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))] };
    refill_with::<ROUNDS>(keys, next, units, ivs.position());
}

#[inline]
#[target_feature(enable = "vaes,avx2")]
fn refill_with<const ROUNDS: usize>(
    keys: &Keys<Vaes2>,
    ivs: [__m256i; 2],
    units: &mut Units,
    after: u64,
) {
    let keys = opaque(&keys.tweak);
    let mut tweaks = ivs.map(|two| _mm256_xor_si256(two, keys[0]));
    for key in &keys[1..ROUNDS] {
        tweaks = tweaks.map(|two| one_round::<true>(two, *key));
    }
    tweaks = tweaks.map(|two| last_round::<true>(two, keys[ROUNDS]));
    // SAFETY: four times 128 bits either way.
    *units.refill(after) = unsafe { mem::transmute::<[__m256i; 2], [__m128i; BATCH]>(tweaks) };
}

/// Transforms 16 blocks with `tweaks`, and writes those of the next 16 to `next`: of the same data
/// unit or, at the `END` of it, of the next, whose tweak is in both lanes of `following`.
///
/// # Safety
/// 16 blocks can be read and written `at`.
#[inline]
#[target_feature(enable = "vaes,vpclmulqdq,avx2")]
unsafe fn group<const ROUNDS: usize, const ENCRYPT: bool, const END: bool>(
    keys: &Schedule,
    tweaks: &mut Group,
    next: &mut Group,
    following: __m256i,
    at: Cursor,
) {
    let (keys, tweaks, next) = (opaque(keys), opaque_mut(tweaks), opaque_mut(next));
    // SAFETY: the caller promises the blocks.
    let mut data = unsafe { begin::<true>(keys, tweaks, at, GROUP / 16) };
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
    // SAFETY: as above.
    unsafe { end::<ROUNDS, ENCRYPT, true>(keys, data, tweaks, at, GROUP / 16) };
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

/// What α¹²⁸ is in GF(2¹²⁸) (IEEE Std 1619, 5.2).
#[inline]
#[target_feature(enable = "avx2")]
fn reduction() -> __m256i {
    _mm256_set_epi64x(0, 0x87, 0, 0x87)
}
