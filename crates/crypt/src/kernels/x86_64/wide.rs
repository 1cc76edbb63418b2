//! Round keys for kernels with registers of any width: a register holds a round key once for each block.

use core::arch::x86_64::*;

use zeroize::Zeroize;

use super::key::{RoundKeys, expand, invert};

/// A width of registers: a proof token, with what can be done where it can be had.
///
/// # Safety
/// A value can only be had where the CPU has AES-NI.
pub(super) unsafe trait Wide: Copy + Send + Sync + 'static {
    type Register: Copy + Send + Sync;
    const ZERO: Self::Register;

    /// Writes each of `keys`, as often as a register has room, to `schedule`.
    fn broadcast(self, keys: &RoundKeys, schedule: &mut Schedule<Self>);
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
