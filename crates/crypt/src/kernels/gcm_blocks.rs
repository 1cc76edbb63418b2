//! Numbers and single blocks of AES-GCM, for the kernels of every processor.
//!
//! # Numbers
//!
//! GHASH numbers the bits of a block from the first byte's highest on. A block with its bytes reversed, as a
//! little-endian number, has the coefficient of x^i in bit 127 - i. The carry-less product of two such numbers
//! has that of x^i in bit 254 - i, where 255 - i is wanted, so all powers are stored divided by x. Powers are therefore
//! H^k / x, and their products with blocks are right in all 256 bits.

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
/// `len` bytes can be read and written `at`; `len` is 1 to 15.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
#[inline(always)]
pub(super) unsafe fn part_of_block<const ENCRYPT: bool>(
    at: Cursor,
    len: usize,
    key_stream: u128,
) -> u128 {
    // SAFETY: the caller promises the bytes.
    unsafe {
        let input = load_part(at.source, len);
        let output = input ^ (key_stream & (u128::MAX >> (128 - 8 * len)));
        store_part(at.destination, len, output);
        if ENCRYPT { output } else { input }
    }
}

/// Loads the first `len` bytes of a block, filled up with zeros: each byte once, and with no call, at which a processor's
/// registers with key material would be kept on the stack.
///
/// # Safety
/// `len` bytes can be read at `source`; `len` is at most 15.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
#[inline(always)]
pub(super) unsafe fn load_part(source: *const u8, len: usize) -> u128 {
    let mut block = 0;
    let mut done = 0;
    // SAFETY: the caller promises the bytes; the lengths are those whose sum is `len`.
    unsafe {
        if len & 8 > 0 {
            block = u128::from(source.cast::<u64>().read_unaligned());
            done = 8;
        }
        if len & 4 > 0 {
            let word = source.wrapping_add(done).cast::<u32>().read_unaligned();
            block |= u128::from(word) << (8 * done);
            done += 4;
        }
        if len & 2 > 0 {
            let word = source.wrapping_add(done).cast::<u16>().read_unaligned();
            block |= u128::from(word) << (8 * done);
            done += 2;
        }
        if len & 1 > 0 {
            block |= u128::from(source.wrapping_add(done).read()) << (8 * done);
        }
    }
    block
}

/// The reverse of [`load_part`]: stores the first `len` bytes of a block.
///
#[expect(
    clippy::cast_possible_truncation,
    reason = "the lowest bytes are stored, and shifted out"
)]
/// # Safety
/// `len` bytes can be written at `destination`; `len` is at most 15.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
#[inline(always)]
unsafe fn store_part(destination: *mut u8, len: usize, mut block: u128) {
    let mut at = destination;
    // SAFETY: as in `load_part`.
    unsafe {
        if len & 8 > 0 {
            at.cast::<u64>().write_unaligned(block as u64);
            at = at.wrapping_add(8);
            block >>= 64;
        }
        if len & 4 > 0 {
            at.cast::<u32>().write_unaligned(block as u32);
            at = at.wrapping_add(4);
            block >>= 32;
        }
        if len & 2 > 0 {
            at.cast::<u16>().write_unaligned(block as u16);
            at = at.wrapping_add(2);
            block >>= 16;
        }
        if len & 1 > 0 {
            at.write(block as u8);
        }
    }
}
