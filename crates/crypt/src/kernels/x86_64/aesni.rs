//! AES on 128-bit registers.

use core::arch::x86_64::*;

use super::aes::{Aes, WIDTH};
use super::cpu::{AesAvx, AesNi};
use super::key::RoundKeys;
use super::lanes;
use super::wide::{Mode, Operation, Sectors, Wide};
use crate::kernels::cursor::Cursor;
use crate::kernels::iv::Ivs;

pub(super) type Schedule = super::wide::Schedule<AesNi>;

// SAFETY: the token is only given out where the CPU has all of its features, AES-NI among them.
unsafe impl Wide for AesNi {
    type Register = __m128i;
    // SAFETY: any pattern of bits is a value.
    const ZERO: __m128i = unsafe { core::mem::zeroed() };
    const FAMILY: &str = "aesni";
    const PRIORITY: u32 = 400;

    fn broadcast(self, keys: &RoundKeys, schedule: &mut Schedule) {
        *schedule = *keys;
    }

    #[inline(always)]
    fn run<O: Operation<Self>>(self, operation: O) -> O::Result {
        #[inline(never)]
        #[target_feature(enable = "aes,pclmulqdq,ssse3")]
        fn run<O: Operation<AesNi>>(width: AesNi, operation: O) -> O::Result {
            operation.run(width)
        }
        // SAFETY: the token shows that the CPU has the features.
        unsafe { run(self, operation) }
    }
}

// SAFETY: as above.
unsafe impl Sectors for AesNi {
    /// # Safety
    /// As the trait says.
    #[inline(never)]
    #[target_feature(enable = "aes,pclmulqdq,ssse3")]
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

// SAFETY: the token is only given out where the CPU has all of its features, AES-NI among them.
unsafe impl Wide for AesAvx {
    type Register = __m128i;
    const ZERO: __m128i = AesNi::ZERO;
    const FAMILY: &str = AesNi::FAMILY;
    const PRIORITY: u32 = 500;

    fn broadcast(self, keys: &RoundKeys, schedule: &mut super::wide::Schedule<Self>) {
        *schedule = *keys;
    }

    #[inline(always)]
    fn run<O: Operation<Self>>(self, operation: O) -> O::Result {
        #[inline(never)]
        #[target_feature(enable = "aes,pclmulqdq,avx")]
        fn run<O: Operation<AesAvx>>(width: AesAvx, operation: O) -> O::Result {
            operation.run(width)
        }
        // SAFETY: the token shows that the CPU has the features.
        unsafe { run(self, operation) }
    }
}

/// Implements [`Aes`] for a token of 128-bit registers. Both have the same instructions, which the compiler encodes with
/// two operands or with three.
macro_rules! aes_by_blocks {
    ($width:ident) => {
        // SAFETY: the token is only given out where the CPU has all features that the methods use.
        unsafe impl Aes for $width {
            const LANES: usize = 1;

            #[inline(always)]
            fn in_every_lane(self, number: u128) -> __m128i {
                block(number)
            }

            #[inline(always)]
            fn xor(self, one: __m128i, other: __m128i) -> __m128i {
                // SAFETY: SSE2 is in every x86-64.
                unsafe { _mm_xor_si128(one, other) }
            }

            #[inline(always)]
            fn xor3(self, late: __m128i, a: __m128i, b: __m128i) -> __m128i {
                self.xor(late, self.xor(a, b))
            }

            #[inline(always)]
            fn one_round<const ENCRYPT: bool>(self, blocks: __m128i, key: __m128i) -> __m128i {
                // SAFETY: the token shows that the CPU has the features, here and below.
                unsafe { lanes::one_round::<ENCRYPT>(blocks, key) }
            }

            #[inline(always)]
            fn last_round<const ENCRYPT: bool>(self, blocks: __m128i, key: __m128i) -> __m128i {
                // SAFETY: as above.
                unsafe { lanes::last_round::<ENCRYPT>(blocks, key) }
            }

            #[inline(always)]
            fn in_step(self, data: &mut [__m128i; WIDTH]) {
                lanes::in_step(data);
            }

            /// # Safety
            /// As the trait says.
            #[inline(always)]
            unsafe fn load<const WHOLE: bool>(self, source: *const u8, _: usize) -> __m128i {
                // SAFETY: the caller promises what is read: a register has one block.
                unsafe { load(source, 0) }
            }

            /// # Safety
            /// As the trait says.
            #[inline(always)]
            unsafe fn store<const WHOLE: bool>(
                self,
                destination: *mut u8,
                _: usize,
                register: __m128i,
            ) {
                // SAFETY: the caller promises what is written.
                unsafe { store(destination, 0, register) }
            }
        }
    };
}

aes_by_blocks!(AesNi);
aes_by_blocks!(AesAvx);

/// A block, given as a little-endian number. It does not go through memory: a load that is wider than
/// the stores before it cannot be forwarded, and stalls until they have retired.
#[inline(always)]
pub(super) fn block(number: u128) -> __m128i {
    let bytes = number.to_le_bytes();
    let (halves, _) = bytes.as_chunks();
    let [low, high] = [0, 1].map(|half| i64::from_le_bytes(halves[half]));
    // SAFETY: SSE2 is in every x86-64.
    unsafe { _mm_set_epi64x(high, low) }
}

/// # Safety
/// 16 bytes can be read at block `index` from `source`.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) unsafe fn load(source: *const u8, index: usize) -> __m128i {
    // SAFETY: the caller promises them.
    unsafe { _mm_loadu_si128(source.add(16 * index).cast()) }
}

/// # Safety
/// 16 bytes can be written at block `index` from `destination`.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) unsafe fn store(destination: *mut u8, index: usize, block: __m128i) {
    // SAFETY: the caller promises them.
    unsafe { _mm_storeu_si128(destination.add(16 * index).cast(), block) }
}
