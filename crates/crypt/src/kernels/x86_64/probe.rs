//! Loops of nothing but AES rounds.

use core::arch::x86_64::*;
use core::hint::black_box;

use super::cpu::{AesNi, Proof, Vaes2, Vaes512};
use super::{vaes2, vaes512};

/// Implements [`aes_rounds`](crate::probe::aes_rounds) with the widest registers.
pub(crate) fn aes_rounds(blocks: usize) -> bool {
    if Vaes512::detect().is_some() {
        // SAFETY: the CPU has the features.
        unsafe { wide(blocks / (vaes512::GROUP / 16)) };
    } else if Vaes2::detect().is_some() {
        // SAFETY: as above.
        unsafe { half_as_wide(blocks / (vaes2::GROUP / 16)) };
    } else if AesNi::detect().is_some() {
        // SAFETY: as above.
        unsafe { narrow(blocks / NARROW) };
    } else {
        return false;
    }
    true
}

#[target_feature(enable = "vaes,avx512f")]
fn wide(turns: usize) {
    let key = _mm512_set1_epi32(black_box(7));
    let mut data = [key; vaes512::WIDTH];
    for _ in 0..turns {
        vaes512::round::<true>(&mut data, key);
    }
    black_box(data);
}

#[target_feature(enable = "vaes,avx2")]
fn half_as_wide(turns: usize) {
    let key = _mm256_set1_epi32(black_box(7));
    let mut data = [key; vaes2::WIDTH];
    for _ in 0..turns {
        vaes2::round::<true>(&mut data, key);
    }
    black_box(data);
}

/// Blocks in flight one by one: enough for any latency, and as many as there are registers for.
const NARROW: usize = 12;

#[target_feature(enable = "aes")]
fn narrow(turns: usize) {
    let key = _mm_set1_epi32(black_box(7));
    let mut data = [key; NARROW];
    for _ in 0..turns {
        for block in &mut data {
            *block = _mm_aesenc_si128(*block, key);
        }
    }
    black_box(data);
}
