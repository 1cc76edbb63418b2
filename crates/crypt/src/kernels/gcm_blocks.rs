//! Numbers and single blocks of AES-GCM, for the kernels of every processor.
//!
//! # Numbers
//!
//! GHASH numbers the bits of a block from the first byte's highest on. A block with its bytes reversed, as a
//! little-endian number, has the coefficient of x^i in bit 127 - i. The carry-less product of two such numbers
//! has that of x^i in bit 254 - i, where 255 - i is wanted, so all powers are stored divided by x. Powers are therefore
//! H^k / x, and their products with blocks are right in all 256 bits.

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
use zeroize::Zeroize;

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
use super::cursor::Cursor;
use super::gcm::NONCE;

/// A polynomial divided by x, modulo x^128 + x^7 + x^2 + x + 1. In constant time.
pub(super) fn divided_by_x(number: u128) -> u128 {
    /// x^-1 = x^127 + x^6 + x + 1
    const INVERSE: u128 = 0xc200_0000_0000_0000_0000_0000_0000_0001;
    (number << 1) ^ (INVERSE & 0u128.wrapping_sub(number >> 127))
}

/// The number before the first block's: nonce and counter as a number, whose lower 32 bits count.
#[inline(always)]
pub(super) fn first_counter(nonce: &[u8; NONCE]) -> u128 {
    let mut block = [0; 16];
    block[..NONCE].copy_from_slice(nonce);
    u128::from_be_bytes(block) | 1
}

/// The last block of GHASH: the lengths in bits.
#[inline(always)]
pub(super) fn lengths(additional: usize, message: usize) -> u128 {
    ((8 * additional as u128) << 64) | (8 * message as u128)
}

/// Combines the first `len` bytes of a block with the key stream. Returns the block of ciphertext, filled up with zeros.
///
/// # Safety
/// So many bytes can be read and written `at`: 1 to 15.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
#[inline(always)]
pub(super) unsafe fn part_of_block<const ENCRYPT: bool>(
    at: Cursor,
    len: usize,
    key_stream: u128,
) -> u128 {
    let mut block = [0; 16];
    // SAFETY: the caller promises the bytes, and a block has as many.
    unsafe { core::ptr::copy_nonoverlapping(at.source, block.as_mut_ptr(), len) };
    let input = u128::from_le_bytes(block);
    let output = input ^ (key_stream & (u128::MAX >> (128 - 8 * len)));
    block = output.to_le_bytes();
    // SAFETY: as above.
    unsafe { core::ptr::copy_nonoverlapping(block.as_ptr(), at.destination, len) };
    block.zeroize();
    if ENCRYPT { output } else { input }
}
