//! AES-CTR at any width.
//!
//! The counter has 128 bits and any start. A group that begins at a multiple of its size, as all do that begin at 0,
//! counts in its last bits: those are added without a carry, to what the group has in common. Otherwise the halves of a
//! counter count by themselves in vector registers, so that a group whose lower half would carry, which hardly ever comes,
//! is counted in general ones. These are branches on a number that is not a secret.

use super::aes::{Aes, WIDTH, in_groups_of_registers, rounds};
use super::opaque::in_general_registers;
use super::wide::{Mode, Schedule, Schedules};
use crate::kernels::cursor::Cursor;
use crate::kernels::iv::{Ivs, OneByOne};
use crate::kernels::opaque::opaque;

/// A width for which there is a kernel.
pub(super) trait WideCtr: Aes {
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
    let keys = opaque(keys);
    let bytes = 16 * W::LANES;
    let mut data = begin::<W, N>(width, keys[0], counter);
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

/// `N` registers of counters from `counter` on, after the first addition of a key.
#[inline(always)]
fn begin<W: WideCtr, const N: usize>(
    width: W,
    key: W::Register,
    counter: u128,
) -> [W::Register; WIDTH] {
    const LOWER_HALF: u128 = u64::MAX as u128;
    let blocks = (N * W::LANES) as u128;
    let mut data = [W::ZERO; WIDTH];
    // So it always is with the IVs of `plain` and `plain64`.
    if counter.is_multiple_of(blocks) {
        let first = in_general_registers(counter).swap_bytes();
        let first = width.xor(width.in_every_lane(first), key);
        for (index, register) in data[..N].iter_mut().enumerate() {
            let from = NUMBERS.as_ptr().wrapping_add(index * W::LANES);
            // SAFETY: no group has more than 32 blocks.
            *register = width.xor(first, unsafe { width.load::<true>(from.cast(), W::LANES) });
        }
        return data;
    }
    if LOWER_HALF - (counter & LOWER_HALF) >= blocks {
        let first = width.in_every_lane(counter);
        for (index, register) in data[..N].iter_mut().enumerate() {
            *register = width.counters(first, index);
        }
    } else {
        data = carrying_counters::<W, N>(width, counter);
    }
    for register in &mut data[..N] {
        *register = width.xor(*register, key);
    }
    data
}

/// The numbers of the blocks of a group, big endian. Added to a multiple of their count they are added without a carry.
static NUMBERS: Numbers = Numbers::of_blocks();

/// In the order of memory, and where a register's load stays within a cache line.
#[repr(C, align(64))]
struct Numbers([[u8; 16]; 32]);

impl Numbers {
    const fn of_blocks() -> Self {
        let mut numbers = [[0; 16]; 32];
        let mut number = 0u8;
        while number < 32 {
            numbers[number as usize][15] = number;
            number += 1;
        }
        Self(numbers)
    }

    fn as_ptr(&self) -> *const [u8; 16] {
        self.0.as_ptr()
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
