//! Sixteen blocks at a time, in words of sixteen blocks or twice in words of eight.

use core::arch::x86_64::*;

use super::super::batch::{Batch, Cipher, Zeros, blocks_of, blocks_of_mut};
use super::super::cpu::{Avx2, Avx2Avx512, Proof};
use super::super::transposed::{in_halves, in_quarters};
use super::rounds::{self, Schedule, Schedules};
use super::words::{Eight, Sixteen, State};
use crate::kernels::cursor::Cursor;
use crate::kernels::opaque::opaque;

/// Registers of 256 bits that a batch of sixteen blocks takes.
const PAIRS: usize = 8;

type Sixteens = Batch<PAIRS>;

/// Largest number of blocks that take less time one after the other than as a batch.
const FEW: usize = 3;

/// Serpent on registers of a width.
#[derive(Clone, Copy)]
pub(super) struct Serpent<W>(W);

impl<W: Proof> Proof for Serpent<W> {
    const FEATURES: &[&str] = W::FEATURES;

    fn detect() -> Option<Self> {
        W::detect().map(Self)
    }
}

/// Registers in which batches are computed. Every width has AVX2 too, for all else.
pub(super) trait Width: Proof {
    /// [`Cipher::all_rounds`] with the round keys of the direction.
    ///
    /// # Safety
    /// As there.
    unsafe fn all_rounds<const ENCRYPT: bool>(
        self,
        keys: &Schedule,
        at: Cursor,
        before: &Sixteens,
        after: &Sixteens,
    );
}

// SAFETY: every width has AVX2; rounds and `few` access sixteen blocks.
unsafe impl<W: Width> Cipher<PAIRS> for Serpent<W> {
    type Keys = Schedules;
    const NO_KEYS: Schedules = Schedules::EMPTY;
    const FEW: usize = FEW;

    fn expand(self, key: &[u8], keys: &mut Schedules) {
        keys.expand(key);
    }

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn all_rounds<const ENCRYPT: bool>(
        self,
        keys: &Schedules,
        at: Cursor,
        before: &Sixteens,
        after: &Sixteens,
    ) {
        // SAFETY: the caller promises the blocks.
        unsafe {
            self.0
                .all_rounds::<ENCRYPT>(keys.of::<ENCRYPT>(), at, before, after);
        }
    }

    #[inline(always)]
    fn few<const ENCRYPT: bool>(
        self,
        keys: &Schedules,
        input: Option<&Sixteens>,
        masks: [&Sixteens; 2],
        blocks: &mut Sixteens,
        count: usize,
    ) {
        few::<ENCRYPT>(keys.of::<ENCRYPT>(), input, masks, blocks, count);
    }
}

impl Width for Avx2 {
    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn all_rounds<const ENCRYPT: bool>(
        self,
        keys: &Schedule,
        at: Cursor,
        before: &Sixteens,
        after: &Sixteens,
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
        before: &Sixteens,
        after: &Sixteens,
    ) {
        // SAFETY: the token shows that the CPU has AVX-512; the caller promises the blocks.
        unsafe { rounds_of_sixteen::<ENCRYPT>(self, keys, at, before, after) }
    }
}

/// Transforms the first `count` blocks, one after the other.
#[inline(never)]
fn few<const ENCRYPT: bool>(
    keys: &Schedule,
    input: Option<&Sixteens>,
    masks: [&Sixteens; 2],
    blocks: &mut Sixteens,
    count: usize,
) {
    let input = input.map(blocks_of);
    let [before, after] = masks.map(blocks_of);
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
    before: &Sixteens,
    after: &Sixteens,
) {
    let mut registers = Zeros::BATCH;
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
    before: &Sixteens,
    after: &Sixteens,
) {
    let four = |from: *const u8, index: usize| {
        // SAFETY: the caller promises the blocks, and batches have as many.
        unsafe { _mm512_loadu_si512(from.add(64 * index).cast()) }
    };
    let (before, after) = (before.as_ptr().cast(), after.as_ptr().cast());
    let registers =
        [0, 1, 2, 3].map(|index| _mm512_xor_si512(four(at.source, index), four(before, index)));
    let mut sets = [in_quarters(registers).map(|words| Sixteen::new(width, words))];
    if ENCRYPT {
        rounds::encrypt(keys, &mut sets, |word| Sixteen::all(width, word));
    } else {
        rounds::decrypt(keys, &mut sets, |word| Sixteen::all(width, word));
    }
    let [set] = sets;
    let registers = in_quarters(set.map(Sixteen::register));
    for (index, register) in registers.into_iter().enumerate() {
        let blocks = _mm512_xor_si512(register, four(after, index));
        // SAFETY: as for the loads.
        unsafe { _mm512_storeu_si512(at.destination.add(64 * index).cast(), blocks) };
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn words_of(width: Avx2, [a, b, c, d, e, f, g, h]: Sixteens) -> [State<Eight>; 2] {
    let ([a, b, c, d], [e, f, g, h]) = (in_halves([a, b, c, d]), in_halves([e, f, g, h]));
    let new = |words| Eight::new(width, words);
    [
        [new(a), new(b), new(c), new(d)],
        [new(e), new(f), new(g), new(h)],
    ]
}

/// The reverse of [`words_of`].
#[inline]
#[target_feature(enable = "avx2")]
fn registers_of([one, other]: [State<Eight>; 2]) -> Sixteens {
    let registers = |[a, b, c, d]: State<Eight>| {
        in_halves([a.register(), b.register(), c.register(), d.register()])
    };
    let ([a, b, c, d], [e, f, g, h]) = (registers(one), registers(other));
    [a, b, c, d, e, f, g, h]
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
