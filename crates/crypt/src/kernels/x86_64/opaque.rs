//! References and numbers that the compiler can no longer reason about, for the reasons in [`crate::kernels::opaque`].

use core::arch::asm;

/// The same reference, to write through: what is behind it is in its place whenever it is wiped,
/// and nowhere else.
#[inline(always)]
#[expect(
    clippy::pointers_in_nomem_asm_block,
    reason = "nothing is read or written"
)]
pub(super) fn opaque_mut<T>(value: &mut T) -> &mut T {
    let mut pointer: *mut T = value;
    // SAFETY: as for `opaque`; the borrow remains exclusive.
    unsafe {
        asm!("/* {0} */", inout(reg) pointer, options(nomem, nostack, preserves_flags));
        &mut *pointer
    }
}

/// The same number, in general registers: the compiler does not load it as a whole from where its halves were written,
/// which a processor cannot forward to such a load.
#[inline(always)]
pub(super) fn in_general_registers(number: u128) -> u128 {
    let bytes = number.to_le_bytes();
    let (halves, _) = bytes.as_chunks();
    let [mut low, mut high] = [0, 1].map(|half| u64::from_le_bytes(halves[half]));
    // SAFETY: no instruction, so that both remain what they are.
    unsafe {
        asm!("/* {0} {1} */", inout(reg) low, inout(reg) high, options(pure, nomem, nostack, preserves_flags));
    }
    u128::from(high) << 64 | u128::from(low)
}
