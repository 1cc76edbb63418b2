//! AES-XTS at any width whose tweaks are made by general registers, two groups of blocks ahead of the data.
//!
//! A tweak is written in two halves, and read as a part of a register. A processor cannot forward two stores to one load:
//! it waits until they are in the cache. So the tweaks of a group are made while the group two before it is transformed.

use zeroize::Zeroize;

use super::aes::{Aes, WIDTH, some_rounds};
use super::ahead::Ahead;
use super::chain::Chain;
use super::wide::{Schedule, Wide};
use super::xts::{
    Keys, NextIvs, Tweaks, WideXts, begin_blocks, end_blocks, fill, group_bytes, next_unit,
};
use crate::kernels::cursor::Cursor;
use crate::kernels::opaque::opaque;

/// Tweaks of blocks by general registers.
pub(super) struct Scalar;

/// One register of tweaks for each of the blocks in flight.
type Group<W> = [<W as Wide>::Register; WIDTH];

/// Tweaks of the next two groups, and how those that follow are made.
#[repr(C, align(64))]
pub(super) struct Ring<W: Aes> {
    /// The third is room for those that are made next.
    groups: [Group<W>; 3],
    /// Index of the next group.
    next: usize,
    chain: Chain,
    /// Bytes of the data unit of `chain` that have no tweaks yet.
    unmade: usize,
    /// Bytes of a data unit.
    unit: usize,
}

impl<W: Aes> Zeroize for Ring<W> {
    fn zeroize(&mut self) {
        self.groups.zeroize();
        self.chain.zeroize();
    }
}

impl<W: WideXts> Tweaks<W> for Scalar {
    type Kept = Ring<W>;
    const NOTHING: Ring<W> = Ring {
        groups: [[W::ZERO; WIDTH]; 3],
        next: 0,
        chain: Chain::NONE,
        unmade: 0,
        unit: 0,
    };

    /// Two groups are of two data units if each is one.
    #[inline(always)]
    fn begun(kept: &Ring<W>, unit: usize) -> Option<usize> {
        let of_two = unit == group_bytes::<W>();
        (kept.unit == unit).then_some(1 + usize::from(of_two))
    }

    #[inline(always)]
    fn begin<const ROUNDS: usize>(
        width: W,
        keys: &Keys<W, Self>,
        ivs: &mut impl NextIvs,
        ahead: &mut Ahead<Ring<W>>,
        unit: usize,
    ) {
        let Ahead { blocks, units } = ahead;
        let (mut chain, mut unmade) = (Chain::NONE, 0);
        for group in &mut blocks.groups[..2] {
            if unmade == 0 {
                unmade = unit;
                chain = Chain::from(next_unit::<W, Self, ROUNDS>(width, keys, ivs, units));
            }
            unmade -= group_bytes::<W>();
            fill::<W>(&mut chain, group);
        }
        (blocks.chain, blocks.unmade, blocks.next) = (chain, unmade, 0);
        blocks.unit = unit;
    }

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn whole_units<const ROUNDS: usize, const ENCRYPT: bool>(
        width: W,
        keys: &Keys<W, Self>,
        ivs: &mut impl NextIvs,
        ahead: &mut Ahead<Ring<W>>,
        mut at: Cursor,
        unit: usize,
        units: usize,
    ) {
        let Ahead {
            blocks,
            units: unit_tweaks,
        } = ahead;
        let data = keys.data.of::<ENCRYPT>();
        let (mut chain, mut unmade, mut next) = (blocks.chain, blocks.unmade, blocks.next);
        let mut left = unit * units;
        while left > 0 {
            if unmade == 0 {
                unmade = unit;
                let tweak = next_unit::<W, Self, ROUNDS>(width, keys, ivs, unit_tweaks);
                chain = Chain::from(tweak);
            }
            at.prefetch(group_bytes::<W>(), left);
            let (tweaks, room) = this_and_room(&mut blocks.groups, next);
            // SAFETY: at least a group is left of the run.
            unsafe {
                group::<W, ROUNDS, ENCRYPT>(width, data, tweaks, room, &mut chain, at);
                at = at.add(group_bytes::<W>());
            }
            unmade -= group_bytes::<W>();
            left -= group_bytes::<W>();
            next = following(next);
        }
        (blocks.chain, blocks.unmade, blocks.next) = (chain, unmade, next);
    }
}

/// The group of the ring after this one.
#[inline(always)]
fn following(index: usize) -> usize {
    if index == 2 { 0 } else { index + 1 }
}

/// The group at `index`, and the one after the next.
#[inline(always)]
fn this_and_room<G>(groups: &mut [G; 3], index: usize) -> (&G, &mut G) {
    let [a, b, c] = groups;
    match index {
        0 => (a, c),
        1 => (b, a),
        _ => (c, b),
    }
}

/// Transforms a group with `tweaks`, and writes the next ones of `chain` to `room`.
///
/// # Safety
/// The blocks of a group can be read and written `at`.
#[inline(always)]
unsafe fn group<W: Aes, const ROUNDS: usize, const ENCRYPT: bool>(
    width: W,
    keys: &Schedule<W>,
    tweaks: &Group<W>,
    room: &mut Group<W>,
    chain: &mut Chain,
    at: Cursor,
) {
    let (keys, blocks) = (opaque(keys), W::LANES * WIDTH);
    // SAFETY: the caller promises the blocks.
    let mut data = unsafe { begin_blocks::<W, WIDTH, true>(width, keys[0], tweaks, at, blocks) };
    // Spelt out: as a loop it would not be unrolled, and the index is part of the instructions.
    macro_rules! round_and_tweaks {
        ($($index:literal)*) => {
            $(
                some_rounds::<W, ENCRYPT, WIDTH>(width, &keys[1 + $index..2 + $index], &mut data);
                // SAFETY: register `index` is in the group.
                unsafe { chain.fill_register::<W, $index>(room) };
            )*
        };
    }
    round_and_tweaks!(0 1 2 3 4 5 6 7);
    some_rounds::<W, ENCRYPT, WIDTH>(width, &keys[1 + WIDTH..ROUNDS], &mut data);
    width.in_step(&mut data);
    // SAFETY: as for the start.
    unsafe {
        end_blocks::<W, ENCRYPT, WIDTH, true>(width, keys[ROUNDS], tweaks, &data, at, blocks);
    }
}
