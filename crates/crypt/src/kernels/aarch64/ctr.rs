//! AES-CTR, with a counter of 128 bits and any start.

use core::arch::aarch64::*;

use super::block::{block, load, store, zero};
use super::key::{RoundKeys, round_key};
use super::mode::{Keys, Mode, kernel};
use super::rounds::{GROUP, Group, rounds};
use crate::kernels::cursor::Cursor;
use crate::kernels::descriptor::Kernel;
use crate::kernels::groups::in_groups;
use crate::kernels::iv::{Ivs, OneByOne};
use crate::kernels::opaque::opaque;
use crate::spec::Algorithm;

pub(super) const CTR_ARMV8: Kernel = kernel::<Ctr>(Algorithm::AesCtr, "ctr-aes-armv8");

struct Ctr;

impl Mode for Ctr {
    const ONE_DIRECTION: bool = true;

    /// # Safety
    /// As the trait says.
    #[target_feature(enable = "aes")]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        keys: &Keys,
        ivs: &mut Ivs<'_>,
        mut at: Cursor,
        unit: usize,
        units: usize,
    ) {
        let mut ivs = OneByOne::new(ivs, units);
        for _ in 0..units {
            let mut counter = ivs.next().swap_bytes();
            in_groups!(unit / 16, _index, LANES => {
                // SAFETY: `LANES` blocks are left of this data unit.
                unsafe {
                    group::<ROUNDS, LANES>(opaque(keys.of::<true>()), counter, at);
                    at = at.add(16 * LANES);
                }
                counter = counter.wrapping_add(LANES as u128);
            });
        }
    }
}

/// Combines `LANES` blocks with the key stream from `counter` on.
///
/// # Safety
/// They can be read and written `at`.
#[inline]
#[target_feature(enable = "aes")]
unsafe fn group<const ROUNDS: usize, const LANES: usize>(
    keys: &RoundKeys,
    counter: u128,
    at: Cursor,
) {
    let stream = unfinished_stream::<ROUNDS, LANES>(keys, counter);
    let last = round_key(keys, ROUNDS);
    for (lane, stream) in stream[..LANES].iter().enumerate() {
        // SAFETY: the caller promises the blocks.
        unsafe {
            let input = load(at.source, lane);
            store(
                at.destination,
                lane,
                veorq_u8(*stream, veorq_u8(input, last)),
            );
        }
    }
}

/// The key stream of the first `LANES` blocks from `counter` on, without the addition of the last round key.
#[inline]
#[target_feature(enable = "aes")]
pub(super) fn unfinished_stream<const ROUNDS: usize, const LANES: usize>(
    keys: &RoundKeys,
    counter: u128,
) -> Group {
    let mut data = [zero(); GROUP];
    for (lane, input) in data[..LANES].iter_mut().enumerate() {
        *input = block(counter.wrapping_add(lane as u128).swap_bytes());
    }
    rounds::<ROUNDS, true, LANES>(keys, &mut data);
    data
}
