//! AES on registers: the operations that kernels need of each width.
//!
//! Each mode is written once, for any width, in functions that name no CPU feature. They are inlined,
//! and what they call with them, into one function for each width that does.

use super::wide::{Schedule, Wide};

/// Registers in flight, at every width.
pub(super) const WIDTH: usize = 8;

/// A width of registers with AES rounds on all blocks in them. Every method is inlined where it is used.
///
/// # Safety
/// A value can only be had where the CPU has all that the methods use.
pub(super) unsafe trait Aes: Wide {
    /// Blocks in a register: 1, 2 or 4.
    const LANES: usize;

    /// A block, given as a little-endian number, in every lane.
    fn in_every_lane(self, block: u128) -> Self::Register;

    fn xor(self, one: Self::Register, other: Self::Register) -> Self::Register;

    /// The sum of three, of which `late` is the last to be ready.
    fn xor3(self, late: Self::Register, a: Self::Register, b: Self::Register) -> Self::Register;

    fn one_round<const ENCRYPT: bool>(
        self,
        blocks: Self::Register,
        key: Self::Register,
    ) -> Self::Register;

    /// The last round. A value to be added to the result can be added to `key`, which need not wait.
    fn last_round<const ENCRYPT: bool>(
        self,
        blocks: Self::Register,
        key: Self::Register,
    ) -> Self::Register;

    /// Holds all registers at this point, so that their rounds are taken in step.
    fn in_step(self, data: &mut [Self::Register; WIDTH]);

    /// A register of blocks; when it is not to be `WHOLE`, only the first `blocks`, and zeros.
    ///
    /// # Safety
    /// They can be read at `source`.
    unsafe fn load<const WHOLE: bool>(self, source: *const u8, blocks: usize) -> Self::Register;

    /// The reverse of [`load`](Self::load): stores blocks.
    ///
    /// # Safety
    /// They can be written at `destination`.
    unsafe fn store<const WHOLE: bool>(
        self,
        destination: *mut u8,
        blocks: usize,
        register: Self::Register,
    );
}

/// Implements [`Aes`] for a width by the functions of the same names in the module where it is used,
/// and by `first_words` there, which says what to load and store of a register that is not whole.
/// The module must compile those functions for no CPU feature but those that `$width` proves: the macro's `unsafe`
/// blocks rely on it, and the compiler does not check it.
macro_rules! aes_by_functions {
    ($width:ident, $register:ident, $lanes:literal) => {
        // SAFETY: a value of `$width` proves that the CPU has the width's features, and the module that uses the macro
        // compiles the functions called here for a subset of them, as the macro demands.
        unsafe impl Aes for $width {
            const LANES: usize = $lanes;

            #[inline(always)]
            fn in_every_lane(self, number: u128) -> $register {
                // SAFETY: `self` proves the width's features; the function needs a subset of them.
                unsafe { in_every_lane(number) }
            }

            #[inline(always)]
            fn xor(self, one: $register, other: $register) -> $register {
                // SAFETY: as above.
                unsafe { xor(one, other) }
            }

            #[inline(always)]
            fn xor3(self, late: $register, a: $register, b: $register) -> $register {
                // SAFETY: as above.
                unsafe { xor3(late, a, b) }
            }

            #[inline(always)]
            fn one_round<const ENCRYPT: bool>(
                self,
                blocks: $register,
                key: $register,
            ) -> $register {
                // SAFETY: as above.
                unsafe { one_round::<ENCRYPT>(blocks, key) }
            }

            #[inline(always)]
            fn last_round<const ENCRYPT: bool>(
                self,
                blocks: $register,
                key: $register,
            ) -> $register {
                // SAFETY: as above.
                unsafe { last_round::<ENCRYPT>(blocks, key) }
            }

            #[inline(always)]
            fn in_step(self, data: &mut Group) {
                // SAFETY: as above.
                unsafe { in_step(data) }
            }

            /// # Safety
            /// As the trait says.
            #[inline(always)]
            unsafe fn load<const WHOLE: bool>(self, source: *const u8, blocks: usize) -> $register {
                // SAFETY: as above; the caller promises what is read.
                unsafe { load::<WHOLE>(source, first_words(blocks)) }
            }

            /// # Safety
            /// As the trait says.
            #[inline(always)]
            unsafe fn store<const WHOLE: bool>(
                self,
                destination: *mut u8,
                blocks: usize,
                register: $register,
            ) {
                // SAFETY: as above; the caller promises what is written.
                unsafe { store::<WHOLE>(destination, first_words(blocks), register) }
            }
        }
    };
}

pub(super) use aes_by_functions;

/// Takes the first `N` registers through all rounds but the last, which is left to the caller: it
/// has something to add. The others remain.
#[inline(always)]
pub(super) fn rounds<W: Aes, const ROUNDS: usize, const ENCRYPT: bool, const N: usize>(
    width: W,
    keys: &Schedule<W>,
    data: &mut [W::Register; WIDTH],
) {
    some_rounds::<W, ENCRYPT, N>(width, &keys[1..ROUNDS], data);
    width.in_step(data);
}

/// Takes the first `N` registers through a round for each of `keys`.
#[inline(always)]
pub(super) fn some_rounds<W: Aes, const ENCRYPT: bool, const N: usize>(
    width: W,
    keys: &[W::Register],
    data: &mut [W::Register; WIDTH],
) {
    for key in keys {
        width.in_step(data);
        for blocks in &mut data[..N] {
            *blocks = width.one_round::<ENCRYPT>(*blocks, *key);
        }
    }
}

/// Takes `blocks` blocks in groups of 8 registers and, of those that are left over, of 4, 2 and 1, and
/// at last those that do not fill a register. The body is compiled for each. It is given where the
/// group begins, in blocks, the number of its registers and whether they are whole, as constants,
/// and how many blocks are in it.
macro_rules! in_groups_of_registers {
    ($lanes:expr, $blocks:expr, |$at:ident, $registers:ident, $whole:ident, $len:ident| $body:block) => {{
        use crate::kernels::groups::in_groups;
        let (registers, rest) = ($blocks / $lanes, $blocks % $lanes);
        in_groups!(registers, index, LANES => {
            const $registers: usize = LANES;
            const $whole: bool = true;
            let ($at, $len) = (index * $lanes, LANES * $lanes);
            $body
        });
        if rest > 0 {
            const $registers: usize = 1;
            const $whole: bool = false;
            let ($at, $len) = (registers * $lanes, rest);
            $body
        }
    }};
}

pub(super) use in_groups_of_registers;
