//! AES-ECB. Blocks know nothing of data units, so the run is taken as a whole.

use core::arch::aarch64::*;

use super::block::{load, store, zero};
use super::key::{RoundKeys, round_key};
use super::mode::{Keys, Mode, kernel};
use super::rounds::{GROUP, rounds};
use crate::kernels::cursor::Cursor;
use crate::kernels::descriptor::Kernel;
use crate::kernels::groups::in_groups;
use crate::kernels::iv::Ivs;
use crate::kernels::opaque::opaque;
use crate::spec::Algorithm;

pub(super) const ECB_ARMV8: Kernel = kernel::<Ecb>(Algorithm::AesEcb, "ecb-aes-armv8");

struct Ecb;

impl Mode for Ecb {
    /// # Safety
    /// As the trait says.
    #[target_feature(enable = "aes")]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        keys: &Keys,
        _: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    ) {
        let keys = keys.of::<ENCRYPT>();
        in_groups!(units * (unit / 16), index, LANES => {
            // SAFETY: blocks `index` to `index + LANES` are in the run.
            unsafe { group::<ROUNDS, ENCRYPT, LANES>(opaque(keys), at.add(16 * index)) };
        });
    }
}

/// Transforms `LANES` blocks.
///
/// # Safety
/// They can be read and written `at`.
#[inline]
#[target_feature(enable = "aes")]
unsafe fn group<const ROUNDS: usize, const ENCRYPT: bool, const LANES: usize>(
    keys: &RoundKeys,
    at: Cursor,
) {
    let mut data = [zero(); GROUP];
    for (lane, block) in data[..LANES].iter_mut().enumerate() {
        // SAFETY: the caller promises the blocks.
        *block = unsafe { load(at.source, lane) };
    }
    rounds::<ROUNDS, ENCRYPT, LANES>(keys, &mut data);
    let last = round_key(keys, ROUNDS);
    for (lane, block) in data[..LANES].iter().enumerate() {
        // SAFETY: as for the loads.
        unsafe { store(at.destination, lane, veorq_u8(*block, last)) };
    }
}
