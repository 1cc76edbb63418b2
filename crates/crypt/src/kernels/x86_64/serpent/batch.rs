//! Sixteen blocks at a time, in words of sixteen blocks or twice in words of eight.

use core::arch::x86_64::*;

use zeroize::Zeroizing;

use super::super::cpu::{Avx2, Avx2Avx512, Proof};
use super::rounds::{self, Schedule};
use super::words::{Eight, Sixteen, State};
use crate::kernels::cursor::Cursor;
use crate::kernels::opaque::opaque;

/// Blocks that are transformed together.
pub(super) const BLOCKS: usize = 16;

/// Two blocks in each register, in the order of memory.
pub(super) type Batch = [__m256i; BLOCKS / 2];

// SAFETY: any pattern of bits is a value.
pub(super) const ZEROS: Batch = unsafe { core::mem::zeroed() };

/// Of fewer blocks than this each takes less time by itself than all of them take as a batch.
const FEW: usize = 4;

/// Registers in which batches are computed. Every width has AVX2 too, for all else.
pub(super) trait Width: Proof {
    /// Transforms a batch, with `before` added before the cipher, and `after` after it.
    ///
    /// # Safety
    /// It can be read and written `at`.
    unsafe fn all_rounds<const ENCRYPT: bool>(
        self,
        keys: &Schedule,
        at: Cursor,
        before: &Batch,
        after: &Batch,
    );
}

impl Width for Avx2 {
    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn all_rounds<const ENCRYPT: bool>(
        self,
        keys: &Schedule,
        at: Cursor,
        before: &Batch,
        after: &Batch,
    ) {
        // SAFETY: the token shows that the CPU has AVX2; the caller promises the blocks.
        unsafe { rounds_of_eight::<ENCRYPT>(self, keys, at, before, after) }
    }
}

impl Width for Avx2Avx512 {
    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn all_rounds<const ENCRYPT: bool>(
        self,
        keys: &Schedule,
        at: Cursor,
        before: &Batch,
        after: &Batch,
    ) {
        // SAFETY: the token shows that the CPU has AVX-512; the caller promises the blocks.
        unsafe { rounds_of_sixteen::<ENCRYPT>(self, keys, at, before, after) }
    }
}

/// Source of what is added to blocks before and after the cipher.
pub(super) trait Masks {
    /// Goes on to the masks of the next `count` blocks.
    ///
    /// # Safety
    /// A whole batch can be read at `source`. The blocks are the first of it.
    unsafe fn next(&mut self, source: *const u8, count: usize);

    /// The blocks that the cipher is to have, where they are not those of the source.
    fn input(&self) -> Option<&Batch> {
        None
    }

    fn before(&self) -> &Batch;

    fn after(&self) -> &Batch;
}

/// Transforms `blocks` blocks.
///
/// # Safety
/// They can be read and written `at`.
#[inline(always)]
pub(super) unsafe fn transform<W: Width, const ENCRYPT: bool>(
    width: W,
    keys: &Schedule,
    masks: &mut impl Masks,
    mut at: Cursor,
    blocks: usize,
) {
    let (whole, rest) = (blocks / BLOCKS, blocks % BLOCKS);
    for number in 0..whole {
        // SAFETY: so many blocks are left, 16 of them for this batch.
        unsafe {
            at.prefetch(16 * BLOCKS, 16 * (blocks - BLOCKS * number));
            masks.next(at.source, BLOCKS);
            batch::<W, ENCRYPT>(width, keys, masks, at);
            at = at.add(16 * BLOCKS);
        }
    }
    if rest > 0 {
        let mut room = Zeroizing::new(ZEROS);
        // SAFETY: `rest` blocks are left, and the room is for 16.
        unsafe {
            copy(at.source, room.as_mut_ptr().cast(), rest);
            masks.next(room.as_ptr().cast(), rest);
            if rest < FEW {
                few::<ENCRYPT>(keys, masks, &mut room, rest);
            } else {
                let destination = room.as_mut_ptr().cast::<u8>();
                let source = destination.cast_const();
                let inside = Cursor {
                    source,
                    destination,
                };
                batch::<W, ENCRYPT>(width, keys, masks, inside);
            }
            copy(room.as_ptr().cast(), at.destination, rest);
        }
    }
}

/// Transforms up to 16 blocks in their place, with nothing added to them.
pub(super) fn in_place<W: Width, const ENCRYPT: bool>(
    width: W,
    keys: &Schedule,
    blocks: &mut Batch,
    count: usize,
) {
    let destination = blocks.as_mut_ptr().cast::<u8>();
    let source = destination.cast_const();
    let at = Cursor {
        source,
        destination,
    };
    // SAFETY: a batch has 16 blocks.
    unsafe { transform::<W, ENCRYPT>(width, keys, &mut Nothing, at, count.min(BLOCKS)) }
}

/// Adds nothing, neither before the cipher nor after it.
pub(super) struct Nothing;

impl Masks for Nothing {
    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn next(&mut self, _: *const u8, _: usize) {}

    fn before(&self) -> &Batch {
        &ZEROS
    }

    fn after(&self) -> &Batch {
        &ZEROS
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

/// Transforms the first `count` blocks, one after the other.
#[inline(never)]
fn few<const ENCRYPT: bool>(keys: &Schedule, masks: &impl Masks, blocks: &mut Batch, count: usize) {
    let input = masks.input().map(blocks_of);
    let (before, after) = (blocks_of(masks.before()), blocks_of(masks.after()));
    for (number, block) in blocks_of_mut(blocks)[..count].iter_mut().enumerate() {
        // Otherwise a round key is kept on the stack from block to block.
        let keys = opaque(keys);
        let input = input.map_or(*block, |input| input[number]);
        let mut set = [words(input ^ before[number])];
        if ENCRYPT {
            rounds::encrypt(keys, &mut set, |word| word);
        } else {
            rounds::decrypt(keys, &mut set, |word| word);
        }
        *block = number_of(set[0]) ^ after[number];
    }
}

/// Transforms a batch.
///
/// # Safety
/// It can be read and written `at`.
#[inline(always)]
unsafe fn batch<W: Width, const ENCRYPT: bool>(
    width: W,
    keys: &Schedule,
    masks: &impl Masks,
    at: Cursor,
) {
    let at = Cursor {
        source: masks
            .input()
            .map_or(at.source, |input| input.as_ptr().cast()),
        ..at
    };
    // SAFETY: the caller promises the blocks.
    unsafe { width.all_rounds::<ENCRYPT>(keys, at, masks.before(), masks.after()) }
}

/// [`Width::all_rounds`] in two sets of words of eight blocks.
///
/// # Safety
/// As there.
#[inline(never)]
#[target_feature(enable = "avx2")]
unsafe fn rounds_of_eight<const ENCRYPT: bool>(
    width: Avx2,
    keys: &Schedule,
    at: Cursor,
    before: &Batch,
    after: &Batch,
) {
    let mut registers = ZEROS;
    for (index, register) in registers.iter_mut().enumerate() {
        // SAFETY: the caller promises the blocks.
        let blocks = unsafe { _mm256_loadu_si256(at.source.add(32 * index).cast()) };
        *register = _mm256_xor_si256(blocks, before[index]);
    }
    let mut sets = words_of(width, registers);
    if ENCRYPT {
        rounds::encrypt(keys, &mut sets, |word| Eight::all(width, word));
    } else {
        rounds::decrypt(keys, &mut sets, |word| Eight::all(width, word));
    }
    for (index, register) in registers_of(sets).into_iter().enumerate() {
        let blocks = _mm256_xor_si256(register, after[index]);
        // SAFETY: as for the loads.
        unsafe { _mm256_storeu_si256(at.destination.add(32 * index).cast(), blocks) };
    }
}

/// [`Width::all_rounds`] in words of sixteen blocks.
///
/// # Safety
/// As there.
#[inline(never)]
#[target_feature(enable = "avx512f")]
unsafe fn rounds_of_sixteen<const ENCRYPT: bool>(
    width: Avx2Avx512,
    keys: &Schedule,
    at: Cursor,
    before: &Batch,
    after: &Batch,
) {
    let four = |from: *const u8, index: usize| {
        // SAFETY: the caller promises the blocks, and batches have as many.
        unsafe { _mm512_loadu_si512(from.add(64 * index).cast()) }
    };
    let (before, after) = (before.as_ptr().cast(), after.as_ptr().cast());
    let registers =
        [0, 1, 2, 3].map(|index| _mm512_xor_si512(four(at.source, index), four(before, index)));
    let mut sets = [transposed_of_sixteen(registers).map(|words| Sixteen::new(width, words))];
    if ENCRYPT {
        rounds::encrypt(keys, &mut sets, |word| Sixteen::all(width, word));
    } else {
        rounds::decrypt(keys, &mut sets, |word| Sixteen::all(width, word));
    }
    let [set] = sets;
    let registers = transposed_of_sixteen(set.map(Sixteen::register));
    for (index, register) in registers.into_iter().enumerate() {
        let blocks = _mm512_xor_si512(register, four(after, index));
        // SAFETY: as for the loads.
        unsafe { _mm512_storeu_si512(at.destination.add(64 * index).cast(), blocks) };
    }
}

/// Makes words of blocks, or blocks of words: exchanges rows and columns of four words by four in each quarter of the
/// registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed_of_sixteen([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let low = [_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)];
    let high = [_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)];
    [
        _mm512_unpacklo_epi64(low[0], low[1]),
        _mm512_unpackhi_epi64(low[0], low[1]),
        _mm512_unpacklo_epi64(high[0], high[1]),
        _mm512_unpackhi_epi64(high[0], high[1]),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn words_of(width: Avx2, [a, b, c, d, e, f, g, h]: Batch) -> [State<Eight>; 2] {
    let ([a, b, c, d], [e, f, g, h]) = (transposed([a, b, c, d]), transposed([e, f, g, h]));
    let new = |words| Eight::new(width, words);
    [
        [new(a), new(b), new(c), new(d)],
        [new(e), new(f), new(g), new(h)],
    ]
}

/// The reverse of [`words_of`].
#[inline]
#[target_feature(enable = "avx2")]
fn registers_of([one, other]: [State<Eight>; 2]) -> Batch {
    let registers = |[a, b, c, d]: State<Eight>| {
        transposed([a.register(), b.register(), c.register(), d.register()])
    };
    let ([a, b, c, d], [e, f, g, h]) = (registers(one), registers(other));
    [a, b, c, d, e, f, g, h]
}

/// Makes words of blocks, or blocks of words: exchanges rows and columns of four words by four in each half of the
/// registers.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let low = [_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d)];
    let high = [_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d)];
    [
        _mm256_unpacklo_epi64(low[0], low[1]),
        _mm256_unpackhi_epi64(low[0], low[1]),
        _mm256_unpacklo_epi64(high[0], high[1]),
        _mm256_unpackhi_epi64(high[0], high[1]),
    ]
}

/// The blocks of a batch, as numbers in the order of memory.
pub(super) fn blocks_of(batch: &Batch) -> &[u128; BLOCKS] {
    // SAFETY: as many bytes, of no less alignment, and any pattern of bits is a value.
    unsafe { &*core::ptr::from_ref(batch).cast() }
}

/// Like [`blocks_of`], to write.
pub(super) fn blocks_of_mut(batch: &mut Batch) -> &mut [u128; BLOCKS] {
    // SAFETY: as above, and the borrow remains exclusive.
    unsafe { &mut *core::ptr::from_mut(batch).cast() }
}

fn words(block: u128) -> State<u32> {
    let bytes = block.to_le_bytes();
    let (words, _) = bytes.as_chunks();
    [0, 1, 2, 3].map(|word| u32::from_le_bytes(words[word]))
}

fn number_of(words: State<u32>) -> u128 {
    let mut number = 0;
    for word in words.into_iter().rev() {
        number = number << 32 | u128::from(word);
    }
    number
}
