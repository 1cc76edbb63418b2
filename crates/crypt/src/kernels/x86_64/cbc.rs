//! AES-CBC with VAES at any width.
//!
//! *Encryption*: within a data unit each block waits for the one before. So 16 units go side by side,
//! a lane each, and of fewer as many as there are. Data units lie a power of two apart, so that in
//! the L1 cache all 16 share a few places, and a line would be gone before its second block is taken.
//! So lines are moved as a whole: four blocks of each unit are gathered in memory of our own, where
//! blocks that go together lie together, encrypted there and scattered, all while the lines before
//! them or after them are encrypted. What was plaintext in there is ciphertext at the end, and
//! nothing need be wiped.
//!
//! *Decryption* has no such chain.

use super::aes::{Aes, WIDTH, in_groups_of_registers, rounds, some_rounds};
use super::opaque::opaque_mut;
use super::wide::{Mode, Schedule, Schedules, Wide};
use crate::kernels::cursor::Cursor;
use crate::kernels::iv::{Batches, Block, Ivs, OneByOne};
use crate::kernels::opaque::opaque;

/// A width for which there is a kernel.
pub(super) trait WideCbc: Aes {
    /// For each of `blocks` the block before it, where the last of `before` comes before the first.
    fn preceding(self, before: Self::Register, blocks: Self::Register) -> Self::Register;

    /// A line of each of as many data units as there are lanes; `offsets` are their distances from
    /// `source` in bytes. The first register gets the first block of each, and so on; when lines
    /// are not `WHOLE` only the first `blocks` are read, and the others are zero.
    ///
    /// # Safety
    /// They can be read.
    unsafe fn gather<const WHOLE: bool>(
        self,
        source: *const u8,
        offsets: &[usize],
        blocks: usize,
    ) -> Lines<Self>;

    /// The reverse of [`gather`](Self::gather): scatters lines.
    ///
    /// # Safety
    /// They can be written.
    unsafe fn scatter<const WHOLE: bool>(
        self,
        destination: *mut u8,
        offsets: &[usize],
        blocks: usize,
        lines: Lines<Self>,
    );
}

/// Blocks in a line of the cache.
const LINE: usize = 4;

/// A line of several data units: a register for each place in it.
pub(super) type Lines<W> = [<W as Wide>::Register; LINE];

/// Data units side by side: what one AES unit of 512 bits or two of 256 need, at a latency of 4
/// cycles.
const UNITS: usize = 16;

pub(super) struct Cbc;

impl<W: WideCbc> Mode<W> for Cbc {
    type Keys = Schedules<W>;

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
        let keys = keys.of::<ENCRYPT>();
        // SAFETY: the caller promises what is to be read and written.
        unsafe {
            if ENCRYPT {
                encrypt::<W, ROUNDS>(width, keys, ivs, at, unit, units);
            } else {
                decrypt::<W, ROUNDS>(width, keys, ivs, at, unit, units);
            }
        }
    }
}

/// # Safety
/// `units` data units of `unit` bytes can be read and written `at`.
#[inline(always)]
unsafe fn encrypt<W: WideCbc, const ROUNDS: usize>(
    width: W,
    keys: &Schedule<W>,
    ivs: &mut Ivs<'_>,
    mut at: Cursor,
    unit: usize,
    units: usize,
) {
    let mut ivs = Batches::new(ivs, units);
    let mut left = units;
    while left > 0 {
        let units = left.min(UNITS);
        let first = ivs.next();
        // SAFETY: so many units are left of the run.
        unsafe {
            match units.div_ceil(W::LANES) {
                1 => side_by_side::<W, ROUNDS, 1>(width, keys, first, at, unit, units),
                2 => side_by_side::<W, ROUNDS, 2>(width, keys, first, at, unit, units),
                3..=4 => side_by_side::<W, ROUNDS, 4>(width, keys, first, at, unit, units),
                _ => side_by_side::<W, ROUNDS, 8>(width, keys, first, at, unit, units),
            }
            at = at.add(units * unit);
        }
        left -= units;
    }
}

/// Encrypts `units` data units, 1 to 16, side by side in `N` registers. Lanes that are left over do
/// again what the last unit's does, and write to the same place: of a source that others change
/// meanwhile they may make something else of it, but of every line of the unit the last lane's is
/// written last, and stays.
///
/// # Safety
/// `units` data units can be read and written `at`.
#[inline(always)]
unsafe fn side_by_side<W: WideCbc, const ROUNDS: usize, const N: usize>(
    width: W,
    keys: &Schedule<W>,
    ivs: &[Block; UNITS],
    mut at: Cursor,
    unit: usize,
    units: usize,
) {
    let mut chain = [W::ZERO; WIDTH];
    for (register, ivs) in chain[..N].iter_mut().zip(ivs.chunks_exact(W::LANES)) {
        // SAFETY: as many IVs as lanes.
        *register = unsafe { width.load::<true>(ivs.as_ptr().cast(), W::LANES) };
    }
    let lanes = Lanes::<W, N> {
        width,
        keys,
        offsets: core::array::from_fn(|lane| lane.min(units - 1) * unit),
    };
    let mut rooms = [[[W::ZERO; LINE]; N]; 2];
    let [this, other] = &mut rooms;
    let (mut this, mut other) = (opaque_mut(this), opaque_mut(other));
    let (whole, rest) = (unit / 16 / LINE, unit / 16 % LINE);
    // SAFETY: so many lines are in each unit, and behind them so many blocks.
    unsafe {
        if whole > 0 {
            lanes.gather::<true>(this, 0..N, at, LINE);
        }
        let mut before = None;
        for number in 1..=whole {
            let next = at.add(16 * LINE);
            let after = (number < whole).then_some(next);
            for place in 0..LINE {
                lanes.encrypt::<ROUNDS>(&mut chain, this, place, (other, before, after));
            }
            (this, other) = (other, this);
            before = Some(at);
            at = next;
        }
        if let Some(last) = before {
            lanes.scatter::<true>(other, 0..N, last, LINE);
        }
        if rest > 0 {
            lanes.gather::<false>(this, 0..N, at, rest);
            for place in 0..rest {
                lanes.encrypt::<ROUNDS>(&mut chain, this, place, (other, None, None));
            }
            lanes.scatter::<false>(this, 0..N, at, rest);
        }
    }
}

/// Data units, a lane of `N` registers each.
struct Lanes<'a, W: WideCbc, const N: usize> {
    width: W,
    keys: &'a Schedule<W>,
    /// Offsets of the data units, in bytes from the first.
    offsets: [usize; UNITS],
}

/// A line of each data unit.
type Room<W, const N: usize> = [Lines<W>; N];

impl<W: WideCbc, const N: usize> Lanes<'_, W, N> {
    /// Encrypts the blocks at one place of the lines in a room; `chain` is the ciphertext before
    /// them, and then theirs. Meanwhile a quarter of the other room is emptied, of the lines
    /// `before`, and filled again, with those `after`: not in one lump, which would fill the
    /// scheduler, all the more when two threads share it, so that no round would get in.
    ///
    /// # Safety
    /// The lines `before` can be written, and those `after` read.
    #[inline(always)]
    unsafe fn encrypt<const ROUNDS: usize>(
        &self,
        chain: &mut [W::Register; WIDTH],
        room: &mut Room<W, N>,
        place: usize,
        (other, before, after): (&mut Room<W, N>, Option<Cursor>, Option<Cursor>),
    ) {
        let (width, keys) = (self.width, opaque(self.keys));
        for (register, lines) in chain.iter_mut().zip(room.iter()) {
            *register = width.xor3(*register, lines[place], keys[0]);
        }
        let quarter = (place..N).step_by(LINE);
        some_rounds::<W, true, N>(width, &keys[1..3], chain);
        if let Some(at) = before {
            // SAFETY: the caller promises the lines.
            unsafe { self.scatter::<true>(other, quarter.clone(), at, LINE) };
        }
        some_rounds::<W, true, N>(width, &keys[3..7], chain);
        if let Some(at) = after {
            // SAFETY: as above.
            unsafe { self.gather::<true>(other, quarter, at, LINE) };
        }
        some_rounds::<W, true, N>(width, &keys[7..ROUNDS], chain);
        width.in_step(chain);
        for (register, lines) in chain.iter_mut().zip(room) {
            *register = width.last_round::<true>(*register, keys[ROUNDS]);
            lines[place] = *register;
        }
    }

    /// Fills the part of `room` that goes with `registers` with lines, or the first `blocks` of them.
    ///
    /// # Safety
    /// They can be read `at`.
    #[inline(always)]
    unsafe fn gather<const WHOLE: bool>(
        &self,
        room: &mut Room<W, N>,
        registers: impl Iterator<Item = usize>,
        at: Cursor,
        blocks: usize,
    ) {
        for register in registers {
            let offsets = self.offsets(register);
            // SAFETY: the caller promises what is read.
            room[register] = unsafe { self.width.gather::<WHOLE>(at.source, offsets, blocks) };
        }
    }

    /// The reverse of [`gather`](Self::gather): scatters lines.
    ///
    /// # Safety
    /// They can be written `at`.
    #[inline(always)]
    unsafe fn scatter<const WHOLE: bool>(
        &self,
        room: &Room<W, N>,
        registers: impl Iterator<Item = usize>,
        at: Cursor,
        blocks: usize,
    ) {
        for register in registers {
            let (offsets, lines) = (self.offsets(register), room[register]);
            // SAFETY: the caller promises what is written.
            unsafe { (self.width).scatter::<WHOLE>(at.destination, offsets, blocks, lines) };
        }
    }

    #[inline(always)]
    fn offsets(&self, register: usize) -> &[usize] {
        &self.offsets[register * W::LANES..][..W::LANES]
    }
}

/// # Safety
/// `units` data units of `unit` bytes can be read and written `at`.
#[inline(always)]
unsafe fn decrypt<W: WideCbc, const ROUNDS: usize>(
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
        let mut before = width.in_every_lane(ivs.next());
        in_groups_of_registers!(W::LANES, unit / 16, |_index, N, WHOLE, len| {
            // SAFETY: so many blocks are left of this data unit.
            unsafe {
                at.prefetch(16 * len, left);
                before = group::<W, ROUNDS, N, WHOLE>(width, keys, before, at, len);
                at = at.add(16 * len);
            }
            left -= 16 * len;
        });
    }
}

/// Decrypts `N` registers of blocks, or the first `blocks` blocks of one, that follow the ciphertext
/// block in the last lane of `before`; returns the last register of ciphertext.
///
/// # Safety
/// They can be read and written `at`.
#[inline(always)]
unsafe fn group<W: WideCbc, const ROUNDS: usize, const N: usize, const WHOLE: bool>(
    width: W,
    keys: &Schedule<W>,
    mut before: W::Register,
    at: Cursor,
    blocks: usize,
) -> W::Register {
    let keys = opaque(keys);
    let bytes = 16 * W::LANES;
    let mut data = [W::ZERO; WIDTH];
    for (index, register) in data[..N].iter_mut().enumerate() {
        // SAFETY: the caller promises the blocks.
        let input = unsafe { width.load::<WHOLE>(at.source.wrapping_add(bytes * index), blocks) };
        *register = width.xor(input, keys[0]);
    }
    rounds::<W, ROUNDS, false, N>(width, keys, &mut data);
    for (index, register) in data[..N].iter().enumerate() {
        // SAFETY: as above. In place, what is read here has not been written yet.
        unsafe {
            let input = width.load::<WHOLE>(at.source.wrapping_add(bytes * index), blocks);
            let key = width.xor(keys[ROUNDS], width.preceding(before, input));
            before = input;
            let output = width.last_round::<false>(*register, key);
            let to = at.destination.wrapping_add(bytes * index);
            width.store::<WHOLE>(to, blocks, output);
        }
    }
    before
}
