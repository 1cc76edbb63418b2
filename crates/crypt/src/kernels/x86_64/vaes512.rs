//! AES on 512-bit registers: four blocks in each, and a round key four times.

use core::arch::asm;
use core::arch::x86_64::*;

use super::aes::{Aes, aes_by_functions};
use super::aesni::block;
use super::cpu::Vaes512;
use super::key::RoundKeys;
use super::wide::{Mode, Operation, Sectors, Wide};
use crate::kernels::cursor::Cursor;
use crate::kernels::iv::Ivs;

/// Registers in flight. At one round a cycle and a latency of 3 or 4 cycles four would do, but what
/// comes between two groups takes its time too; and eight are one sector of 512 bytes.
pub(super) const WIDTH: usize = 8;

/// Blocks in flight, or one value for each of them, in the order of memory.
pub(super) type Group = [__m512i; WIDTH];

/// Bytes of a group.
pub(super) const GROUP: usize = size_of::<Group>();

pub(super) type Schedule = super::wide::Schedule<Vaes512>;

// SAFETY: the token is only given out where the CPU has all of its features, AES-NI among them.
unsafe impl Wide for Vaes512 {
    type Register = __m512i;
    // SAFETY: any pattern of bits is a value.
    const ZERO: __m512i = unsafe { core::mem::zeroed() };
    const FAMILY: &str = "vaes512";
    const PRIORITY: u32 = 800;

    fn broadcast(self, keys: &RoundKeys, schedule: &mut Schedule) {
        #[target_feature(enable = "avx512f")]
        fn broadcast(keys: &RoundKeys, schedule: &mut Schedule) {
            for (wide, key) in schedule.iter_mut().zip(keys) {
                *wide = _mm512_broadcast_i32x4(*key);
            }
        }
        // SAFETY: the token shows that the CPU has the feature.
        unsafe { broadcast(keys, schedule) }
    }

    #[inline(always)]
    fn run<O: Operation<Self>>(self, operation: O) -> O::Result {
        #[inline(never)]
        #[target_feature(enable = "vaes,vpclmulqdq,avx512f,avx512bw")]
        fn run<O: Operation<Vaes512>>(width: Vaes512, operation: O) -> O::Result {
            operation.run(width)
        }
        // SAFETY: the token shows that the CPU has the features.
        unsafe { run(self, operation) }
    }
}

// SAFETY: as above.
unsafe impl Sectors for Vaes512 {
    /// # Safety
    /// As the trait says.
    #[inline(never)]
    #[target_feature(enable = "vaes,vpclmulqdq,avx512f,avx512bw")]
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

// The functions below need `vaes` and `avx512f`, which `Vaes512` proves.
aes_by_functions!(Vaes512, __m512i, 4);

/// A block, given as a little-endian number, in every lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn in_every_lane(number: u128) -> __m512i {
    _mm512_broadcast_i32x4(block(number))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor(one: __m512i, other: __m512i) -> __m512i {
    _mm512_xor_si512(one, other)
}

/// One round of a group.
#[inline]
#[target_feature(enable = "vaes,avx512f")]
pub(super) fn round<const ENCRYPT: bool>(data: &mut Group, key: __m512i) {
    in_step(data);
    for blocks in data {
        *blocks = one_round::<ENCRYPT>(*blocks, key);
    }
}

/// One round of four blocks.
#[inline]
#[target_feature(enable = "vaes,avx512f")]
pub(super) fn one_round<const ENCRYPT: bool>(blocks: __m512i, key: __m512i) -> __m512i {
    if ENCRYPT {
        _mm512_aesenc_epi128(blocks, key)
    } else {
        _mm512_aesdec_epi128(blocks, key)
    }
}

/// The last round of four blocks. What is to be added to the result can be added to `key`, which
/// need not wait.
#[inline]
#[target_feature(enable = "vaes,avx512f")]
pub(super) fn last_round<const ENCRYPT: bool>(blocks: __m512i, key: __m512i) -> __m512i {
    if ENCRYPT {
        _mm512_aesenclast_epi128(blocks, key)
    } else {
        _mm512_aesdeclast_epi128(blocks, key)
    }
}

/// All rounds of four blocks alone, each waiting for the one before it.
#[inline]
#[target_feature(enable = "vaes,avx512f")]
pub(super) fn encrypt<const ROUNDS: usize>(mut blocks: __m512i, keys: &Schedule) -> __m512i {
    blocks = _mm512_xor_si512(blocks, keys[0]);
    for key in &keys[1..ROUNDS] {
        blocks = one_round::<true>(blocks, *key);
    }
    last_round::<true>(blocks, keys[ROUNDS])
}

/// Mask of the words of 64 bits in the first `blocks` blocks of a register, which are 1 or more.
#[inline]
#[target_feature(enable = "avx512f")]
fn first_words(blocks: usize) -> __mmask8 {
    let all = u64::MAX >> (64 - 2 * blocks);
    all.to_le_bytes()[0]
}

/// Four blocks, when they are `WHOLE`; otherwise those `words` of them, and zeros.
///
/// # Safety
/// They can be read at `source`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load<const WHOLE: bool>(source: *const u8, words: __mmask8) -> __m512i {
    // SAFETY: the caller promises what is read.
    unsafe {
        if WHOLE {
            _mm512_loadu_si512(source.cast())
        } else {
            _mm512_maskz_loadu_epi64(words, source.cast())
        }
    }
}

/// The reverse of [`load`]: stores blocks.
///
/// # Safety
/// They can be written at `destination`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn store<const WHOLE: bool>(
    destination: *mut u8,
    words: __mmask8,
    blocks: __m512i,
) {
    // SAFETY: the caller promises what is written.
    unsafe {
        if WHOLE {
            _mm512_storeu_si512(destination.cast(), blocks);
        } else {
            _mm512_mask_storeu_epi64(destination.cast(), words, blocks);
        }
    }
}

/// `a + b + c`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}

/// Holds a group in registers at this point. Otherwise the compiler, to save registers, may take
/// some blocks through all their rounds before others, and wait for each round.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn in_step(data: &mut Group) {
    let [a, b, c, d, e, f, g, h] = data;
    // SAFETY: no instruction, so that all remain what they are.
    unsafe {
        asm!(
            "/* {0} {1} {2} {3} {4} {5} {6} {7} */",
            inout(zmm_reg) * a,
            inout(zmm_reg) * b,
            inout(zmm_reg) * c,
            inout(zmm_reg) * d,
            inout(zmm_reg) * e,
            inout(zmm_reg) * f,
            inout(zmm_reg) * g,
            inout(zmm_reg) * h,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
}
