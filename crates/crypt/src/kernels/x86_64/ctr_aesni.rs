//! AES-CTR with AES-NI.
//!
//! | | |
//! |---|---|
//! | for | every x86-64 with AES-NI; no AVX needed |
//! | width | 8 blocks of 128 bits in flight, for a latency of up to 4 cycles at 2 AESENC a cycle |
//! | registers | 8 of key stream, 1 round key |
//! | bound | at 2 AESENC a cycle 0.4375 cycles a byte for AES-256, 0.3125 for AES-128 |
//! | constant time | yes |
//! | why | the kernel for CPUs with AES-NI but without VAES |
//!
//! The counter has 128 bits and any start. In vector registers its halves count by themselves, so
//! that a group whose lower half would carry, which hardly ever comes, is counted in general ones.
//! That is a branch on a number that is not a secret.

use core::arch::x86_64::*;

use super::aesni::{Schedule, block, load, store};
use super::cpu::AesNi;
use super::cursor::Cursor;
use super::lanes::{GROUP, Group, all_rounds, in_groups, zero};
use super::mode::kernel;
use super::opaque::opaque;
use super::wide::{Mode, Schedules};
use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::{Ivs, OneByOne};
use crate::spec::Algorithm;

pub(crate) const CTR_AESNI: Kernel = kernel::<Ctr, AesNi>(Algorithm::AesCtr, "ctr-aes-aesni");

struct Ctr;

impl Mode<AesNi> for Ctr {
    type Keys = Schedules<AesNi>;
    const ONE_DIRECTION: bool = true;

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        _: AesNi,
        keys: &Schedules<AesNi>,
        ivs: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    ) {
        // SAFETY: the token shows that the CPU has both features; the rest is the caller's.
        unsafe { transform::<ROUNDS>(keys.of::<true>(), ivs, at, unit, units) }
    }
}

/// # Safety
/// As for [`Mode::transform`].
#[inline]
#[target_feature(enable = "aes,ssse3")]
unsafe fn transform<const ROUNDS: usize>(
    keys: &Schedule,
    ivs: &mut Ivs<'_>,
    mut at: Cursor,
    unit: usize,
    units: usize,
) {
    let mut ivs = OneByOne::new(ivs, units);
    for _ in 0..units {
        let mut counter = ivs.next().swap_bytes();
        in_groups!(unit / 16, index, LANES => {
            // SAFETY: blocks `index` to `index + LANES` are in this data unit.
            counter = unsafe { group::<ROUNDS, LANES>(keys, counter, at.add(16 * index)) };
        });
        // SAFETY: this data unit is in the run.
        at = unsafe { at.add(unit) };
    }
}

/// Combines `LANES` blocks with the key stream from `counter` on; returns the next counter.
///
/// # Safety
/// So many can be read and written `at`.
#[inline]
#[target_feature(enable = "aes,ssse3")]
unsafe fn group<const ROUNDS: usize, const LANES: usize>(
    keys: &Schedule,
    counter: u128,
    at: Cursor,
) -> u128 {
    let mut data = counters::<LANES>(counter);
    all_rounds::<ROUNDS, true, LANES>(opaque(keys), &mut data);
    for (index, block) in data[..LANES].iter().enumerate() {
        // SAFETY: the caller promises these blocks.
        unsafe {
            let data = _mm_xor_si128(*block, load(at.source, index));
            store(at.destination, index, data);
        }
    }
    counter.wrapping_add(LANES as u128)
}

/// `counter` and those that follow it, big endian.
#[inline]
#[target_feature(enable = "ssse3")]
fn counters<const LANES: usize>(counter: u128) -> Group {
    const LOWER_HALF: u128 = u64::MAX as u128;
    let mut blocks = [zero(); GROUP];
    if LOWER_HALF - (counter & LOWER_HALF) < LANES as u128 {
        carrying_counters(counter, &mut blocks);
        return blocks;
    }
    let mut next = block(counter);
    let one = _mm_set_epi64x(0, 1);
    let reversed = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for block in &mut blocks[..LANES] {
        *block = _mm_shuffle_epi8(next, reversed);
        next = _mm_add_epi64(next, one);
    }
    blocks
}

#[cold]
#[target_feature(enable = "sse2")]
fn carrying_counters(mut counter: u128, blocks: &mut Group) {
    for block in blocks {
        // SAFETY: a counter is 16 readable bytes.
        *block = unsafe { load(counter.to_be_bytes().as_ptr(), 0) };
        counter = counter.wrapping_add(1);
    }
}
