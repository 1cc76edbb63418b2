//! AES-XTS at any width: keys, the way in, and which tweaks are made when. Each width has its own code that
//! transforms blocks and makes their tweaks meanwhile.
//!
//! Tweaks that are kept in memory are wiped: with the keys where they stay for the next call, otherwise
//! at the end of the call. What the compiler leaves in registers or on the stack is not.

use core::arch::x86_64::*;

use scrim_sys::memory::Locked;
use zeroize::Zeroize;

use super::aesni::block;
use super::ahead::{Ahead, BATCH, Places, Units};
use super::cursor::{Cursor, RawRun};
use super::opaque::opaque;
use super::wide::{Schedule, Schedules, Wide, expand_to_encrypt};
use crate::kernels::iv::SectorKernel;
use crate::kernels::iv::{Batches, Ivs, Numbers};
use crate::kernels::run::Run;

/// A width for which there is a kernel. Methods that name no CPU feature are inlined where they are
/// used.
pub(super) trait WideXts: Wide {
    /// Bytes of the blocks in flight.
    const GROUP: usize;
    /// Data units of a multiple of this number of bytes, which all sectors are, take the fast way.
    const WHOLE: usize;
    /// Tweaks of blocks that are kept from one group to the next, and between calls.
    type Tweaks: Copy + Send + Zeroize;
    const NO_TWEAKS: Self::Tweaks;

    /// [`transform`], in a function of this width. Not with a [`RawRun`], which would come in memory:
    /// what is stored there by words may be loaded by pairs, and such a load waits until all that was
    /// before it has ended. Then the work of two calls would not overlap.
    ///
    /// # Safety
    /// As for the function.
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        self,
        keys: &Keys<Self>,
        ivs: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    );

    /// [`transform_any`], likewise in a function of this width.
    ///
    /// # Safety
    /// As for the function.
    unsafe fn transform_any<const ROUNDS: usize, const ENCRYPT: bool>(
        self,
        keys: &Keys<Self>,
        ivs: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    );

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

/// A kernel with `key` expanded; `None` for a key of another algorithm.
pub(super) fn set_up<W: WideXts>(width: W, key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    match key.len() {
        32 => Some(Box::new(Xts::<W, 10>::new(width, key))),
        48 => Some(Box::new(Xts::<W, 12>::new(width, key))),
        64 => Some(Box::new(Xts::<W, 14>::new(width, key))),
        _ => None,
    }
}

struct Xts<W: WideXts, const ROUNDS: usize> {
    width: W,
    keys: Locked<Keys<W>>,
}

impl<W: WideXts, const ROUNDS: usize> Xts<W, ROUNDS> {
    fn new(width: W, key: &[u8]) -> Self {
        let mut keys = Locked::new(|| Keys {
            data: Schedules::EMPTY,
            tweak: [W::ZERO; 15],
            ahead: Places::new(|| Ahead::nothing(W::NO_TWEAKS)),
        });
        let (data, tweak) = key.split_at(key.len() / 2);
        keys.data.expand::<ROUNDS>(width, data);
        expand_to_encrypt::<W, ROUNDS>(width, tweak, &mut keys.tweak);
        Self { width, keys }
    }

    #[inline]
    fn transform<const ENCRYPT: bool>(&self, ivs: &mut Ivs<'_>, run: Run<'_>) {
        let RawRun {
            source,
            destination,
            unit,
            units,
        } = run.into();
        let at = Cursor {
            source,
            destination,
        };
        let (width, keys) = (self.width, &*self.keys);
        // SAFETY: the memory that the pointers point to was borrowed by `run`, for longer than this
        // call takes.
        unsafe {
            if unit.is_multiple_of(W::WHOLE) {
                width.transform::<ROUNDS, ENCRYPT>(keys, ivs, at, unit, units);
            } else {
                width.transform_any::<ROUNDS, ENCRYPT>(keys, ivs, at, unit, units);
            }
        }
    }
}

impl<W: WideXts, const ROUNDS: usize> SectorKernel for Xts<W, ROUNDS> {
    fn encrypt(&self, mut ivs: Ivs<'_>, run: Run<'_>) {
        self.transform::<true>(&mut ivs, run);
    }

    fn decrypt(&self, mut ivs: Ivs<'_>, run: Run<'_>) {
        self.transform::<false>(&mut ivs, run);
    }
}

/// The whole run, of data units of a multiple of [`WideXts::WHOLE`] bytes.
///
/// # Safety
/// `units` data units of `unit` bytes can be read and written `at`.
#[inline(always)]
pub(super) unsafe fn transform<W: WideXts, const ROUNDS: usize, const ENCRYPT: bool>(
    width: W,
    keys: &Keys<W>,
    ivs: &mut Ivs<'_>,
    at: Cursor,
    unit: usize,
    units: usize,
) {
    // Here and not by the caller: three words in memory could be loaded by pairs (see `WideXts`).
    let Some(mut ivs) = ivs.numbers() else {
        // SAFETY: as for this one.
        return unsafe { width.transform_any::<ROUNDS, ENCRYPT>(keys, ivs, at, unit, units) };
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

/// Like [`transform`], for data units of any length and for IVs of any rule. Leaves no tweaks for the
/// next call.
///
/// # Safety
/// As for [`transform`].
#[inline(always)]
pub(super) unsafe fn transform_any<W: WideXts, const ROUNDS: usize, const ENCRYPT: bool>(
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
