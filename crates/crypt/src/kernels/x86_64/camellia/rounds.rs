//! The rounds of Camellia (RFC 3713, section 2.3) on registers that each hold one byte of many blocks.
//!
//! AESENCLAST moves the bytes of a lane, which here are bytes of different blocks, and AESDECLAST moves them back. The
//! function F goes from the left half of the blocks to the right one by the former, and back by the latter. So the
//! right half remains moved from the first round to the last, and no round has to put its bytes in order.

use super::keys::{Group, Schedule, Subkey};
use super::width::Width;
use crate::kernels::cursor::Cursor;
use crate::kernels::opaque::opaque;

/// Eight bytes of blocks, the most significant ones first.
type Half<W> = [<W as Width>::Register; 8];

/// Transforms 16 blocks for each lane, with those at `before` added before the cipher and those at `after` after it.
///
/// # Safety
/// They can be read and written `at`, and as many read at `before` and `after`.
#[inline(always)]
pub(super) unsafe fn transform<W: Width>(
    width: W,
    keys: &Schedule,
    at: Cursor,
    [before, after]: [*const u8; 2],
) {
    let place = |index: usize| 16 * W::LANES * index;
    macro_rules! load {
        ($($index:literal)*) => {
            [$(width.xor(
                width.load(at.source.add(place($index))),
                width.load(before.add(place($index))),
            )),*]
        };
    }
    // SAFETY: the caller promises the blocks.
    let blocks = unsafe { load!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15) };
    let blocks = all_rounds(width, keys, transposed(width, blocks));
    let blocks = transposed(width, blocks);
    macro_rules! store {
        ($($index:literal)*) => {{
            $(width.store(
                at.destination.add(place($index)),
                width.xor(blocks[$index], width.load(after.add(place($index)))),
            );)*
        }};
    }
    // SAFETY: as above.
    unsafe { store!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15) };
}

/// Makes registers of bytes of blocks, or the reverse: exchanges rows and columns of each lane.
#[inline(always)]
fn transposed<W: Width>(width: W, rows: [W::Register; 16]) -> [W::Register; 16] {
    let rows = interleaved(width, interleaved(width, rows));
    interleaved(width, interleaved(width, rows))
}

/// Takes bytes of the first eight rows and of the others by turns. Four times this exchanges rows and columns.
#[inline(always)]
fn interleaved<W: Width>(width: W, rows: [W::Register; 16]) -> [W::Register; 16] {
    macro_rules! rows {
        ($($index:literal $other:literal)*) => {
            [$(
                width.low(rows[$index], rows[$other]),
                width.high(rows[$index], rows[$other]),
            )*]
        };
    }
    rows!(0 8 1 9 2 10 3 11 4 12 5 13 6 14 7 15)
}

#[inline(always)]
fn all_rounds<W: Width>(width: W, keys: &Schedule, bytes: [W::Register; 16]) -> [W::Register; 16] {
    let zero = width.repeated(0);
    let (mut left, mut right): (Half<W>, Half<W>) = ([zero; 8], [zero; 8]);
    for index in 0..8 {
        left[index] = bytes[index];
        right[index] = width.moved(bytes[8 + index]);
    }
    let [one, other] = keys.before();
    add(width, &mut left, one);
    add(width, &mut right, other);
    let mut groups = keys.groups().iter();
    while let Some(group) = groups.next() {
        six_rounds(width, opaque(group), &mut left, &mut right);
        let [.., one, other] = opaque(group);
        if groups.len() > 0 {
            mix(width, &mut left, one);
            mix_back(width, &mut right, other);
        } else {
            add(width, &mut right, one);
            add(width, &mut left, other);
        }
    }
    let mut bytes = bytes;
    for index in 0..8 {
        bytes[index] = width.moved_back(right[index]);
        bytes[8 + index] = left[index];
    }
    bytes
}

#[inline(always)]
fn six_rounds<W: Width>(width: W, keys: &Group, left: &mut Half<W>, right: &mut Half<W>) {
    let (pairs, _) = keys[..6].as_chunks::<2>();
    for [one, other] in pairs {
        round::<W, true>(width, one, left, right);
        round::<W, false>(width, other, right, left);
    }
}

/// Adds F of one half to the other half.
#[inline(always)]
fn round<W: Width, const FIRST: bool>(width: W, key: &Subkey, from: &Half<W>, to: &mut Half<W>) {
    let mut bytes = *from;
    add(width, &mut bytes, key);
    substitute::<W, FIRST>(width, &mut bytes);
    if W::SUMS_OF_THREE {
        add_mixed_by_threes(width, bytes, to);
    } else {
        add_mixed(width, bytes, to);
    }
}

/// F without the addition of its subkey, which is of one block: the specification's functions S and P.
#[inline(always)]
pub(super) fn f<W: Width>(width: W, number: u64) -> u64 {
    let zero = width.repeated(0);
    let (mut bytes, mut sums) = ([zero; 8], [zero; 8]);
    for (register, byte) in bytes.iter_mut().zip(number.to_be_bytes()) {
        *register = width.repeated(u32::from(byte) * 0x0101_0101);
    }
    substitute::<W, true>(width, &mut bytes);
    add_mixed(width, bytes, &mut sums);
    let mut number = 0;
    for register in sums {
        number = number << 8 | u64::from(width.first_byte(register));
    }
    number
}

#[inline(always)]
fn substitute<W: Width, const FIRST: bool>(width: W, bytes: &mut Half<W>) {
    let [a, b, c, d, e, f, g, h] = bytes;
    *a = width.substitute::<0, FIRST>(*a);
    *b = width.substitute::<1, FIRST>(*b);
    *c = width.substitute::<2, FIRST>(*c);
    *d = width.substitute::<3, FIRST>(*d);
    *e = width.substitute::<1, FIRST>(*e);
    *f = width.substitute::<2, FIRST>(*f);
    *g = width.substitute::<3, FIRST>(*g);
    *h = width.substitute::<0, FIRST>(*h);
}

/// Adds P of `bytes` to `to`. P has four steps, each of which adds a half of the bytes to the other half.
#[inline(always)]
fn add_mixed<W: Width>(width: W, mut bytes: Half<W>, to: &mut Half<W>) {
    for (shift, to_upper) in [(1, true), (2, false), (3, true), (3, false)] {
        for index in 0..4 {
            let (place, other) = if to_upper {
                (index, 4 + (index + shift) % 4)
            } else {
                (4 + index, (index + shift) % 4)
            };
            bytes[place] = width.xor(bytes[place], bytes[other]);
        }
    }
    for index in 0..8 {
        to[index] = width.xor(to[index], bytes[(index + 4) % 8]);
    }
}

/// The same for registers that add three values at once.
#[inline(always)]
fn add_mixed_by_threes<W: Width>(width: W, bytes: Half<W>, to: &mut Half<W>) {
    let [a, b, c, d, e, f, g, h] = bytes;
    let (ef, gh) = (width.xor(e, f), width.xor(g, h));
    let sums = [
        xor3(width, a, f, gh),
        xor3(width, b, e, gh),
        xor3(width, c, h, ef),
        xor3(width, d, g, ef),
    ];
    let pairs = [
        width.xor(c, d),
        width.xor(a, d),
        width.xor(a, b),
        width.xor(b, c),
    ];
    let singles = [b, c, d, a];
    for index in 0..4 {
        to[index] = xor3(width, to[index], sums[index], pairs[index]);
        to[4 + index] = xor3(width, to[4 + index], sums[index], singles[index]);
    }
}

#[inline(always)]
fn xor3<W: Width>(
    width: W,
    one: W::Register,
    other: W::Register,
    third: W::Register,
) -> W::Register {
    width.xor(width.xor(one, other), third)
}

#[inline(always)]
fn add<W: Width>(width: W, half: &mut Half<W>, key: &Subkey) {
    for (register, word) in half.iter_mut().zip(key) {
        *register = width.xor(*register, width.repeated(*word));
    }
}

/// The function FL, in the left half.
#[inline(always)]
fn mix<W: Width>(width: W, half: &mut Half<W>, key: &Subkey) {
    rotated_product(width, half, key);
    add_union(width, half, key);
}

/// The reverse of [`mix`].
#[inline(always)]
fn mix_back<W: Width>(width: W, half: &mut Half<W>, key: &Subkey) {
    add_union(width, half, key);
    rotated_product(width, half, key);
}

/// Adds the AND of the first word and a key, rotated to the left by one bit, to the second word.
#[inline(always)]
fn rotated_product<W: Width>(width: W, half: &mut Half<W>, key: &Subkey) {
    let mut product = [half[0], half[1], half[2], half[3]];
    for (register, word) in product.iter_mut().zip(key) {
        *register = width.and(*register, width.repeated(*word));
    }
    for index in 0..4 {
        let rotated = width.shifted(product[index], product[(index + 1) % 4]);
        half[4 + index] = width.xor(half[4 + index], rotated);
    }
}

/// Adds the OR of the second word and a key to the first word.
#[inline(always)]
fn add_union<W: Width>(width: W, half: &mut Half<W>, key: &Subkey) {
    for index in 0..4 {
        let union = width.or(half[4 + index], width.repeated(key[4 + index]));
        half[index] = width.xor(half[index], union);
    }
}
