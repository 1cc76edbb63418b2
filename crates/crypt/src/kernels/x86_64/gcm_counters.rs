//! Counters of AES-GCM after the first round of AES, most of which is looked up.
//!
//! Numbers 256·n to 256·n + 255 differ in the last byte alone. The first round takes that byte to the first of its result's
//! four columns, and no other byte of a counter's number with it. So a round on one counter, and a table of what its last
//! byte changes, are as good as a round on each: one of the 14 or 10 that bound the kernel is saved (J. H. Park, D. H. Lee:
//! FACE: Fast AES CTR mode Encryption Techniques based on the Reuse of Repetitive Data, TCHES 2018). A table is read at a
//! counter, which is no secret, so that the time tells nothing.

use zeroize::Zeroize;

use super::aes::WIDTH;
use super::gcm_width::WideGcm;
use super::wide::{Schedule, Wide};

/// Changes of the first column after a round by the last byte of a block, by its value: each as a number of the column's
/// four bytes, little endian.
#[repr(C, align(64))]
pub(super) struct FirstColumns([u32; 256]);

impl FirstColumns {
    pub(super) const EMPTY: Self = Self([0; 256]);

    /// Computes them for the key of a schedule, in their place.
    #[inline(always)]
    pub(super) fn set_up<W: WideGcm>(&mut self, width: W, schedule: &Schedule<W>) {
        for (value, column) in self.0.iter_mut().enumerate() {
            let block = width.xor(width.in_every_lane((value as u128) << 120), schedule[0]);
            let after = width.first_lane(width.one_round::<true>(block, W::ZERO));
            let [a, b, c, d, ..] = after.to_le_bytes();
            *column = u32::from_le_bytes([a, b, c, d]);
        }
        let unchanged = self.0[0];
        for column in &mut self.0 {
            *column ^= unchanged;
        }
    }
}

impl Drop for FirstColumns {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Round keys, with the table for the first of them.
pub(super) struct FirstRound<'a, W: Wide> {
    pub(super) schedule: &'a Schedule<W>,
    pub(super) columns: &'a FirstColumns,
}

/// Counters of a group, the first of which is 2 modulo the group's length, as in a message, whose first block has the
/// number 2. So only the group's last two numbers may carry into the last byte but one.
#[derive(Clone, Copy)]
pub(super) struct Counters<W: Wide> {
    /// The first one, little endian, in every lane.
    first: W::Register,
    /// The last byte of that counter.
    last_byte: usize,
}

impl<W: WideGcm> Counters<W> {
    /// The counters of the group that begins with the counter `first`.
    ///
    /// # Panics
    /// When it is not 2 modulo the group's length.
    #[inline(always)]
    pub(super) fn new(width: W, first: u128) -> Self {
        let last_byte = usize::from(first.to_le_bytes()[0]);
        assert_eq!(
            last_byte % (WIDTH * W::LANES),
            2,
            "first counter of a group"
        );
        Self {
            first: width.in_every_lane(first),
            last_byte,
        }
    }

    /// The counters of the group that follows.
    #[inline(always)]
    pub(super) fn next(self, width: W) -> Self {
        let group = WIDTH * W::LANES;
        Self {
            first: width.plus(self.first, width.in_every_lane(group as u128)),
            last_byte: (self.last_byte + group) % 256,
        }
    }

    /// The counter that all of a group have in common but those of its last two blocks, with a last byte of 0, after the
    /// first round.
    #[inline(always)]
    pub(super) fn common(self, width: W, round: &FirstRound<'_, W>) -> W::Register {
        first_round(width, round, width.reversed_but_one(self.first))
    }

    /// Register `index` of the group after the first round, given what is [`common`](Self::common).
    #[inline(always)]
    pub(super) fn after_round(
        self,
        width: W,
        round: &FirstRound<'_, W>,
        common: W::Register,
        index: usize,
    ) -> W::Register {
        if 2 + W::LANES * (index + 1) > W::LANES * WIDTH {
            return first_round(width, round, width.counters(self.first, index));
        }
        let columns = round.columns.0.as_ptr();
        let columns = columns.wrapping_add(self.last_byte + W::LANES * index);
        // SAFETY: `new` and `next` see to it that `last_byte` is at most 256 less the group's length, and 2 more; the
        // register is one of the group's, and ends 2 or more before the group. So all are among the 256.
        let columns = unsafe { width.first_columns(columns) };
        width.xor(common, columns)
    }

    /// All registers of the group after the first round.
    #[inline(always)]
    pub(super) fn group(self, width: W, round: &FirstRound<'_, W>) -> [W::Register; WIDTH] {
        let common = self.common(width, round);
        let mut group = [W::ZERO; WIDTH];
        for (index, register) in group.iter_mut().enumerate() {
            *register = self.after_round(width, round, common, index);
        }
        group
    }
}

#[inline(always)]
fn first_round<W: WideGcm>(
    width: W,
    round: &FirstRound<'_, W>,
    counters: W::Register,
) -> W::Register {
    let [first, second, ..] = round.schedule;
    width.one_round::<true>(width.xor(counters, *first), *second)
}
