//! Loop of nothing but AES rounds.

use core::arch::aarch64::*;
use core::hint::black_box;

use super::cpu::{Aes, FAMILY};
use super::rounds::{GROUP, one_round};

/// The loop of [`aes_rounds`](crate::probe::aes_rounds), where the CPU has AES instructions.
pub(crate) fn aes_rounds(blocks: usize) -> bool {
    aes_rounds_by(FAMILY, blocks)
}

/// The loop of [`aes_rounds_by`](crate::probe::aes_rounds_by); its one family is that of these kernels.
pub(crate) fn aes_rounds_by(family: &str, blocks: usize) -> bool {
    if family != FAMILY || Aes::detect().is_none() {
        return false;
    }
    // SAFETY: the CPU has the feature.
    unsafe { some_rounds(blocks / GROUP) };
    true
}

/// A round for each of the blocks in flight, `turns` times.
#[target_feature(enable = "aes")]
fn some_rounds(turns: usize) {
    let key = vdupq_n_u8(black_box(7));
    let mut data = [key; GROUP];
    for _ in 0..turns {
        for block in &mut data {
            *block = one_round::<true>(*block, key);
        }
    }
    black_box(data);
}
