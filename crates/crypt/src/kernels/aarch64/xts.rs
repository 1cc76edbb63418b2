//! AES-XTS.
//!
//! The tweaks of 8 data units are encrypted together. The tweak of a block is made from the one before in vector
//! registers, by a shift and an exclusive or. Tweaks of data units, which are kept in memory, are wiped at the end
//! of the call; what the compiler leaves in registers or on the stack is not.

use core::arch::aarch64::*;

use zeroize::Zeroizing;

use super::block::{load, store, zero};
use super::key::{RoundKeys, round_key};
use super::mode::{Keys, Mode, kernel};
use super::rounds::{GROUP, rounds};
use crate::kernels::cursor::Cursor;
use crate::kernels::descriptor::Kernel;
use crate::kernels::groups::in_groups;
use crate::kernels::iv::{Batches, Block, Ivs};
use crate::kernels::opaque::opaque;
use crate::spec::Algorithm;

pub(super) const XTS_ARMV8: Kernel = kernel::<Xts>(Algorithm::AesXts, "xts-aes-armv8");

struct Xts;

impl Mode for Xts {
    const AES_KEYS: usize = 2;

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
        let mut ivs = Batches::new(ivs, units);
        let mut tweaks = Zeroizing::new([[0; 16]; GROUP]);
        let mut left = units;
        while left > 0 {
            encrypt_ivs::<ROUNDS>(opaque(&keys.tweak), ivs.next(), &mut tweaks);
            let here = left.min(GROUP);
            for tweak in &tweaks[..here] {
                // SAFETY: a data unit is left of the run. A tweak has 16 bytes.
                unsafe {
                    let tweak = vld1q_u8(tweak.as_ptr());
                    data_unit::<ROUNDS, ENCRYPT>(keys.of::<ENCRYPT>(), tweak, at, unit);
                    at = at.add(unit);
                }
            }
            left -= here;
        }
    }
}

/// Encrypts IVs, side by side.
#[inline]
#[target_feature(enable = "aes")]
fn encrypt_ivs<const ROUNDS: usize>(
    keys: &RoundKeys,
    ivs: &[Block; GROUP],
    tweaks: &mut [Block; GROUP],
) {
    let mut data = [zero(); GROUP];
    for (block, iv) in data.iter_mut().zip(ivs) {
        // SAFETY: an IV has 16 bytes.
        *block = unsafe { vld1q_u8(iv.as_ptr()) };
    }
    rounds::<ROUNDS, true, GROUP>(keys, &mut data);
    let last = round_key(keys, ROUNDS);
    for (tweak, block) in tweaks.iter_mut().zip(data) {
        // SAFETY: a tweak has 16 bytes.
        unsafe { vst1q_u8(tweak.as_mut_ptr(), veorq_u8(block, last)) };
    }
}

/// Transforms a data unit whose first tweak is `tweak`.
///
/// # Safety
/// It can be read and written `at`.
#[inline]
#[target_feature(enable = "aes")]
unsafe fn data_unit<const ROUNDS: usize, const ENCRYPT: bool>(
    keys: &RoundKeys,
    mut tweak: uint8x16_t,
    at: Cursor,
    unit: usize,
) {
    in_groups!(unit / 16, index, LANES => {
        // SAFETY: blocks `index` to `index + LANES` are in this data unit.
        unsafe {
            group::<ROUNDS, ENCRYPT, LANES>(opaque(keys), &mut tweak, at.add(16 * index));
        }
    });
}

/// Transforms `LANES` blocks, the first with `tweak`, which becomes the tweak of the block after them.
///
/// # Safety
/// They can be read and written `at`.
#[inline]
#[target_feature(enable = "aes")]
unsafe fn group<const ROUNDS: usize, const ENCRYPT: bool, const LANES: usize>(
    keys: &RoundKeys,
    tweak: &mut uint8x16_t,
    at: Cursor,
) {
    let mut tweaks = [*tweak; GROUP];
    let mut data = [*tweak; GROUP];
    for (lane, (block, kept)) in data[..LANES].iter_mut().zip(&mut tweaks).enumerate() {
        *kept = *tweak;
        // SAFETY: the caller promises the blocks.
        *block = veorq_u8(unsafe { load(at.source, lane) }, *tweak);
        *tweak = next(*tweak);
    }
    rounds::<ROUNDS, ENCRYPT, LANES>(keys, &mut data);
    let last = round_key(keys, ROUNDS);
    for (lane, (block, tweak)) in data[..LANES].iter().zip(tweaks).enumerate() {
        let output = veorq_u8(*block, veorq_u8(tweak, last));
        // SAFETY: as for the loads.
        unsafe { store(at.destination, lane, output) };
    }
}

/// The tweak of the next block: `tweak` times α in GF(2¹²⁸) (IEEE Std 1619, 5.2). In constant time.
#[inline]
#[target_feature(enable = "neon")]
fn next(tweak: uint8x16_t) -> uint8x16_t {
    // What the carry out of the upper half adds to the lower one (α¹²⁸), and that of the lower half to the upper one.
    let additions = vcombine_u64(vcreate_u64(0x87), vcreate_u64(1));
    let halves = vreinterpretq_s64_u8(tweak);
    let carries = vreinterpretq_u64_s64(vshrq_n_s64::<63>(halves));
    let carried = vandq_u64(vextq_u64::<1>(carries, carries), additions);
    let doubled = vreinterpretq_u64_s64(vshlq_n_s64::<1>(halves));
    vreinterpretq_u8_u64(veorq_u64(doubled, carried))
}
