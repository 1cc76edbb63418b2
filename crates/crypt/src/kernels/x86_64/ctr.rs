//! AES-CTR with VAES at any width.
//!
//! The counter has 128 bits and any start. In vector registers its halves count by themselves, so
//! that a group whose lower half would carry, which hardly ever comes, is counted in general ones.
//! That is a branch on a number that is not a secret.

use super::cursor::Cursor;
use super::opaque::opaque;
use super::vaes::{Vaes, WIDTH, in_groups_of_registers, rounds};
use super::wide::{Mode, Schedule, Schedules};
use crate::kernels::iv::{Ivs, OneByOne};

/// A width for which there is a kernel.
pub(super) trait WideCtr: Vaes {
    /// Register `index` of the counters from `first` on, big endian. `first` is in all lanes, little
    /// endian, and its lower half does not overflow.
    fn counters(self, first: Self::Register, index: usize) -> Self::Register;
}

pub(super) struct Ctr;

impl<W: WideCtr> Mode<W> for Ctr {
    type Keys = Schedules<W>;
    const ONE_DIRECTION: bool = true;

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        width: W,
        keys: &Schedules<W>,
        ivs: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    ) {
        // SAFETY: the caller promises what is to be read and written.
        unsafe { transform::<W, ROUNDS>(width, keys.of::<true>(), ivs, at, unit, units) }
    }
}

/// # Safety
/// `units` data units of `unit` bytes can be read and written `at`.
#[inline(always)]
unsafe fn transform<W: WideCtr, const ROUNDS: usize>(
    width: W,
    keys: &Schedule<W>,
    ivs: &mut Ivs<'_>,
    mut at: Cursor,
    unit: usize,
    units: usize,
) {
    let mut ivs = OneByOne::new(ivs, units);
    let mut left = units * unit;
    for _ in 0..units {
        let mut counter = ivs.next().swap_bytes();
        in_groups_of_registers!(W::LANES, unit / 16, |_index, N, WHOLE, len| {
            // SAFETY: so many blocks are left of this data unit.
            unsafe {
                at.prefetch(16 * len, left);
                group::<W, ROUNDS, N, WHOLE>(width, keys, counter, at, len);
                at = at.add(16 * len);
            }
            left -= 16 * len;
            counter = counter.wrapping_add(len as u128);
        });
    }
}

/// Combines `N` registers of blocks, or the first `blocks` blocks of one, with the key stream from
/// `counter` on.
///
/// # Safety
/// They can be read and written `at`.
#[inline(always)]
unsafe fn group<W: WideCtr, const ROUNDS: usize, const N: usize, const WHOLE: bool>(
    width: W,
    keys: &Schedule<W>,
    counter: u128,
    at: Cursor,
    blocks: usize,
) {
    const LOWER_HALF: u128 = u64::MAX as u128;
    let keys = opaque(keys);
    let bytes = 16 * W::LANES;
    let mut data = [W::ZERO; WIDTH];
    if LOWER_HALF - (counter & LOWER_HALF) >= (N * W::LANES) as u128 {
        let first = width.in_every_lane(counter);
        for (index, register) in data[..N].iter_mut().enumerate() {
            *register = width.counters(first, index);
        }
    } else {
        data = carrying_counters::<W, N>(width, counter);
    }
    for register in &mut data[..N] {
        *register = width.xor(*register, keys[0]);
    }
    rounds::<W, ROUNDS, true, N>(width, keys, &mut data);
    for (index, register) in data[..N].iter().enumerate() {
        // SAFETY: the caller promises the blocks.
        unsafe {
            let input = width.load::<WHOLE>(at.source.wrapping_add(bytes * index), blocks);
            // In time for the last round: the sum of key and data need not wait for it.
            let output = width.last_round::<true>(*register, width.xor(keys[ROUNDS], input));
            let to = at.destination.wrapping_add(bytes * index);
            width.store::<WHOLE>(to, blocks, output);
        }
    }
}

#[cold]
#[inline(never)]
fn carrying_counters<W: WideCtr, const N: usize>(width: W, first: u128) -> [W::Register; WIDTH] {
    let mut data = [W::ZERO; WIDTH];
    for (index, register) in data[..N].iter_mut().enumerate() {
        let mut blocks = [[0; 16]; 4];
        for (block, number) in blocks[..W::LANES].iter_mut().zip(index * W::LANES..) {
            *block = first.wrapping_add(number as u128).to_be_bytes();
        }
        // SAFETY: no register is larger than four blocks.
        *register = unsafe { width.load::<true>(blocks.as_ptr().cast(), W::LANES) };
    }
    data
}
