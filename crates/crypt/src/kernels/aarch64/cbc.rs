//! AES-CBC.
//!
//! Within a data unit each block's encryption waits for the one before. So 8 data units go side by side, and of the
//! last ones 4, 2 and 1. Decryption has no such chain, and takes 8 blocks of one unit.

use core::arch::aarch64::*;

use super::block::{block, load, store, zero};
use super::key::{RoundKeys, round_key};
use super::mode::{Keys, Mode, kernel};
use super::rounds::{GROUP, rounds};
use crate::kernels::cursor::Cursor;
use crate::kernels::descriptor::Kernel;
use crate::kernels::groups::in_groups;
use crate::kernels::iv::{Ivs, OneByOne};
use crate::kernels::opaque::opaque;
use crate::spec::Algorithm;

pub(super) const CBC_ARMV8: Kernel = kernel::<Cbc>(Algorithm::AesCbc, "cbc-aes-armv8");

struct Cbc;

impl Mode for Cbc {
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
        let keys = keys.of::<ENCRYPT>();
        let mut ivs = OneByOne::new(ivs, units);
        if ENCRYPT {
            in_groups!(units, index, LANES => {
                // SAFETY: data units `index` to `index + LANES` are in the run.
                unsafe { side_by_side::<ROUNDS, LANES>(keys, &mut ivs, at.add(index * unit), unit) };
            });
            return;
        }
        for _ in 0..units {
            let mut before = block(ivs.next());
            in_groups!(unit / 16, index, LANES => {
                // SAFETY: blocks `index` to `index + LANES` are in this data unit.
                before = unsafe { decrypt::<ROUNDS, LANES>(opaque(keys), before, at.add(16 * index)) };
            });
            // SAFETY: this data unit is in the run.
            at = unsafe { at.add(unit) };
        }
    }
}

/// Encrypts `LANES` data units of `unit` bytes side by side.
///
/// # Safety
/// `LANES` data units can be read and written `at`.
#[inline(never)]
#[target_feature(enable = "aes")]
unsafe fn side_by_side<const ROUNDS: usize, const LANES: usize>(
    keys: &RoundKeys,
    ivs: &mut OneByOne<'_, '_>,
    at: Cursor,
    unit: usize,
) {
    let mut chain = [zero(); GROUP];
    for iv in &mut chain[..LANES] {
        *iv = block(ivs.next());
    }
    for block_at in (0..unit).step_by(16) {
        for (lane, block) in chain[..LANES].iter_mut().enumerate() {
            // SAFETY: the caller promises these data units; `block_at` is a block within one.
            let plain = unsafe { load(at.source.add(lane * unit + block_at), 0) };
            *block = veorq_u8(*block, plain);
        }
        let keys = opaque(keys);
        rounds::<ROUNDS, true, LANES>(keys, &mut chain);
        let last = round_key(keys, ROUNDS);
        for (lane, block) in chain[..LANES].iter_mut().enumerate() {
            *block = veorq_u8(*block, last);
            // SAFETY: as for the loads.
            unsafe { store(at.destination.add(lane * unit + block_at), 0, *block) };
        }
    }
}

/// Decrypts `LANES` blocks that follow the ciphertext block `before`; returns the last ciphertext
/// block.
///
/// # Safety
/// `LANES` blocks can be read and written `at`.
#[inline]
#[target_feature(enable = "aes")]
unsafe fn decrypt<const ROUNDS: usize, const LANES: usize>(
    keys: &RoundKeys,
    mut before: uint8x16_t,
    at: Cursor,
) -> uint8x16_t {
    let mut ciphertext = [zero(); GROUP];
    for (lane, block) in ciphertext[..LANES].iter_mut().enumerate() {
        // SAFETY: the caller promises these blocks.
        *block = unsafe { load(at.source, lane) };
    }
    let mut data = ciphertext;
    rounds::<ROUNDS, false, LANES>(keys, &mut data);
    let last = round_key(keys, ROUNDS);
    for (lane, (block, kept)) in data[..LANES].iter().zip(ciphertext).enumerate() {
        let plain = veorq_u8(*block, veorq_u8(before, last));
        before = kept;
        // SAFETY: as for the loads above.
        unsafe { store(at.destination, lane, plain) };
    }
    before
}
