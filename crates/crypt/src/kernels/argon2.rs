//! Argon2's compression function G (RFC 9106, section 3.5) in safe code, for every CPU.

/// A block of Argon2's memory: 1024 bytes, as 64-bit little-endian words.
pub type Block = [u64; 128];

/// Treatment of the old content of a block that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// It is replaced, as in the first pass over the memory.
    Replace,
    /// It is combined by exclusive or, as in later passes.
    Xor,
}

/// Implements [`Compressor::compress`](crate::argon2::Compressor::compress) on every CPU.
pub(crate) fn compress(
    x: &Block,
    y: &Block,
    into: &mut Block,
    write: Write,
    early: impl FnOnce(u64),
) {
    let mut z: Block = std::array::from_fn(|i| x[i] ^ y[i]);
    for row in 0..8 {
        permute(&mut z, |i| 16 * row + i);
    }
    for column in 0..8 {
        permute(&mut z, |i| 16 * (i / 2) + 2 * column + i % 2);
    }
    for i in 0..into.len() {
        let word = z[i] ^ x[i] ^ y[i];
        into[i] = match write {
            Write::Replace => word,
            Write::Xor => into[i] ^ word,
        };
    }
    early(into[0]);
}

/// The permutation P (section 3.6) of the 16 words that `at` places in the block.
#[inline(always)]
fn permute(z: &mut Block, at: impl Fn(usize) -> usize) {
    let mut v: [u64; 16] = std::array::from_fn(|i| z[at(i)]);
    for column in 0..4 {
        quarter(&mut v, [column, 4 + column, 8 + column, 12 + column]);
    }
    for diagonal in 0..4 {
        let turn = |by| (diagonal + by) % 4;
        quarter(&mut v, [diagonal, 4 + turn(1), 8 + turn(2), 12 + turn(3)]);
    }
    for (i, word) in v.into_iter().enumerate() {
        z[at(i)] = word;
    }
}

/// GB of four words (section 3.6).
#[inline(always)]
fn quarter(v: &mut [u64; 16], [a, b, c, d]: [usize; 4]) {
    v[a] = multiply_add(v[a], v[b]);
    v[d] = (v[d] ^ v[a]).rotate_right(32);
    v[c] = multiply_add(v[c], v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(24);
    v[a] = multiply_add(v[a], v[b]);
    v[d] = (v[d] ^ v[a]).rotate_right(16);
    v[c] = multiply_add(v[c], v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(63);
}

/// `a + b`, plus twice the product of their lower halves.
#[inline(always)]
fn multiply_add(a: u64, b: u64) -> u64 {
    const LOWER: u64 = 0xffff_ffff;
    let product = (a & LOWER).wrapping_mul(b & LOWER);
    a.wrapping_add(b).wrapping_add(product.wrapping_mul(2))
}
