//! AES on 128-bit registers.

use core::arch::x86_64::*;

use super::cpu::AesNi;
use super::key::RoundKeys;
use super::wide::Wide;

/// Round keys.
pub(super) type Schedule = super::wide::Schedule<AesNi>;

// SAFETY: the token is only given out where the CPU has AES-NI.
unsafe impl Wide for AesNi {
    type Register = __m128i;
    // SAFETY: any pattern of bits is a value.
    const ZERO: __m128i = unsafe { core::mem::zeroed() };

    fn broadcast(self, keys: &RoundKeys, schedule: &mut Schedule) {
        *schedule = *keys;
    }
}

/// A block, given as a little-endian number. Not by way of memory: a load of more bytes than were
/// stored at once waits until all that was before it has ended.
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
