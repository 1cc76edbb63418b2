//! AES-XTS at any width: keys, the tweaks of data units, and data units of any length. How the tweaks of blocks are made
//! while whole groups of blocks are transformed, ahead of them, is a kernel's own choice ([`Tweaks`]).
//!
//! Tweaks that are kept in memory are wiped: with the keys where they stay for the next call, otherwise
//! at the end of the call. What the compiler leaves in registers or on the stack is not.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use scrim_sys::memory::Locked;
use zeroize::{Zeroize, Zeroizing};

use super::aes::{Aes, WIDTH, in_groups_of_registers, rounds};
use super::aesni::block;
use super::ahead::{Ahead, BATCH, Places, Units};
use super::chain::Chain;
use super::wide::{KeySet, Mode, Schedule, Schedules, Sectors, expand_to_encrypt};
use crate::kernels::cursor::Cursor;
use crate::kernels::iv::{Batches, Ivs, Numbers};
use crate::kernels::opaque::opaque;

/// A width for which there is a kernel. Methods that name no CPU feature are inlined where they are
/// used.
pub(super) trait WideXts: Aes + Sectors {
    /// Encrypts IVs, side by side.
    fn encrypt_ivs<const ROUNDS: usize>(
        self,
        keys: &Schedule<Self>,
        ivs: [__m128i; BATCH],
    ) -> [__m128i; BATCH];
}

/// A way to make the tweaks of blocks. What it makes ahead of the data is kept between calls.
pub(super) trait Tweaks<W: WideXts>: Sized + 'static {
    type Kept: Send + Zeroize;
    const NOTHING: Self::Kept;

    /// Number of tweaks of data units that `kept` was made of beyond the last unit transformed; `None` if it was made
    /// for units of another length.
    fn begun(kept: &Self::Kept, unit: usize) -> Option<usize>;

    /// Makes the tweaks of the first blocks of a run of data units of `unit` bytes. `units` has tweaks.
    fn begin<const ROUNDS: usize>(
        width: W,
        keys: &Keys<W, Self>,
        ivs: &mut impl NextIvs,
        ahead: &mut Ahead<Self::Kept>,
        unit: usize,
    );

    /// `units` data units of `unit` bytes, a multiple of [`group_bytes`]. `ahead` is as [`begin`](Self::begin) or the
    /// last call has left it.
    ///
    /// # Safety
    /// They can be read and written `at`.
    unsafe fn whole_units<const ROUNDS: usize, const ENCRYPT: bool>(
        width: W,
        keys: &Keys<W, Self>,
        ivs: &mut impl NextIvs,
        ahead: &mut Ahead<Self::Kept>,
        at: Cursor,
        unit: usize,
        units: usize,
    );
}

/// Bytes of the blocks in flight. Data units of a multiple of it, which all sectors are, take the fast way.
pub(super) const fn group_bytes<W: Aes>() -> usize {
    16 * W::LANES * WIDTH
}

#[repr(C, align(64))]
pub(super) struct Keys<W: WideXts, T: Tweaks<W>> {
    pub(super) data: Schedules<W>,
    tweak: Schedule<W>,
    ahead: Places<Ahead<T::Kept>>,
}

impl<W: WideXts, T: Tweaks<W>> KeySet<W> for Keys<W, T> {
    const AES_KEYS: usize = 2;

    fn locked<const ROUNDS: usize>(width: W, key: &[u8]) -> Locked<Self> {
        let mut keys = Locked::new(|| Self {
            data: Schedules::EMPTY,
            tweak: [W::ZERO; 15],
            ahead: Places::new(|| Ahead::nothing(T::NOTHING)),
        });
        let (data, tweak) = key.split_at(key.len() / 2);
        keys.data.expand::<ROUNDS>(width, data);
        expand_to_encrypt::<W, ROUNDS>(width, tweak, &mut keys.tweak);
        keys
    }
}

/// XTS with tweaks that are made in the way `T`.
pub(super) struct Xts<T>(PhantomData<T>);

impl<W: WideXts, T: Tweaks<W>> Mode<W> for Xts<T> {
    type Keys = Keys<W, T>;

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        width: W,
        keys: &Keys<W, T>,
        ivs: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    ) {
        // Taken here and not passed by the caller: three words in memory could be loaded in pairs (see
        // `Mode`).
        let whole = unit.is_multiple_of(group_bytes::<W>());
        let (Some(mut ivs), true) = (ivs.numbers(), whole) else {
            // SAFETY: the caller promises what is to be read and written.
            unsafe { width.transform::<AnyUnits<T>, ROUNDS, ENCRYPT>(keys, ivs, at, unit, units) };
            return;
        };
        // SAFETY: until this one returns there is no other call in this thread: IVs that would be
        // encrypted by one are none that come here.
        let mine = unsafe { keys.ahead.mine() };
        let mut spare = None;
        let ahead = mine.unwrap_or_else(|| spare.insert(Ahead::nothing(T::NOTHING)));
        let begun = T::begun(&ahead.blocks, unit);
        if !begun.is_some_and(|begun| ahead.units.go_on(&mut ivs, begun)) {
            begin::<W, T, ROUNDS>(width, keys, &mut ivs, ahead, unit);
        }
        // SAFETY: the caller promises what is to be read and written.
        unsafe {
            T::whole_units::<ROUNDS, ENCRYPT>(width, keys, &mut ivs, ahead, at, unit, units);
        }
    }
}

/// Like [`Xts`], for data units of any length and for IVs of any rule. Leaves no tweaks for the next
/// call.
struct AnyUnits<T>(PhantomData<T>);

impl<W: WideXts, T: Tweaks<W>> Mode<W> for AnyUnits<T> {
    type Keys = Keys<W, T>;

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        width: W,
        keys: &Keys<W, T>,
        ivs: &mut Ivs<'_>,
        mut at: Cursor,
        unit: usize,
        units: usize,
    ) {
        let mut ivs = Batches::new(ivs, units);
        let mut ahead = Ahead::nothing(T::NOTHING);
        if unit.is_multiple_of(group_bytes::<W>()) {
            begin::<W, T, ROUNDS>(width, keys, &mut ivs, &mut ahead, unit);
            // SAFETY: the caller promises what is to be read and written.
            unsafe {
                T::whole_units::<ROUNDS, ENCRYPT>(
                    width, keys, &mut ivs, &mut ahead, at, unit, units,
                );
            }
            return;
        }
        let mut tweaks = Zeroizing::new([W::ZERO; WIDTH]);
        for _ in 0..units {
            if ahead.units.are_used_up() {
                refill::<W, T, ROUNDS>(width, keys, &mut ivs, &mut ahead.units);
            }
            let mut chain = Chain::from(ahead.units.next());
            let mut left = unit;
            while left > 0 {
                let here = left.min(group_bytes::<W>());
                fill::<W>(&mut chain, &mut tweaks);
                in_groups_of_registers!(W::LANES, here / 16, |index, N, WHOLE, len| {
                    let keys = keys.data.of::<ENCRYPT>();
                    let tweaks = &tweaks[index / W::LANES..];
                    // SAFETY: so many blocks are left of the unit, from block `index` on.
                    unsafe {
                        let at = at.add(16 * index);
                        part::<W, ROUNDS, ENCRYPT, N, WHOLE>(width, keys, tweaks, at, len);
                    }
                });
                // SAFETY: so much is left of the unit.
                at = unsafe { at.add(here) };
                left -= here;
            }
        }
    }
}

/// Transforms `len` blocks: `N` registers, all of them `WHOLE` or one that is not. There are as many of `tweaks`.
///
/// # Safety
/// So many blocks can be read and written `at`.
#[inline(always)]
unsafe fn part<
    W: Aes,
    const ROUNDS: usize,
    const ENCRYPT: bool,
    const N: usize,
    const WHOLE: bool,
>(
    width: W,
    keys: &Schedule<W>,
    tweaks: &[W::Register],
    at: Cursor,
    len: usize,
) {
    let keys = opaque(keys);
    // SAFETY: the caller promises the blocks.
    let mut data = unsafe { begin_blocks::<W, N, WHOLE>(width, keys[0], tweaks, at, len) };
    rounds::<W, ROUNDS, ENCRYPT, N>(width, keys, &mut data);
    // SAFETY: as above.
    unsafe {
        end_blocks::<W, ENCRYPT, N, WHOLE>(width, keys[ROUNDS], tweaks, &data, at, len);
    }
}

/// Loads `len` blocks, in `N` registers, all of them `WHOLE` or one that is not, and adds the first round key and the
/// tweaks.
///
/// # Safety
/// They can be read `at`.
#[inline(always)]
pub(super) unsafe fn begin_blocks<W: Aes, const N: usize, const WHOLE: bool>(
    width: W,
    key: W::Register,
    tweaks: &[W::Register],
    at: Cursor,
    len: usize,
) -> [W::Register; WIDTH] {
    let mut data = [W::ZERO; WIDTH];
    for (index, register) in data[..N].iter_mut().enumerate() {
        let from = at.source.wrapping_add(16 * W::LANES * index);
        // SAFETY: the caller promises the blocks.
        let input = unsafe { width.load::<WHOLE>(from, len) };
        *register = width.xor3(input, key, tweaks[index]);
    }
    data
}

/// The reverse of [`begin_blocks`]: takes blocks through the last round, adds the tweaks, and stores them.
///
/// # Safety
/// They can be written `at`.
#[inline(always)]
pub(super) unsafe fn end_blocks<W: Aes, const ENCRYPT: bool, const N: usize, const WHOLE: bool>(
    width: W,
    key: W::Register,
    tweaks: &[W::Register],
    data: &[W::Register; WIDTH],
    at: Cursor,
    len: usize,
) {
    for (index, register) in data[..N].iter().enumerate() {
        // In time for the last round: the sum of key and tweak need not wait for it.
        let key = width.xor(key, tweaks[index]);
        let output = width.last_round::<ENCRYPT>(*register, key);
        let to = at.destination.wrapping_add(16 * W::LANES * index);
        // SAFETY: the caller promises the blocks.
        unsafe { width.store::<WHOLE>(to, len, output) };
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

/// The tweaks of the first data units, and of the first blocks.
#[inline(always)]
fn begin<W: WideXts, T: Tweaks<W>, const ROUNDS: usize>(
    width: W,
    keys: &Keys<W, T>,
    ivs: &mut impl NextIvs,
    ahead: &mut Ahead<T::Kept>,
    unit: usize,
) {
    refill::<W, T, ROUNDS>(width, keys, ivs, &mut ahead.units);
    T::begin::<ROUNDS>(width, keys, ivs, ahead, unit);
}

/// The tweak of the next data unit.
#[inline(always)]
pub(super) fn next_unit<W: WideXts, T: Tweaks<W>, const ROUNDS: usize>(
    width: W,
    keys: &Keys<W, T>,
    ivs: &mut impl NextIvs,
    units: &mut Units,
) -> __m128i {
    let tweak = units.next();
    if units.are_used_up() {
        refill::<W, T, ROUNDS>(width, keys, ivs, units);
    }
    tweak
}

/// Encrypts the next IVs.
#[inline(always)]
fn refill<W: WideXts, T: Tweaks<W>, const ROUNDS: usize>(
    width: W,
    keys: &Keys<W, T>,
    ivs: &mut impl NextIvs,
    units: &mut Units,
) {
    let tweaks = width.encrypt_ivs::<ROUNDS>(opaque(&keys.tweak), ivs.next());
    *units.refill(ivs.position()) = tweaks;
}

/// The next tweaks of `chain`, for all blocks of a group: those of 8 blocks each side by side.
#[inline(always)]
pub(super) fn fill<W: Aes>(chain: &mut Chain, group: &mut [W::Register; WIDTH]) {
    let mut eight = *chain;
    // Spelt out: the index is part of the instructions.
    macro_rules! fill {
        ($($index:literal)*) => {
            $(
                if ($index * W::LANES).is_multiple_of(8) {
                    *chain = eight;
                    eight = eight.skip_8();
                }
                // SAFETY: register `index` is in the group.
                unsafe { chain.fill_register::<W, $index>(group) };
            )*
        };
    }
    fill!(0 1 2 3 4 5 6 7);
}
