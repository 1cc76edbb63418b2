//! AES-ECB with VAES at any width. Blocks know nothing of data units, so the run is taken as a whole.

use super::cursor::Cursor;
use super::opaque::opaque;
use super::vaes::{Vaes, WIDTH, in_groups_of_registers, rounds};
use super::wide::Schedule;

/// # Safety
/// `blocks` blocks can be read and written at `start`.
#[inline(always)]
pub(super) unsafe fn transform<W: Vaes, const ROUNDS: usize, const ENCRYPT: bool>(
    width: W,
    keys: &Schedule<W>,
    start: Cursor,
    blocks: usize,
) {
    in_groups_of_registers!(W::LANES, blocks, |index, N, WHOLE, len| {
        // SAFETY: blocks `index` to `index + len` are among them.
        unsafe {
            let at = start.add(16 * index);
            at.prefetch(16 * len, 16 * (blocks - index));
            group::<W, ROUNDS, ENCRYPT, N, WHOLE>(width, keys, at, len);
        }
    });
}

/// Transforms `N` registers of blocks, or the first `blocks` blocks of one.
///
/// # Safety
/// They can be read and written `at`.
#[inline(always)]
unsafe fn group<
    W: Vaes,
    const ROUNDS: usize,
    const ENCRYPT: bool,
    const N: usize,
    const WHOLE: bool,
>(
    width: W,
    keys: &Schedule<W>,
    at: Cursor,
    blocks: usize,
) {
    let keys = opaque(keys);
    let bytes = 16 * W::LANES;
    let mut data = [W::ZERO; WIDTH];
    for (index, register) in data[..N].iter_mut().enumerate() {
        // SAFETY: the caller promises the blocks.
        let input = unsafe { width.load::<WHOLE>(at.source.wrapping_add(bytes * index), blocks) };
        *register = width.xor(input, keys[0]);
    }
    rounds::<W, ROUNDS, ENCRYPT, N>(width, keys, &mut data);
    for (index, register) in data[..N].iter().enumerate() {
        let output = width.last_round::<ENCRYPT>(*register, keys[ROUNDS]);
        // SAFETY: as for the loads.
        unsafe {
            let to = at.destination.wrapping_add(bytes * index);
            width.store::<WHOLE>(to, blocks, output);
        }
    }
}
