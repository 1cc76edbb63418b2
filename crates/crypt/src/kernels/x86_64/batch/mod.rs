//! Modes of operation for block ciphers that transform a batch of blocks at a time.
//!
//! | | |
//! |---|---|
//! | for | Serpent and Camellia, on registers of every width, and AES in LRW |
//! | batch | blocks in memory, as many as the cipher transforms together; they are added to masks before the cipher and after it |
//! | masks | tweaks, counters or ciphertext, made one batch ahead where they are written by general registers |
//! | constant time | yes, as the cipher is |
//! | why | a cipher of this kind differs from others only in what it does with a batch |

mod lrw;
mod modes;

use core::arch::x86_64::*;

use zeroize::Zeroizing;

pub(super) use self::lrw::Lrw;
pub(super) use self::modes::{Cbc, Ctr, Ecb, Mode, Xts, set_up};
use super::cpu::Proof;
use crate::kernels::cursor::Cursor;

/// Blocks that are transformed together, two in each of `PAIRS` registers, in the order of memory.
pub(super) type Batch<const PAIRS: usize> = [__m256i; PAIRS];

/// A block cipher on batches: a proof token, with what can be done where it can be had.
///
/// # Safety
/// A value can only be had where the CPU has AVX. The methods access no more than a batch.
pub(super) unsafe trait Cipher<const PAIRS: usize>: Proof {
    /// Round keys of both directions.
    type Keys: Send + Sync + 'static;
    const NO_KEYS: Self::Keys;

    /// The largest number of blocks that [`few`](Self::few) transforms in less time than a batch takes.
    const FEW: usize = 0;

    /// Expands a key of 16, 24 or 32 bytes.
    fn expand(self, key: &[u8], keys: &mut Self::Keys);

    /// Transforms a batch, with `before` added before the cipher, and `after` after it.
    ///
    /// # Safety
    /// It can be read and written `at`.
    unsafe fn all_rounds<const ENCRYPT: bool>(
        self,
        keys: &Self::Keys,
        at: Cursor,
        before: &Batch<PAIRS>,
        after: &Batch<PAIRS>,
    );

    /// Transforms the first `count` blocks of a batch, at most [`FEW`](Self::FEW) of them, like
    /// [`all_rounds`](Self::all_rounds). They are those of `input`, if there is one.
    fn few<const ENCRYPT: bool>(
        self,
        keys: &Self::Keys,
        input: Option<&Batch<PAIRS>>,
        masks: [&Batch<PAIRS>; 2],
        blocks: &mut Batch<PAIRS>,
        count: usize,
    ) {
        let _ = (keys, input, masks, blocks);
        unreachable!("{count} blocks are more than a few");
    }
}

/// Source of what is added to blocks before and after the cipher.
pub(super) trait Masks<const PAIRS: usize> {
    /// Goes on to the masks of the next `count` blocks.
    ///
    /// # Safety
    /// A whole batch can be read at `source`. The blocks are the first of it.
    unsafe fn next(&mut self, source: *const u8, count: usize);

    /// The blocks that the cipher is to have, where they are not those of the source.
    fn input(&self) -> Option<&Batch<PAIRS>> {
        None
    }

    fn before(&self) -> &Batch<PAIRS>;

    fn after(&self) -> &Batch<PAIRS>;
}

/// A batch of zeros.
pub(super) struct Zeros<const PAIRS: usize>;

impl<const PAIRS: usize> Zeros<PAIRS> {
    // SAFETY: any pattern of bits is a value.
    pub(super) const BATCH: Batch<PAIRS> = unsafe { core::mem::zeroed() };
}

/// Transforms `blocks` blocks.
///
/// # Safety
/// They can be read and written `at`.
#[inline(always)]
unsafe fn transform<C: Cipher<PAIRS>, const PAIRS: usize, const ENCRYPT: bool>(
    cipher: C,
    keys: &C::Keys,
    masks: &mut impl Masks<PAIRS>,
    mut at: Cursor,
    blocks: usize,
) {
    let (whole, rest) = (blocks / (2 * PAIRS), blocks % (2 * PAIRS));
    for number in 0..whole {
        // SAFETY: so many blocks are left, a batch of them for this turn.
        unsafe {
            at.prefetch(32 * PAIRS, 16 * (blocks - 2 * PAIRS * number));
            masks.next(at.source, 2 * PAIRS);
            batch::<C, PAIRS, ENCRYPT>(cipher, keys, masks, at);
            at = at.add(32 * PAIRS);
        }
    }
    if rest > 0 {
        let mut room = Zeroizing::new(Zeros::<PAIRS>::BATCH);
        // SAFETY: `rest` blocks are left, and the room is for a batch.
        unsafe {
            copy(at.source, room.as_mut_ptr().cast(), rest);
            masks.next(room.as_ptr().cast(), rest);
            if rest <= C::FEW {
                let added = [masks.before(), masks.after()];
                cipher.few::<ENCRYPT>(keys, masks.input(), added, &mut room, rest);
            } else {
                let destination = room.as_mut_ptr().cast::<u8>();
                let source = destination.cast_const();
                let inside = Cursor {
                    source,
                    destination,
                };
                batch::<C, PAIRS, ENCRYPT>(cipher, keys, masks, inside);
            }
            copy(room.as_ptr().cast(), at.destination, rest);
        }
    }
}

/// Transforms up to a batch of blocks in their place, with nothing added to them.
fn in_place<C: Cipher<PAIRS>, const PAIRS: usize, const ENCRYPT: bool>(
    cipher: C,
    keys: &C::Keys,
    blocks: &mut Batch<PAIRS>,
    count: usize,
) {
    let destination = blocks.as_mut_ptr().cast::<u8>();
    let source = destination.cast_const();
    let at = Cursor {
        source,
        destination,
    };
    let count = count.min(2 * PAIRS);
    // SAFETY: as many blocks are in a batch.
    unsafe { transform::<C, PAIRS, ENCRYPT>(cipher, keys, &mut Nothing, at, count) }
}

/// Adds nothing, neither before the cipher nor after it.
struct Nothing;

impl<const PAIRS: usize> Masks<PAIRS> for Nothing {
    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn next(&mut self, _: *const u8, _: usize) {}

    fn before(&self) -> &Batch<PAIRS> {
        &Zeros::BATCH
    }

    fn after(&self) -> &Batch<PAIRS> {
        &Zeros::BATCH
    }
}

/// Copies blocks. Each is read once, by one load.
///
/// # Safety
/// They can be read at `from` and written at `to`.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, blocks: usize) {
    for at in (0..16 * blocks).step_by(16) {
        // SAFETY: the caller promises the blocks.
        unsafe { _mm_storeu_si128(to.add(at).cast(), _mm_loadu_si128(from.add(at).cast())) };
    }
}

/// Transforms a batch.
///
/// # Safety
/// It can be read and written `at`.
#[inline(always)]
unsafe fn batch<C: Cipher<PAIRS>, const PAIRS: usize, const ENCRYPT: bool>(
    cipher: C,
    keys: &C::Keys,
    masks: &impl Masks<PAIRS>,
    at: Cursor,
) {
    let at = Cursor {
        source: masks
            .input()
            .map_or(at.source, |input| input.as_ptr().cast()),
        ..at
    };
    // SAFETY: the caller promises the blocks.
    unsafe { cipher.all_rounds::<ENCRYPT>(keys, at, masks.before(), masks.after()) }
}

/// The blocks of a batch, as numbers in the order of memory.
pub(super) fn blocks_of<const PAIRS: usize>(batch: &Batch<PAIRS>) -> &[u128] {
    // SAFETY: as many bytes, of no less alignment, and any pattern of bits is a value.
    unsafe { core::slice::from_raw_parts(batch.as_ptr().cast(), 2 * PAIRS) }
}

/// Like [`blocks_of`], to write.
pub(super) fn blocks_of_mut<const PAIRS: usize>(batch: &mut Batch<PAIRS>) -> &mut [u128] {
    // SAFETY: as above, and the borrow remains exclusive.
    unsafe { core::slice::from_raw_parts_mut(batch.as_mut_ptr().cast(), 2 * PAIRS) }
}
