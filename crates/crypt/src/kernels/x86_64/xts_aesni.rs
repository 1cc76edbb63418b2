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
//! Beside the rounds of the data there are two costs:
//!
//! - *The tweak of a data unit* is an encryption of its own, whose rounds depend on each other and
//!   overlap with nothing when it stands alone. Those of 8 units are encrypted together, one unit
//!   ahead of the data.
//! - *The tweaks of blocks* follow from it by multiplication in GF(2¹²⁸). Vector arithmetic
//!   competes with AESENC for ports, the more so in a lump between two groups of blocks. So the
//!   multiplication is by α⁸, a byte shift and a carry-less product, which work on another port,
//!   and each of the first 8 rounds of a group makes one of the 8 tweaks of the next.

use core::arch::x86_64::*;

use scrim_sys::memory::Locked;
use zeroize::Zeroize;

use super::RawRun;
use super::cpu::AesNi;
use super::key::{RoundKeys, expand, invert};
use super::lanes::{GROUP, Group, in_step, last_round, one_round, round, zero};
use super::opaque::{opaque, opaque_mut};
use crate::iv::Ivs;
use crate::kernels::{Kernel, SectorKernel};
use crate::run::Run;
use crate::spec::Algorithm;

pub(crate) const XTS_AESNI: Kernel = Kernel {
    algorithm: Algorithm::AesXts,
    driver: "xts-aes-aesni",
    family: "aesni",
    priority: 400,
    constant_time: true,
    features: AesNi::FEATURES,
    runs_here: || AesNi::detect().is_some(),
    set_up: |key| {
        let proof = AesNi::detect()?;
        match key.len() {
            32 => Some(Box::new(Xts::<10>::new(proof, key))),
            48 => Some(Box::new(Xts::<12>::new(proof, key))),
            64 => Some(Box::new(Xts::<14>::new(proof, key))),
            _ => None,
        }
    },
};

struct Xts<const ROUNDS: usize> {
    keys: Locked<Keys>,
    /// What allows [`transform`] to be called.
    _proof: AesNi,
}

#[repr(C, align(64))]
struct Keys {
    encrypt: RoundKeys,
    decrypt: RoundKeys,
    tweak: RoundKeys,
    /// [`REDUCTION`], here to be a memory operand: moved over from a general register it would take
    /// another turn of the port that multiplies.
    reduction: __m128i,
}

/// What α¹²⁸ is in GF(2¹²⁸) (IEEE Std 1619, 5.2).
const REDUCTION: i64 = 0x87;

impl<const ROUNDS: usize> Xts<ROUNDS> {
    fn new(proof: AesNi, key: &[u8]) -> Self {
        let mut keys = Locked::new(|| Keys {
            encrypt: [zero(); 15],
            decrypt: [zero(); 15],
            tweak: [zero(); 15],
            reduction: zero(),
        });
        // SAFETY: `proof` shows that the CPU has AES-NI.
        unsafe { keys.expand::<ROUNDS>(key) };
        Self {
            keys,
            _proof: proof,
        }
    }
}

impl Keys {
    #[target_feature(enable = "aes")]
    fn expand<const ROUNDS: usize>(&mut self, key: &[u8]) {
        let (data, tweak) = key.split_at(key.len() / 2);
        expand::<ROUNDS>(data, &mut self.encrypt);
        invert::<ROUNDS>(&self.encrypt, &mut self.decrypt);
        expand::<ROUNDS>(tweak, &mut self.tweak);
        self.reduction = _mm_set_epi64x(0, REDUCTION);
    }

    #[inline]
    fn rounds<const ENCRYPT: bool>(&self) -> &RoundKeys {
        if ENCRYPT {
            &self.encrypt
        } else {
            &self.decrypt
        }
    }
}

impl<const ROUNDS: usize> SectorKernel for Xts<ROUNDS> {
    fn encrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        // SAFETY: `_proof` shows that the CPU has these features; `run`, and with it the memory that
        // the pointers point to, is borrowed until this returns.
        unsafe { transform::<ROUNDS, true>(&self.keys, ivs, &run.into()) }
    }

    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        // SAFETY: as for `encrypt`.
        unsafe { transform::<ROUNDS, false>(&self.keys, ivs, &run.into()) }
    }
}

/// The whole run, 8 blocks at a time.
///
/// # Safety
/// `run` keeps the promises of [`RawRun`].
#[target_feature(enable = "aes,pclmulqdq")]
unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
    keys: &Keys,
    ivs: Ivs<'_>,
    run: &RawRun,
) {
    let blocks = run.unit / 16;
    // A data unit is some groups and then, at its end, 1 to 8 blocks; in a sector always 8.
    let (groups, rest) = ((blocks - 1) / GROUP, (blocks - 1) % GROUP + 1);
    let mut units = UnitTweaks::<ROUNDS>::new(&keys.tweak, ivs, run.units);
    // Of the blocks in flight and, made meanwhile, of those that follow.
    let (mut tweaks, mut next) = (&mut [zero(); GROUP], &mut [zero(); GROUP]);
    powers(units.next(), tweaks);
    let (mut source, mut destination) = (run.source, run.destination);
    for _ in 0..run.units {
        let unit = units.next();
        for _ in 0..groups {
            // SAFETY: a group is 128 bytes. The groups and single blocks of all units together are
            // the bytes of `run`, so that the pointers end, at most, one past them.
            unsafe {
                group::<ROUNDS, ENCRYPT, false>(keys, unit, tweaks, next, source, destination);
                (source, destination) = (source.add(16 * GROUP), destination.add(16 * GROUP));
            }
            core::mem::swap(&mut tweaks, &mut next);
        }
        if rest == GROUP {
            // SAFETY: as above.
            unsafe {
                group::<ROUNDS, ENCRYPT, true>(keys, unit, tweaks, next, source, destination);
                (source, destination) = (source.add(16 * GROUP), destination.add(16 * GROUP));
            }
            core::mem::swap(&mut tweaks, &mut next);
        } else {
            for tweak in &tweaks[..rest] {
                // SAFETY: as above, for a block and its 16 bytes.
                unsafe {
                    block::<ROUNDS, ENCRYPT>(keys, *tweak, source, destination);
                    (source, destination) = (source.add(16), destination.add(16));
                }
            }
            powers(unit, tweaks);
        }
    }
    tweaks.zeroize();
    next.zeroize();
    units.batch.zeroize();
}

/// Transforms 8 blocks, and puts the tweaks of the next 8 into `next`: of the same data unit or, at
/// the `END` of it, of the one whose tweak is `unit`.
///
/// # Safety
/// 128 bytes can be read at `source` and written at `destination`, the same or others.
#[inline]
#[target_feature(enable = "aes,pclmulqdq")]
unsafe fn group<const ROUNDS: usize, const ENCRYPT: bool, const END: bool>(
    keys: &Keys,
    mut unit: __m128i,
    tweaks: &mut Group,
    next: &mut Group,
    source: *const u8,
    destination: *mut u8,
) {
    let (keys, tweaks, next) = (opaque(keys), opaque_mut(tweaks), opaque_mut(next));
    let rounds = keys.rounds::<ENCRYPT>();
    let mut data = [zero(); GROUP];
    for (index, block) in data.iter_mut().enumerate() {
        // SAFETY: the caller promises 8 blocks.
        let input = unsafe { _mm_loadu_si128(source.add(16 * index).cast()) };
        *block = _mm_xor_si128(_mm_xor_si128(input, rounds[0]), tweaks[index]);
    }
    // Spelt out: as a loop it would not be unrolled.
    macro_rules! round_and_tweak {
        ($($index:literal)*) => {
            $(
                round::<ENCRYPT, GROUP>(&mut data, rounds[1 + $index]);
                if END {
                    next[$index] = unit;
                    unit = times_alpha(unit);
                } else {
                    next[$index] = times_alpha_8(tweaks[$index], keys.reduction);
                }
            )*
        };
    }
    round_and_tweak!(0 1 2 3 4 5 6 7);
    for key in &rounds[1 + GROUP..ROUNDS] {
        round::<ENCRYPT, GROUP>(&mut data, *key);
    }
    in_step(&mut data);
    for (index, block) in data.iter().enumerate() {
        let output = _mm_xor_si128(last_round::<ENCRYPT>(*block, rounds[ROUNDS]), tweaks[index]);
        // SAFETY: as for the loads.
        unsafe { _mm_storeu_si128(destination.add(16 * index).cast(), output) };
    }
}

/// Transforms one block.
///
/// # Safety
/// 16 bytes can be read at `source` and written at `destination`, the same or others.
#[inline(never)]
#[target_feature(enable = "aes")]
unsafe fn block<const ROUNDS: usize, const ENCRYPT: bool>(
    keys: &Keys,
    tweak: __m128i,
    source: *const u8,
    destination: *mut u8,
) {
    let rounds = keys.rounds::<ENCRYPT>();
    // SAFETY: the caller promises a block.
    let input = unsafe { _mm_loadu_si128(source.cast()) };
    let mut data = _mm_xor_si128(_mm_xor_si128(input, rounds[0]), tweak);
    for key in &rounds[1..ROUNDS] {
        data = one_round::<ENCRYPT>(data, *key);
    }
    let output = _mm_xor_si128(last_round::<ENCRYPT>(data, rounds[ROUNDS]), tweak);
    // SAFETY: as above.
    unsafe { _mm_storeu_si128(destination.cast(), output) };
}

/// The tweaks of the data units, in order: their IVs, encrypted.
struct UnitTweaks<'a, const ROUNDS: usize> {
    keys: &'a RoundKeys,
    ivs: Ivs<'a>,
    /// Units whose IVs are not yet encrypted.
    left: usize,
    batch: Group,
    /// How many of `batch` were given out.
    taken: usize,
}

impl<'a, const ROUNDS: usize> UnitTweaks<'a, ROUNDS> {
    #[inline]
    fn new(keys: &'a RoundKeys, ivs: Ivs<'a>, left: usize) -> Self {
        Self {
            keys,
            ivs,
            left,
            batch: [zero(); GROUP],
            taken: GROUP,
        }
    }

    /// The tweak of the next data unit; after the last one, a value of no use.
    #[inline]
    #[target_feature(enable = "aes")]
    fn next(&mut self) -> __m128i {
        if self.taken == GROUP {
            self.refill();
            self.taken = 0;
        }
        let tweak = self.batch[self.taken];
        self.taken += 1;
        tweak
    }

    #[inline(never)]
    #[target_feature(enable = "aes")]
    fn refill(&mut self) {
        let count = self.left.min(GROUP);
        self.left -= count;
        let mut ivs = [[0; 16]; GROUP];
        self.ivs.fill(&mut ivs[..count]);
        let mut batch = [zero(); GROUP];
        for (tweak, iv) in batch.iter_mut().zip(&ivs) {
            // SAFETY: an IV is 16 readable bytes.
            let iv = unsafe { _mm_loadu_si128(iv.as_ptr().cast()) };
            *tweak = _mm_xor_si128(iv, self.keys[0]);
        }
        if count > 1 {
            for key in &self.keys[1..ROUNDS] {
                round::<true, GROUP>(&mut batch, *key);
            }
        } else {
            for key in &self.keys[1..ROUNDS] {
                batch[0] = one_round::<true>(batch[0], *key);
            }
        }
        for (tweak, last) in batch.iter().zip(&mut self.batch) {
            *last = last_round::<true>(*tweak, self.keys[ROUNDS]);
        }
    }
}

/// Fills `tweaks` with `tweak` times α⁰ to α⁷.
#[inline(never)]
#[target_feature(enable = "sse2")]
fn powers(mut tweak: __m128i, tweaks: &mut Group) {
    for power in tweaks {
        *power = tweak;
        tweak = times_alpha(tweak);
    }
}

/// `tweak` times α: shifted left by one bit, with [`REDUCTION`] for a bit that falls out.
#[inline]
#[target_feature(enable = "sse2")]
fn times_alpha(tweak: __m128i) -> __m128i {
    // The top bits of both halves, as masks where they are carried to: bit 127 to the low half,
    // bit 63 to the high one.
    let carries = _mm_srai_epi32::<31>(_mm_shuffle_epi32::<0b00_01_00_11>(tweak));
    let carries = _mm_and_si128(carries, _mm_set_epi64x(1, REDUCTION));
    _mm_xor_si128(_mm_add_epi64(tweak, tweak), carries)
}

/// `tweak` times α⁸: shifted left by one byte, with the product of `reduction` and the byte that
/// falls out.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn times_alpha_8(tweak: __m128i, reduction: __m128i) -> __m128i {
    let carries = _mm_clmulepi64_si128::<0>(_mm_srli_si128::<15>(tweak), reduction);
    _mm_xor_si128(_mm_slli_si128::<1>(tweak), carries)
}
