//! Registers of any width, and products of blocks in them, for AES-GCM.

use super::aes::WIDTH;
use super::ctr::WideCtr;
use super::wide::Wide;

/// A width of registers for which there is a kernel.
///
/// # Safety
/// As for [`Aes`](super::aes::Aes); it has carry-less products too.
pub(super) unsafe trait WideGcm: WideCtr {
    /// True for the width of AVX-512: its 32 registers hold the counters of the next group too, and one instruction adds
    /// three values.
    const HAS_AVX512: bool;

    /// The blocks, each with its bytes in reverse order.
    fn reversed(self, blocks: Self::Register) -> Self::Register;

    /// The blocks, each with its bytes in reverse order, but for a last byte of 0.
    fn reversed_but_one(self, blocks: Self::Register) -> Self::Register;

    /// Columns of 4 bytes, each the first of a block that is 0 otherwise.
    ///
    /// # Safety
    /// One for each block of a register can be read there.
    unsafe fn first_columns(self, columns: *const u32) -> Self::Register;

    /// Sums of the words of 64 bits.
    fn plus(self, one: Self::Register, other: Self::Register) -> Self::Register;

    /// Adds the products of blocks and powers to a sum: of several registers at once, which takes fewer instructions where
    /// one adds three.
    fn add_products<const N: usize>(self, sum: &mut Products<Self>, factors: [Factors<Self>; N]);

    /// Holds registers at this point: nothing of them is computed earlier or later than it is written, nor anything loaded.
    /// `next` is held only with AVX-512; elsewhere it is not used.
    fn hold(
        self,
        group: &mut [Self::Register; WIDTH],
        sum: &mut Products<Self>,
        next: &mut [Self::Register; WIDTH],
    );

    /// The sum of each lane, reduced.
    fn reduced(self, sum: Products<Self>) -> Self::Register;

    /// The sum of all lanes, in the first one; the others are zero.
    fn sum_of_lanes(self, lanes: Self::Register) -> Self::Register;

    /// The block in the first lane, as a little-endian number.
    fn first_lane(self, blocks: Self::Register) -> u128;
}

/// Implements [`WideGcm`] for a width by the functions of the same names in the module where it is used; `$has_avx512` is
/// [`WideGcm::HAS_AVX512`]. The module must compile those functions for no CPU feature but those that `$width` proves: the
/// macro's `unsafe` blocks rely on it, and the compiler does not check it.
macro_rules! gcm_by_functions {
    ($width:ident, $register:ident, $has_avx512:literal) => {
        // SAFETY: a value of `$width` proves that the CPU has the width's features, and the module that uses the macro
        // compiles the functions called here for a subset of them, as the macro demands.
        unsafe impl WideGcm for $width {
            const HAS_AVX512: bool = $has_avx512;

            #[inline(always)]
            fn reversed(self, blocks: $register) -> $register {
                // SAFETY: `self` proves the width's features; the function needs a subset of them.
                unsafe { reversed(blocks) }
            }

            #[inline(always)]
            fn reversed_but_one(self, blocks: $register) -> $register {
                // SAFETY: as above.
                unsafe { reversed_but_one(blocks) }
            }

            /// # Safety
            /// As the trait says.
            #[inline(always)]
            unsafe fn first_columns(self, columns: *const u32) -> $register {
                // SAFETY: as above; the caller promises the columns.
                unsafe { first_columns(columns) }
            }

            #[inline(always)]
            fn plus(self, one: $register, other: $register) -> $register {
                // SAFETY: as above.
                unsafe { plus(one, other) }
            }

            #[inline(always)]
            fn add_products<const N: usize>(
                self,
                sum: &mut Products<Self>,
                factors: [Factors<Self>; N],
            ) {
                // SAFETY: as above.
                unsafe { add_products(sum, &factors) }
            }

            #[inline(always)]
            fn hold(self, group: &mut Group, sum: &mut Products<Self>, next: &mut Group) {
                // SAFETY: as above.
                unsafe { hold(group, sum, next) }
            }

            #[inline(always)]
            fn reduced(self, sum: Products<Self>) -> $register {
                // SAFETY: as above.
                unsafe { reduced(&sum) }
            }

            #[inline(always)]
            fn sum_of_lanes(self, lanes: $register) -> $register {
                // SAFETY: as above.
                unsafe { sum_of_lanes(lanes) }
            }

            #[inline(always)]
            fn first_lane(self, blocks: $register) -> u128 {
                // SAFETY: as above.
                unsafe { first_lane(blocks) }
            }
        }
    };
}

pub(super) use gcm_by_functions;

/// Implements [`WideGcm::hold`] for all that is named. It is not `nomem`, since loads must not cross it either: the products
/// of what they load would all be computed before the rounds. It is not `pure`, or it could be moved.
macro_rules! held {
    ($class:ident, $($name:ident = $register:expr),*) => {
        // SAFETY: no instruction, so that all remain what they are.
        unsafe {
            core::arch::asm!(
                concat!("/*", $(" {", stringify!($name), "}",)* " */"),
                $($name = inout($class) $register,)*
                options(nostack, preserves_flags)
            );
        }
    };
}

pub(super) use held;

/// Sums of products of 128 bits: of the lower halves, of the upper ones, and of halves crosswise, which begin at bit 64 of
/// 256. By Karatsuba's method the latter is of the sums of both halves, and the other two are still to be taken off; each
/// width has its own.
pub(super) struct Products<W: Wide> {
    pub(super) low: W::Register,
    pub(super) middle: W::Register,
    pub(super) high: W::Register,
}

impl<W: Wide> Products<W> {
    #[inline(always)]
    pub(super) fn none() -> Self {
        Self {
            low: W::ZERO,
            middle: W::ZERO,
            high: W::ZERO,
        }
    }
}

/// Registers that are multiplied: blocks, powers of H, and the sums of the powers' halves for Karatsuba's method.
pub(super) struct Factors<W: Wide> {
    pub(super) blocks: W::Register,
    pub(super) powers: W::Register,
    pub(super) folded: W::Register,
}
