//! Traces of keys on the stack.

use zeroize::optimization_barrier;

/// As much of the stack as expanding a key or a call of the portable kernel uses, with room to
/// spare, in bytes.
const ROOM: usize = 16 << 10;

/// Overwrites what functions that have returned left behind on the stack, below the frame of the
/// caller. The compiler promises nothing about where they kept what; `tests/wiping.rs` looks at
/// what came of it.
#[inline(never)]
pub(crate) fn stack() {
    let room = [0u8; ROOM];
    optimization_barrier(&room);
}
