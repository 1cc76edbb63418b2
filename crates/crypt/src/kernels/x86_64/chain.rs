//! Tweaks of XTS by general registers.

use core::arch::asm;
use core::arch::x86_64::*;

use super::aes::{Aes, WIDTH};

/// Tweaks of consecutive blocks: each is the one before times α in GF(2¹²⁸) (IEEE Std 1619, 5.2).
///
/// A block takes seven instructions of units that have nothing else to do. Vector registers would take fewer, but of those
/// units there are three or four, and two of them compute AES.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    low: u64,
    high: u64,
}

/// α¹²⁸ as a polynomial of a degree below 128.
const ALPHA_128: u64 = 0x87;

impl Chain {
    pub(super) const NONE: Self = Self { low: 0, high: 0 };

    /// The chain from `tweak` on.
    #[inline(always)]
    pub(super) fn from(tweak: __m128i) -> Self {
        // SAFETY: 128 bits either way.
        let [low, high] = unsafe { core::mem::transmute::<__m128i, [u64; 2]>(tweak) };
        Self { low, high }
    }

    /// Writes the next tweaks, those of the blocks of one register of width `W`, to register `INDEX` of a group.
    ///
    /// # Safety
    /// They can be written there.
    #[inline(always)]
    pub(super) unsafe fn fill_register<W: Aes, const INDEX: usize>(
        &mut self,
        group: *mut [W::Register; WIDTH],
    ) {
        // SAFETY: the caller promises as many blocks as `W` has lanes.
        unsafe {
            self.put::<W, INDEX, 0>(group);
            if W::LANES > 1 {
                self.put::<W, INDEX, 1>(group);
            }
            if W::LANES > 2 {
                self.put::<W, INDEX, 2>(group);
                self.put::<W, INDEX, 3>(group);
            }
        }
    }

    /// Writes the next tweak to a lane of register `INDEX` of a group. In constant time.
    ///
    /// It is written here and not by the compiler, which would gather both halves in a vector register first.
    ///
    /// # Safety
    /// It can be written there.
    #[inline(always)]
    unsafe fn put<W: Aes, const INDEX: usize, const LANE: usize>(
        &mut self,
        group: *mut [W::Register; WIDTH],
    ) {
        // SAFETY: the caller promises the 16 bytes that are written.
        unsafe {
            asm!(
                "mov qword ptr [{group} + {at}], {low}",
                "mov qword ptr [{group} + {at} + 8], {high}",
                "mov {carry}, {high}",
                "sar {carry}, 63",
                "and {carry:e}, {reduction}",
                "add {low}, {low}",
                "adc {high}, {high}",
                "xor {low}, {carry}",
                group = in(reg) group,
                at = const 16 * (INDEX * W::LANES + LANE),
                reduction = const ALPHA_128,
                low = inout(reg) self.low,
                high = inout(reg) self.high,
                carry = out(reg) _,
                options(nostack)
            );
        }
    }

    /// The chain 8 blocks further on: so that the start of a long one need not wait for each block.
    #[inline(always)]
    pub(super) fn skip_8(self) -> Self {
        let out = self.high >> 56;
        let carries = out ^ (out << 1) ^ (out << 2) ^ (out << 7);
        Self {
            low: (self.low << 8) ^ carries,
            high: (self.high << 8) | (self.low >> 56),
        }
    }
}

impl zeroize::Zeroize for Chain {
    fn zeroize(&mut self) {
        self.low.zeroize();
        self.high.zeroize();
    }
}
