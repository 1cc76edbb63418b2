//! Poly1305 as a polynomial alone: with zero as what it adds at the end (RFC 8439, 2.5).
//!
//! By general registers: there are 32 bytes for each 1024 of the message, and processors compute these products while their
//! vector units are busy with NH.

use crate::kernels::iv::Block;

/// Point at which polynomials are evaluated.
pub(super) struct Point {
    low: u64,
    high: u64,
    /// `high` times 5/4: what the product by `high` times 2¹³⁰ leaves of its upper part.
    folded: u64,
}

impl Point {
    pub(super) fn new(key: &Block) -> Self {
        let clamped = u128::from_le_bytes(*key) & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff;
        let high = upper(clamped);
        Self {
            low: lower(clamped),
            high,
            folded: high + (high >> 2),
        }
    }
}

/// Value of a polynomial so far, a number of 130 bits and a little more.
pub(super) struct Polynomial<'a> {
    point: &'a Point,
    words: [u64; 3],
}

impl<'a> Polynomial<'a> {
    #[inline]
    pub(super) fn new(point: &'a Point) -> Self {
        Self {
            point,
            words: [0; 3],
        }
    }

    /// Takes blocks as the next coefficients.
    #[inline]
    pub(super) fn absorb<const N: usize>(&mut self, blocks: [u128; N]) {
        for block in blocks {
            self.absorb_one(block);
        }
    }

    #[inline]
    fn absorb_one(&mut self, block: u128) {
        let [a, b, c] = self.words;
        let low = wide(a) + wide(lower(block));
        let middle = wide(b) + wide(upper(block)) + wide(upper(low));
        let (a, b, c) = (lower(low), lower(middle), c + 1 + upper(middle));

        let Point { low, high, folded } = *self.point;
        let first = wide(a) * wide(low) + wide(b) * wide(folded);
        // `c` is a few bits long.
        let second = wide(a) * wide(high) + wide(b) * wide(low) + wide(c * folded);
        let second = second + wide(upper(first));
        let third = c * low + upper(second);

        // 2¹³⁰ is 5.
        let low = wide(lower(first)) + wide((third >> 2) + (third & !3));
        let middle = wide(lower(second)) + wide(upper(low));
        self.words = [lower(low), lower(middle), (third & 3) + upper(middle)];
    }

    /// The value modulo 2¹³⁰ - 5, and of that the lower 128 bits.
    #[inline]
    pub(super) fn value(self) -> u128 {
        let [a, b, c] = self.words;
        let value = wide(b) << 64 | wide(a);
        let (reduced, carry) = value.overflowing_add(5);
        // All ones if the value is 2¹³⁰ - 5 or more.
        let mask = wide((c + u64::from(carry)) >> 2 & 1).wrapping_neg();
        value ^ ((value ^ reduced) & mask)
    }
}

#[inline(always)]
fn wide(word: u64) -> u128 {
    word.into()
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn lower(number: u128) -> u64 {
    number as u64
}

#[inline(always)]
fn upper(number: u128) -> u64 {
    lower(number >> 64)
}
