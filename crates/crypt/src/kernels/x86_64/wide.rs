//! Registers of any width, and modes on them. A register holds a round key once for each block.

use core::arch::x86_64::*;

use scrim_sys::memory::Locked;
use zeroize::Zeroize;

use super::cpu::Proof;
use super::key::{RoundKeys, expand, invert};
use crate::kernels::cursor::Cursor;
use crate::kernels::iv::Ivs;

/// A width of registers: a proof token, with what can be done where it can be had.
///
/// # Safety
/// A value can only be had where the CPU has AES-NI, and all for which [`run`](Self::run) is compiled.
pub(super) unsafe trait Wide: Proof {
    type Register: Copy + Send + Sync + Zeroize;
    const ZERO: Self::Register;

    /// Name of all kernels of this width, for `SCRIM_DISABLE`.
    const FAMILY: &str;
    /// Rank of these kernels among those of the same mode.
    const PRIORITY: u32;

    /// Writes each of `keys`, as often as a register has room, to `schedule`.
    fn broadcast(self, keys: &RoundKeys, schedule: &mut Schedule<Self>);

    /// Runs an operation in a function that is compiled for the CPU features of this width: all that the operation does
    /// is inlined there.
    fn run<O: Operation<Self>>(self, operation: O) -> O::Result;
}

/// Something that is compiled for a width.
pub(super) trait Operation<W> {
    type Result;

    /// Runs it. Names no CPU feature, and is inlined into [`Wide::run`].
    fn run(self, width: W) -> Self::Result;
}

/// A width of registers with kernels for sectors.
///
/// # Safety
/// A value can only be had where the CPU has all for which [`transform`](Self::transform) is compiled.
pub(super) unsafe trait Sectors: Wide {
    /// [`Mode::transform`], in a function that is compiled for the CPU features of this width: all that
    /// the mode does is inlined there. This is the only way in, for every mode.
    ///
    /// # Safety
    /// As for [`Mode::transform`].
    unsafe fn transform<M: Mode<Self>, const ROUNDS: usize, const ENCRYPT: bool>(
        self,
        keys: &M::Keys,
        ivs: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    );
}

/// A mode of operation with registers of one width.
pub(super) trait Mode<W: Wide>: 'static {
    type Keys: KeySet<W>;

    /// True if decryption is the same as encryption.
    const ONE_DIRECTION: bool = false;

    /// Transforms the run that the last three arguments describe. Names no CPU feature, and is inlined
    /// into [`Sectors::transform`].
    ///
    /// It takes no [`RawRun`](crate::kernels::cursor::RawRun), which would be passed in memory: words that were
    /// stored one by one may be loaded in pairs, and such a load cannot be forwarded from the stores. It
    /// stalls until they have retired, and the work of two calls would not overlap.
    ///
    /// # Safety
    /// `units` data units of `unit` bytes can be read and written `at`, as
    /// [`RawRun`](crate::kernels::cursor::RawRun) promises.
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        width: W,
        keys: &Self::Keys,
        ivs: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    );
}

/// Expanded keys, as a mode uses them.
pub(super) trait KeySet<W: Wide>: Send + Sync + Sized {
    /// Number of AES keys, all of one length, that a key of the mode consists of.
    const AES_KEYS: usize;

    /// Expands `key`, whose AES keys have the length that goes with `ROUNDS`.
    fn locked<const ROUNDS: usize>(width: W, key: &[u8]) -> Locked<Self>;
}

/// Round keys, in memory: there are too few registers for both them and the data, and from L1 they
/// cost nothing.
pub(super) type Schedule<W> = [<W as Wide>::Register; 15];

/// Round keys of both directions.
#[repr(C, align(64))]
pub(super) struct Schedules<W: Wide> {
    encrypt: Schedule<W>,
    decrypt: Schedule<W>,
}

impl<W: Wide> Schedules<W> {
    /// Empty schedules, to be expanded where they are to stay.
    pub(super) const EMPTY: Self = Self {
        encrypt: [W::ZERO; 15],
        decrypt: [W::ZERO; 15],
    };

    /// Expands `key`, of the length that goes with `ROUNDS`.
    pub(super) fn expand<const ROUNDS: usize>(&mut self, width: W, key: &[u8]) {
        let mut keys = NO_KEYS;
        let mut inverted = NO_KEYS;
        // SAFETY: `width` shows that the CPU has AES-NI.
        unsafe {
            expand::<ROUNDS>(key, &mut keys);
            invert::<ROUNDS>(&keys, &mut inverted);
        }
        width.broadcast(&keys, &mut self.encrypt);
        width.broadcast(&inverted, &mut self.decrypt);
        keys.zeroize();
        inverted.zeroize();
    }

    /// Round keys of one direction, in the order of use.
    #[inline]
    pub(super) fn of<const ENCRYPT: bool>(&self) -> &Schedule<W> {
        if ENCRYPT {
            &self.encrypt
        } else {
            &self.decrypt
        }
    }
}

impl<W: Wide> KeySet<W> for Schedules<W> {
    const AES_KEYS: usize = 1;

    fn locked<const ROUNDS: usize>(width: W, key: &[u8]) -> Locked<Self> {
        let mut keys = Locked::new(|| Self::EMPTY);
        keys.expand::<ROUNDS>(width, key);
        keys
    }
}

/// Like [`Schedules::expand`], for encryption alone.
pub(super) fn expand_to_encrypt<W: Wide, const ROUNDS: usize>(
    width: W,
    key: &[u8],
    schedule: &mut Schedule<W>,
) {
    let mut keys = NO_KEYS;
    // SAFETY: `width` shows that the CPU has AES-NI.
    unsafe { expand::<ROUNDS>(key, &mut keys) };
    width.broadcast(&keys, schedule);
    keys.zeroize();
}

// SAFETY: any pattern of bits is a value.
const NO_KEYS: RoundKeys = unsafe { core::mem::zeroed::<[__m128i; 15]>() };
