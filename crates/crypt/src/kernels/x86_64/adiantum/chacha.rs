//! XChaCha (draft-irtf-cfrg-xchacha), a lane for each block.
//!
//! HChaCha makes a key of each nonce: those of all data units in one pass, so that a register has a word of the key of each.
//! Then the blocks of the data units' key streams fill the lanes one after the other, wherever a data unit ends: each lane
//! selects the words of the key of its data unit.

use super::bulks::{BLOCK, Bulks};
use super::lanes::Lanes;
use crate::kernels::adiantum::UNITS_MAX;
use crate::kernels::iv::Block;

/// First four words of the state: "expand 32-byte k".
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// [`Primitives::xor_streams`](crate::kernels::adiantum::Primitives::xor_streams) with `rounds` rounds. Names no CPU
/// feature, and is inlined where those of `L` are enabled. There are no more nonces than lanes.
#[inline(always)]
pub(super) fn xor_streams<L: Lanes>(
    width: L::Width,
    rounds: usize,
    key: &[u32; 8],
    nonces: &[Block],
    unit: usize,
    data: &mut [u8],
) {
    let bulk = unit - size_of::<Block>();
    let blocks = bulk.div_ceil(BLOCK);
    if blocks == 0 {
        return;
    }
    assert!(nonces.len() <= L::LANES, "{} data units", nonces.len());
    let keys = keys::<L>(width, rounds, key, nonces);
    let [zero, one] = [0, 1].map(|word| L::all(width, word));
    // Both are small.
    let [all, lanes] = [blocks, L::LANES]
        .map(|number| L::all(width, number.try_into().unwrap_or(i32::MAX.cast_unsigned())));
    let mut bulks = Bulks::new(data, bulk);
    // Number of the block of each lane, and of its data unit.
    let (mut block, mut unit) = (L::load(width, &NUMBERS), zero);
    for _ in (0..nonces.len() * blocks).step_by(L::LANES) {
        while L::carry(&mut block, &mut unit, all) {}
        let [a, b, c, d] = CONSTANTS.map(|word| L::all(width, word));
        let [e, f, g, h, i, j, k, l] = keys;
        let start = [
            a,
            b,
            c,
            d,
            e.select(unit),
            f.select(unit),
            g.select(unit),
            h.select(unit),
            i.select(unit),
            j.select(unit),
            k.select(unit),
            l.select(unit),
            block,
            zero,
            one,
            zero,
        ];
        let mut words = start;
        permute(&mut words, rounds);
        for (word, start) in words.iter_mut().zip(start) {
            *word = word.add(start);
        }
        L::xor_blocks(words, &mut bulks);
        block = block.add(lanes);
    }
}

const NUMBERS: [u32; UNITS_MAX] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// HChaCha: a key for each nonce.
#[inline(always)]
fn keys<L: Lanes>(width: L::Width, rounds: usize, key: &[u32; 8], nonces: &[Block]) -> [L; 8] {
    let mut words = [[0; UNITS_MAX]; 4];
    for (lane, nonce) in nonces.iter().enumerate() {
        let (parts, _) = nonce.as_chunks();
        for (words, part) in words.iter_mut().zip(parts) {
            words[lane] = u32::from_le_bytes(*part);
        }
    }
    let [a, b, c, d] = CONSTANTS.map(|word| L::all(width, word));
    let [e, f, g, h, i, j, k, l] = key.map(|word| L::all(width, word));
    let [m, n, o, p] = words.each_ref().map(|words| L::load(width, words));
    let mut words = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p];
    permute(&mut words, rounds);
    let [a, b, c, d, .., m, n, o, p] = words;
    [a, b, c, d, m, n, o, p]
}

/// Computes `rounds` rounds of ChaCha, each on columns or on diagonals, in pairs.
#[inline(always)]
fn permute<L: Lanes>(words: &mut [L; 16], rounds: usize) {
    for _ in 0..rounds / 2 {
        quarter(words, [0, 4, 8, 12]);
        quarter(words, [1, 5, 9, 13]);
        quarter(words, [2, 6, 10, 14]);
        quarter(words, [3, 7, 11, 15]);
        quarter(words, [0, 5, 10, 15]);
        quarter(words, [1, 6, 11, 12]);
        quarter(words, [2, 7, 8, 13]);
        quarter(words, [3, 4, 9, 14]);
    }
}

/// A quarter round (RFC 8439, 2.1).
#[inline(always)]
fn quarter<L: Lanes>(words: &mut [L; 16], [a, b, c, d]: [usize; 4]) {
    words[a] = words[a].add(words[b]);
    words[d] = words[d].xor(words[a]).rotate::<16, 16>();
    words[c] = words[c].add(words[d]);
    words[b] = words[b].xor(words[c]).rotate::<12, 20>();
    words[a] = words[a].add(words[b]);
    words[d] = words[d].xor(words[a]).rotate::<8, 24>();
    words[c] = words[c].add(words[d]);
    words[b] = words[b].xor(words[c]).rotate::<7, 25>();
}
