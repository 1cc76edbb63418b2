//! Traces of keys on the stack.

use zeroize::optimization_barrier;

/// More of the stack than expanding a key or a call of the portable kernel uses, in bytes.
const STACK_BYTES: usize = 16 << 10;

/// Overwrites values that functions left on the stack when they returned, below the frame of the
/// caller. The compiler does not promise where it keeps values; `tests/wiping.rs` verifies the result.
pub(crate) fn stack() {
    below::<STACK_BYTES>();
}

/// Like [`stack`], for functions whose frames have no more than `BYTES` together.
#[inline(never)]
pub(crate) fn below<const BYTES: usize>() {
    let zeros = [0u8; BYTES];
    optimization_barrier(&zeros);
}
