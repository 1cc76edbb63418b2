//! References to data that the compiler can no longer reason about.
//!
//! Kernels read the round keys again for every group of blocks. A compiler that knows them
//! unchanged loads them all before the loop and, short of registers, copies them to the stack: key
//! material where it is never wiped, for no gain.

use core::arch::asm;

/// The same reference, opaque to the compiler.
#[inline(always)]
#[expect(
    clippy::pointers_in_nomem_asm_block,
    reason = "nothing is read or written"
)]
pub(super) fn opaque<T>(value: &T) -> &T {
    let mut pointer: *const T = value;
    // SAFETY: no instruction, so that `pointer` remains what it is.
    unsafe {
        asm!("/* {0} */", inout(reg) pointer, options(nomem, nostack, preserves_flags));
        &*pointer
    }
}
