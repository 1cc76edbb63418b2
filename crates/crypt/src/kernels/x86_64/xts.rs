//! AES-XTS at any width: keys, and which tweaks are made when. Each width has its own code that
//! transforms blocks and makes their tweaks meanwhile.
//!
//! Tweaks that are kept in memory are wiped: with the keys where they stay for the next call, otherwise
//! at the end of the call. What the compiler leaves in registers or on the stack is not.

use core::arch::x86_64::*;

use scrim_sys::memory::Locked;
use zeroize::Zeroize;

use super::aesni::block;
use super::ahead::{Ahead, BATCH, Places, Units};
use super::cursor::Cursor;
use super::opaque::opaque;
use super::wide::{KeySet, Mode, Schedule, Schedules, Sectors, expand_to_encrypt};
use crate::kernels::iv::{Batches, Ivs, Numbers};

/// A width for which there is a kernel. Methods that name no CPU feature are inlined where they are
/// used.
pub(super) trait WideXts: Sectors {
    /// Bytes of the blocks in flight.
    const GROUP: usize;
    /// Data units of a multiple of this number of bytes, which all sectors are, take the fast way.
    const WHOLE: usize;
    /// Tweaks of blocks that are kept from one group to the next, and between calls.
    type Tweaks: Copy + Send + Zeroize;
    const NO_TWEAKS: Self::Tweaks;

    /// `units` data units of `unit` bytes, a multiple of [`WHOLE`](Self::WHOLE). In `ahead` are the
    /// tweaks of the first group, and at the end those of the group behind the last one.
    ///
    /// # Safety
    /// They can be read and written `at`.
    unsafe fn whole_units<const ROUNDS: usize, const ENCRYPT: bool>(
        self,
        keys: &Keys<Self>,
        ivs: &mut impl NextIvs,
        ahead: &mut Ahead<Self::Tweaks>,
        at: Cursor,
        unit: usize,
        units: usize,
    );

    /// The first `blocks` of a group; the tweak of the first is in all lanes of `first`. `room` is for
    /// the tweaks, and is wiped by the caller.
    ///
    /// # Safety
    /// They can be read and written `at`.
    unsafe fn part<const ROUNDS: usize, const ENCRYPT: bool>(
        self,
        keys: &Schedule<Self>,
        room: &mut Self::Tweaks,
        first: Self::Register,
        at: Cursor,
        blocks: usize,
    );

    /// The tweaks of the first group of a data unit, whose own tweak is in all lanes of `first`.
    fn first_group(self, first: Self::Register, tweaks: &mut Self::Tweaks);

    /// The tweak of the block a group further on.
    fn next_group(self, first: Self::Register) -> Self::Register;

    fn in_all_lanes(self, tweak: __m128i) -> Self::Register;

    /// Encrypts IVs, side by side.
    fn encrypt_ivs<const ROUNDS: usize>(
        self,
        keys: &Schedule<Self>,
        ivs: [__m128i; BATCH],
    ) -> [__m128i; BATCH];
}

#[repr(C, align(64))]
pub(super) struct Keys<W: WideXts> {
    pub(super) data: Schedules<W>,
    tweak: Schedule<W>,
    ahead: Places<Ahead<W::Tweaks>>,
}

impl<W: WideXts> KeySet<W> for Keys<W> {
    const AES_KEYS: usize = 2;

    fn locked<const ROUNDS: usize>(width: W, key: &[u8]) -> Locked<Self> {
        let mut keys = Locked::new(|| Self {
            data: Schedules::EMPTY,
            tweak: [W::ZERO; 15],
            ahead: Places::new(|| Ahead::nothing(W::NO_TWEAKS)),
        });
        let (data, tweak) = key.split_at(key.len() / 2);
        keys.data.expand::<ROUNDS>(width, data);
        expand_to_encrypt::<W, ROUNDS>(width, tweak, &mut keys.tweak);
        keys
    }
}

pub(super) struct Xts;

impl<W: WideXts> Mode<W> for Xts {
    type Keys = Keys<W>;

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        width: W,
        keys: &Keys<W>,
        ivs: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    ) {
        // Taken here and not passed by the caller: three words in memory could be loaded in pairs (see
        // `Mode`).
        let (Some(mut ivs), true) = (ivs.numbers(), unit.is_multiple_of(W::WHOLE)) else {
            // SAFETY: the caller promises what is to be read and written.
            unsafe { width.transform::<AnyUnits, ROUNDS, ENCRYPT>(keys, ivs, at, unit, units) };
            return;
        };
        // SAFETY: until this one returns there is no other call in this thread: IVs that would be
        // encrypted by one are none that come here.
        let mine = unsafe { keys.ahead.mine() };
        let mut spare = None;
        let ahead = mine.unwrap_or_else(|| spare.insert(Ahead::nothing(W::NO_TWEAKS)));
        if !ahead.units.go_on(&mut ivs) {
            begin::<W, ROUNDS>(width, keys, &mut ivs, ahead);
        }
        // SAFETY: the caller promises what is to be read and written.
        unsafe { width.whole_units::<ROUNDS, ENCRYPT>(keys, &mut ivs, ahead, at, unit, units) }
    }
}

/// Like [`Xts`], for data units of any length and for IVs of any rule. Leaves no tweaks for the next
/// call.
struct AnyUnits;

impl<W: WideXts> Mode<W> for AnyUnits {
    type Keys = Keys<W>;

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        width: W,
        keys: &Keys<W>,
        ivs: &mut Ivs<'_>,
        mut at: Cursor,
        unit: usize,
        units: usize,
    ) {
        let mut ivs = Batches::new(ivs, units);
        let mut ahead = Ahead::nothing(W::NO_TWEAKS);
        if unit.is_multiple_of(W::WHOLE) {
            begin::<W, ROUNDS>(width, keys, &mut ivs, &mut ahead);
            // SAFETY: the caller promises what is to be read and written.
            unsafe {
                width.whole_units::<ROUNDS, ENCRYPT>(keys, &mut ivs, &mut ahead, at, unit, units);
            }
            return;
        }
        for _ in 0..units {
            if ahead.units.are_used_up() {
                refill::<W, ROUNDS>(width, keys, &mut ivs, &mut ahead.units);
            }
            let mut first = width.in_all_lanes(ahead.units.next());
            let mut left = unit;
            while left > 0 {
                let len = left.min(W::GROUP);
                let (keys, room) = (keys.data.of::<ENCRYPT>(), &mut ahead.blocks);
                // SAFETY: so much is left of the unit.
                unsafe {
                    width.part::<ROUNDS, ENCRYPT>(keys, room, first, at, len / 16);
                    at = at.add(len);
                }
                left -= len;
                first = width.next_group(first);
            }
        }
    }
}

/// Source of the IVs of data units.
pub(super) trait NextIvs {
    fn next(&mut self) -> [__m128i; BATCH];

    /// The [position](Numbers::position) after those, if it can be told.
    fn position(&self) -> u64;
}

impl NextIvs for Numbers {
    #[inline(always)]
    fn next(&mut self) -> [__m128i; BATCH] {
        Numbers::next(self).map(|low| block(u128::from(low)))
    }

    #[inline(always)]
    fn position(&self) -> u64 {
        Numbers::position(*self)
    }
}

impl NextIvs for Batches<'_, '_, BATCH> {
    #[inline(always)]
    fn next(&mut self) -> [__m128i; BATCH] {
        Batches::next(self).map(|iv| block(u128::from_le_bytes(iv)))
    }

    /// Returns 0, as no tweaks are kept to go on from there.
    #[inline(always)]
    fn position(&self) -> u64 {
        0
    }
}

/// The tweaks of the first data units, and of the blocks of the very first.
#[inline(always)]
fn begin<W: WideXts, const ROUNDS: usize>(
    width: W,
    keys: &Keys<W>,
    ivs: &mut impl NextIvs,
    ahead: &mut Ahead<W::Tweaks>,
) {
    refill::<W, ROUNDS>(width, keys, ivs, &mut ahead.units);
    let first = width.in_all_lanes(ahead.units.next());
    width.first_group(first, &mut ahead.blocks);
}

/// The tweak of the next data unit, in all lanes.
#[inline(always)]
pub(super) fn next_unit<W: WideXts, const ROUNDS: usize>(
    width: W,
    keys: &Keys<W>,
    ivs: &mut impl NextIvs,
    units: &mut Units,
) -> W::Register {
    let tweak = width.in_all_lanes(units.next());
    if units.are_used_up() {
        refill::<W, ROUNDS>(width, keys, ivs, units);
    }
    tweak
}

/// Encrypts the next IVs.
#[inline(always)]
fn refill<W: WideXts, const ROUNDS: usize>(
    width: W,
    keys: &Keys<W>,
    ivs: &mut impl NextIvs,
    units: &mut Units,
) {
    let tweaks = width.encrypt_ivs::<ROUNDS>(opaque(&keys.tweak), ivs.next());
    *units.refill(ivs.position()) = tweaks;
}

/// A width that keeps tweaks in memory, having no registers for them: those of the group in flight
/// and, made meanwhile, of the one after it.
pub(super) trait InPairs: WideXts<Tweaks = [Self::Group; 2]> {
    type Group: Zeroize;

    /// Transforms a group with `tweaks`, and writes those of the next one to `next`: of the same data
    /// unit or, at the `END` of it, of the next, whose tweak is in all lanes of `following`.
    ///
    /// # Safety
    /// It can be read and written `at`.
    unsafe fn group<const ROUNDS: usize, const ENCRYPT: bool, const END: bool>(
        self,
        keys: &Schedule<Self>,
        tweaks: &mut Self::Group,
        next: &mut Self::Group,
        following: Self::Register,
        at: Cursor,
    );
}

/// [`WideXts::whole_units`] of such a width, where [`WHOLE`](WideXts::WHOLE) is a pair of groups.
///
/// # Safety
/// As for the method.
#[inline(always)]
pub(super) unsafe fn in_pairs<W: InPairs, const ROUNDS: usize, const ENCRYPT: bool>(
    width: W,
    keys: &Keys<W>,
    ivs: &mut impl NextIvs,
    ahead: &mut Ahead<W::Tweaks>,
    mut at: Cursor,
    unit: usize,
    units: usize,
) {
    let data = keys.data.of::<ENCRYPT>();
    // After a pair of groups they are again what their names say.
    let [mut this, mut next] = ahead.blocks.each_mut();
    let mut left = unit * units;
    while left > 0 {
        let following = next_unit::<W, ROUNDS>(width, keys, ivs, &mut ahead.units);
        // SAFETY: at least a unit is left of the run, and at least a group of a unit whenever one
        // is transformed.
        unsafe {
            for _ in 1..unit / W::GROUP {
                at.prefetch(W::GROUP, left);
                width.group::<ROUNDS, ENCRYPT, false>(data, this, next, following, at);
                at = at.add(W::GROUP);
                left -= W::GROUP;
                (this, next) = (next, this);
            }
            at.prefetch(W::GROUP, left);
            width.group::<ROUNDS, ENCRYPT, true>(data, this, next, following, at);
            at = at.add(W::GROUP);
            left -= W::GROUP;
            (this, next) = (next, this);
        }
    }
}

/// Implements [`WideXts`] and [`InPairs`] for a width by functions in the module where it is used:
/// `group`, `part`, `first_tweaks`, `in_all_lanes`, `next_group` and `encrypt_ivs`. The module must
/// compile them for no CPU feature but those that `$width` proves: the macro's `unsafe` blocks rely on it, and the
/// compiler does not check it.
macro_rules! xts_in_pairs {
    ($width:ident, $register:ident) => {
        impl WideXts for $width {
            const GROUP: usize = GROUP;
            const WHOLE: usize = 2 * GROUP;
            /// The tweaks of two groups: the one in flight and, made meanwhile, the one after it.
            type Tweaks = [Group; 2];
            const NO_TWEAKS: [Group; 2] = [[Self::ZERO; WIDTH]; 2];

            /// # Safety
            /// As the trait says.
            #[inline(always)]
            unsafe fn whole_units<const ROUNDS: usize, const ENCRYPT: bool>(
                self,
                keys: &Keys<Self>,
                ivs: &mut impl NextIvs,
                ahead: &mut Ahead<[Group; 2]>,
                at: Cursor,
                unit: usize,
                units: usize,
            ) {
                // SAFETY: the caller promises what is to be read and written.
                unsafe { in_pairs::<_, ROUNDS, ENCRYPT>(self, keys, ivs, ahead, at, unit, units) }
            }

            /// # Safety
            /// As the trait says.
            #[inline(always)]
            unsafe fn part<const ROUNDS: usize, const ENCRYPT: bool>(
                self,
                keys: &Schedule,
                room: &mut [Group; 2],
                first: $register,
                at: Cursor,
                blocks: usize,
            ) {
                // SAFETY: `self` proves the width's features, and the function needs a subset of them; the caller
                // promises what is read and written.
                unsafe { part::<ROUNDS, ENCRYPT>(keys, &mut room[0], first, at, blocks) }
            }

            #[inline(always)]
            fn first_group(self, first: $register, tweaks: &mut [Group; 2]) {
                // SAFETY: `self` proves the width's features; the function needs a subset of them.
                tweaks[0] = unsafe { first_tweaks(first) };
            }

            #[inline(always)]
            fn in_all_lanes(self, tweak: __m128i) -> $register {
                // SAFETY: as above.
                unsafe { in_all_lanes(tweak) }
            }

            #[inline(always)]
            fn next_group(self, first: $register) -> $register {
                // SAFETY: as above.
                unsafe { next_group(first) }
            }

            #[inline(always)]
            fn encrypt_ivs<const ROUNDS: usize>(
                self,
                keys: &Schedule,
                ivs: [__m128i; BATCH],
            ) -> [__m128i; BATCH] {
                // SAFETY: as above.
                unsafe { encrypt_ivs::<ROUNDS>(keys, ivs) }
            }
        }

        impl InPairs for $width {
            type Group = Group;

            /// # Safety
            /// As the trait says.
            #[inline(always)]
            unsafe fn group<const ROUNDS: usize, const ENCRYPT: bool, const END: bool>(
                self,
                keys: &Schedule,
                tweaks: &mut Group,
                next: &mut Group,
                following: $register,
                at: Cursor,
            ) {
                // SAFETY: `self` proves the width's features, and the function needs a subset of them; the caller
                // promises what is read and written.
                unsafe { group::<ROUNDS, ENCRYPT, END>(keys, tweaks, next, following, at) }
            }
        }
    };
}

pub(super) use xts_in_pairs;
