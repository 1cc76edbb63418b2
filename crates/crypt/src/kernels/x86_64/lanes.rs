//! AES rounds of up to 8 blocks side by side.

use core::arch::asm;
use core::arch::x86_64::*;

use super::key::RoundKeys;

/// Blocks in flight, and data units that are worked on together.
pub(super) const GROUP: usize = 8;

/// One value for each block of a group.
pub(super) type Group = [__m128i; GROUP];

/// All rounds of the first `LANES` blocks; the others remain.
#[inline]
#[target_feature(enable = "aes")]
pub(super) fn all_rounds<const ROUNDS: usize, const ENCRYPT: bool, const LANES: usize>(
    rounds: &RoundKeys,
    data: &mut Group,
) {
    for block in &mut data[..LANES] {
        *block = _mm_xor_si128(*block, rounds[0]);
    }
    for key in &rounds[1..ROUNDS] {
        round::<ENCRYPT, LANES>(data, *key);
    }
    in_step(data);
    for block in &mut data[..LANES] {
        *block = last_round::<ENCRYPT>(*block, rounds[ROUNDS]);
    }
}

/// One round of the first `LANES` blocks.
#[inline]
#[target_feature(enable = "aes")]
pub(super) fn round<const ENCRYPT: bool, const LANES: usize>(data: &mut Group, key: __m128i) {
    in_step(data);
    for block in &mut data[..LANES] {
        *block = one_round::<ENCRYPT>(*block, key);
    }
}

/// Holds 8 blocks in registers at this point. Otherwise the compiler, to save registers, takes
/// them through their rounds one or two at a time, and waits for each.
#[inline(always)]
pub(super) fn in_step(data: &mut Group) {
    let [a, b, c, d, e, f, g, h] = data;
    // SAFETY: no instruction, so that all remain what they are.
    unsafe {
        asm!(
            "/* {0} {1} {2} {3} {4} {5} {6} {7} */",
            inout(xmm_reg) * a,
            inout(xmm_reg) * b,
            inout(xmm_reg) * c,
            inout(xmm_reg) * d,
            inout(xmm_reg) * e,
            inout(xmm_reg) * f,
            inout(xmm_reg) * g,
            inout(xmm_reg) * h,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
}

#[inline]
#[target_feature(enable = "aes")]
pub(super) fn one_round<const ENCRYPT: bool>(block: __m128i, key: __m128i) -> __m128i {
    if ENCRYPT {
        _mm_aesenc_si128(block, key)
    } else {
        _mm_aesdec_si128(block, key)
    }
}

#[inline]
#[target_feature(enable = "aes")]
pub(super) fn last_round<const ENCRYPT: bool>(block: __m128i, key: __m128i) -> __m128i {
    if ENCRYPT {
        _mm_aesenclast_si128(block, key)
    } else {
        _mm_aesdeclast_si128(block, key)
    }
}

#[inline]
pub(super) fn zero() -> __m128i {
    // SAFETY: SSE2 is in every x86-64.
    unsafe { _mm_setzero_si128() }
}
