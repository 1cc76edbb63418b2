//! Loops of nothing but AES rounds.

use core::arch::x86_64::*;
use core::hint::black_box;

use super::cpu::{AesNi, Proof, Vaes2, Vaes512};
use super::wide::Wide;
use super::{vaes2, vaes512};

/// Implements [`aes_rounds`](crate::probe::aes_rounds) with the widest registers.
pub(crate) fn aes_rounds(blocks: usize) -> bool {
    [Vaes512::FAMILY, Vaes2::FAMILY, AesNi::FAMILY]
        .into_iter()
        .any(|family| aes_rounds_by(family, blocks))
}

/// Implements [`aes_rounds_by`](crate::probe::aes_rounds_by), with the registers of a family.
pub(crate) fn aes_rounds_by(family: &str, blocks: usize) -> bool {
    match family {
        Vaes512::FAMILY if Vaes512::detect().is_some() => {
            // SAFETY: the CPU has the features, here and below.
            unsafe { wide(blocks / (vaes512::GROUP / 16)) };
        }
        Vaes2::FAMILY if Vaes2::detect().is_some() => {
            // SAFETY: as above.
            unsafe { half_as_wide(blocks / (vaes2::GROUP / 16)) };
        }
        AesNi::FAMILY if AesNi::detect().is_some() => {
            // SAFETY: as above.
            unsafe { narrow(blocks / NARROW) };
        }
        _ => return false,
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
