//! Loads, stores and sums of 128-bit blocks, as the modes here use them.

use core::arch::aarch64::*;
use core::arch::asm;

/// Loads block `index`, by one instruction that the compiler neither repeats nor splits: each byte of a source
/// that others change meanwhile is read once.
///
/// # Safety
/// The block can be read at `source`.
#[inline(always)]
pub(super) unsafe fn load(source: *const u8, index: usize) -> uint8x16_t {
    let block: uint8x16_t;
    let from = source.wrapping_add(16 * index);
    // SAFETY: the caller promises the block. The instruction needs no alignment and changes nothing but its result.
    unsafe {
        asm!(
            "ldr {block:q}, [{from}]",
            block = lateout(vreg) block,
            from = in(reg) from,
            options(readonly, nostack, preserves_flags)
        );
    }
    block
}

/// Stores block `index`.
///
/// # Safety
/// The block can be written at `destination`.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn store(destination: *mut u8, index: usize, block: uint8x16_t) {
    // SAFETY: the caller promises the block.
    unsafe { vst1q_u8(destination.wrapping_add(16 * index), block) }
}

/// A block, given as a little-endian number.
#[inline]
#[target_feature(enable = "aes")]
pub(super) fn block(number: u128) -> uint8x16_t {
    vreinterpretq_u8_p128(number)
}

/// A block as a little-endian number.
#[inline]
#[target_feature(enable = "aes")]
pub(super) fn number(block: uint8x16_t) -> u128 {
    vreinterpretq_p128_u8(block)
}

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn zero() -> uint8x16_t {
    vdupq_n_u8(0)
}
