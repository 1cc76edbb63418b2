//! AES on 256-bit registers: two blocks in each, and a round key twice.

use core::arch::asm;
use core::arch::x86_64::*;

use super::aes::{Aes, aes_by_functions};
use super::aesni::block;
use super::cpu::Vaes2;
use super::key::RoundKeys;
use crate::kernels::cursor::Cursor;

use super::wide::{Mode, Operation, Sectors, Wide};
use crate::kernels::iv::Ivs;

/// Blocks in a register.
pub(super) const LANES: usize = 2;

/// Registers in flight: what two rounds a cycle with a latency of 4 cycles need.
pub(super) const WIDTH: usize = 8;

/// Blocks in flight, or one value for each of them, in the order of memory.
pub(super) type Group = [__m256i; WIDTH];

pub(super) type Schedule = super::wide::Schedule<Vaes2>;

// SAFETY: the token is only given out where the CPU has all of its features, AES-NI among them.
unsafe impl Wide for Vaes2 {
    type Register = __m256i;
    // SAFETY: any pattern of bits is a value.
    const ZERO: __m256i = unsafe { core::mem::zeroed() };
    const FAMILY: &str = "vaes2";
    const PRIORITY: u32 = 600;

    fn broadcast(self, keys: &RoundKeys, schedule: &mut Schedule) {
        #[target_feature(enable = "avx2")]
        fn broadcast(keys: &RoundKeys, schedule: &mut Schedule) {
            for (wide, key) in schedule.iter_mut().zip(keys) {
                *wide = _mm256_broadcastsi128_si256(*key);
            }
        }
        // SAFETY: the token shows that the CPU has the feature.
        unsafe { broadcast(keys, schedule) }
    }

    #[inline(always)]
    fn run<O: Operation<Self>>(self, operation: O) -> O::Result {
        #[inline(never)]
        #[target_feature(enable = "vaes,vpclmulqdq,avx2")]
        fn run<O: Operation<Vaes2>>(width: Vaes2, operation: O) -> O::Result {
            operation.run(width)
        }
        // SAFETY: the token shows that the CPU has the features.
        unsafe { run(self, operation) }
    }
}

// SAFETY: as above.
unsafe impl Sectors for Vaes2 {
    /// # Safety
    /// As the trait says.
    #[inline(never)]
    #[target_feature(enable = "vaes,vpclmulqdq,avx2")]
    unsafe fn transform<M: Mode<Self>, const ROUNDS: usize, const ENCRYPT: bool>(
        self,
        keys: &M::Keys,
        ivs: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    ) {
        // SAFETY: the caller promises what is to be read and written.
        unsafe { M::transform::<ROUNDS, ENCRYPT>(self, keys, ivs, at, unit, units) }
    }
}

// The functions below need `vaes` and `avx2`, which `Vaes2` proves.
aes_by_functions!(Vaes2, __m256i, 2);

/// A block, given as a little-endian number, in every lane.
#[inline]
#[target_feature(enable = "avx2")]
fn in_every_lane(number: u128) -> __m256i {
    _mm256_broadcastsi128_si256(block(number))
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor(one: __m256i, other: __m256i) -> __m256i {
    _mm256_xor_si256(one, other)
}

/// The sum of three, of which `late` is the last to be ready.
#[inline]
#[target_feature(enable = "avx2")]
fn xor3(late: __m256i, a: __m256i, b: __m256i) -> __m256i {
    xor(late, xor(a, b))
}

/// One round of two blocks.
#[inline]
#[target_feature(enable = "vaes,avx2")]
pub(super) fn one_round<const ENCRYPT: bool>(blocks: __m256i, key: __m256i) -> __m256i {
    if ENCRYPT {
        _mm256_aesenc_epi128(blocks, key)
    } else {
        _mm256_aesdec_epi128(blocks, key)
    }
}

/// The last round of two blocks. What is to be added to the result can be added to `key`, which
/// need not wait.
#[inline]
#[target_feature(enable = "vaes,avx2")]
pub(super) fn last_round<const ENCRYPT: bool>(blocks: __m256i, key: __m256i) -> __m256i {
    if ENCRYPT {
        _mm256_aesenclast_epi128(blocks, key)
    } else {
        _mm256_aesdeclast_epi128(blocks, key)
    }
}

/// Of a register of a group that begins with `blocks` blocks: its words of 64 bits that are among
/// them.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn words(index: usize, blocks: usize) -> __m256i {
    let left = blocks.saturating_sub(LANES * index);
    let word = |number: usize| if left > number / 2 { -1 } else { 0 };
    _mm256_set_epi64x(word(3), word(2), word(1), word(0))
}

/// Of a register that begins with `blocks` blocks: its words of 64 bits that are among them.
#[inline]
#[target_feature(enable = "avx2")]
fn first_words(blocks: usize) -> __m256i {
    words(0, blocks)
}

/// Two blocks, when they are `WHOLE`; otherwise those `words` of them, and zeros.
///
/// # Safety
/// They can be read at `source`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load<const WHOLE: bool>(source: *const u8, words: __m256i) -> __m256i {
    // SAFETY: the caller promises what is read.
    unsafe {
        if WHOLE {
            _mm256_loadu_si256(source.cast())
        } else {
            _mm256_maskload_epi64(source.cast(), words)
        }
    }
}

/// The reverse of [`load`]: stores blocks.
///
/// # Safety
/// They can be written at `destination`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store<const WHOLE: bool>(
    destination: *mut u8,
    words: __m256i,
    blocks: __m256i,
) {
    // SAFETY: the caller promises what is written.
    unsafe {
        if WHOLE {
            _mm256_storeu_si256(destination.cast(), blocks);
        } else {
            _mm256_maskstore_epi64(destination.cast(), words, blocks);
        }
    }
}

/// Holds a group in registers at this point. Otherwise the compiler, to save registers, takes some
/// blocks through all their rounds before others, and waits for each round.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn in_step(data: &mut Group) {
    let [a, b, c, d, e, f, g, h] = data;
    // SAFETY: no instruction, so that all remain what they are.
    unsafe {
        asm!(
            "/* {0} {1} {2} {3} {4} {5} {6} {7} */",
            inout(ymm_reg) * a,
            inout(ymm_reg) * b,
            inout(ymm_reg) * c,
            inout(ymm_reg) * d,
            inout(ymm_reg) * e,
            inout(ymm_reg) * f,
            inout(ymm_reg) * g,
            inout(ymm_reg) * h,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
}
