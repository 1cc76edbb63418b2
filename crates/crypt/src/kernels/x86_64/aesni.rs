//! AES on 128-bit registers.

use core::arch::x86_64::*;

use super::cpu::{AesAvx, AesNi};
use super::cursor::Cursor;
use super::key::RoundKeys;
use super::wide::{Mode, Operation, Sectors, Wide};
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
