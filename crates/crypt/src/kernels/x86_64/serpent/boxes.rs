//! The S-boxes of Serpent as Boolean functions.
//!
//! Each is a sequence of steps on four words. A step adds a function of some words to one or two others, so that it can be
//! undone by itself, and four registers and one more are all that is needed. A search from both ends has found them: they
//! have 12 to 14 operations. A word may come out complemented, which costs nothing: the key that is added next is
//! complemented as well.

use super::words::{State, Words};

/// For each S-box the words that come out complemented, as bits.
pub(super) const COMPLEMENTS: [u32; 8] = [3, 15, 8, 0, 1, 15, 7, 1];

/// The same of the inverse S-boxes.
pub(super) const INVERSE_COMPLEMENTS: [u32; 8] = [13, 5, 12, 0, 5, 8, 15, 3];

/// Defines a function of the number of an S-box and of its words. Its code is inlined for one number.
macro_rules! boxes {
    ($(#[$doc:meta])* $name:ident($a:ident $b:ident $c:ident $d:ident) {
        $($number:literal => { $($steps:tt)* })*
    }) => {
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<W: Words>(
            number: usize,
            [mut $a, mut $b, mut $c, mut $d]: State<W>,
        ) -> State<W> {
            match number {
                $($number => { $($steps)* })*
                _ => unreachable!("there are eight S-boxes"),
            }
        }
    };
}

boxes! {
    /// S-box `number`, but for complements.
    forward(a b c d) {
        0 => { a ^= d; d ^= a & b; b ^= !a & d; a ^= b; d ^= c; c ^= a; b ^= c | d; a ^= !d & b; d ^= b; [b, d, a, c] }
        1 => { c ^= !a & b; a ^= !d & b; b ^= !d & a; d ^= c; a ^= d | b; c ^= a; a ^= b; b ^= !a & c; [b, a, d, c] }
        2 => { d ^= c & a; a ^= d & b; b ^= c; c ^= !a & d; a ^= b; b ^= d; d ^= c | a; c ^= d; [b, d, c, a] }
        3 => { c ^= !d & b; b ^= a; d ^= (c & a) | b; a ^= d | b; d ^= c; b ^= !c & a; let t = d & b; a ^= t; c ^= t; [b, a, d, c] }
        4 => { c ^= !a & d; a ^= !c & b; d ^= a; c ^= d; b ^= c; d ^= b & c; b ^= !a & (c | d); a ^= !b & d; [d, b, a, c] }
        5 => { c ^= !a & b; b ^= c | d; a ^= b; b ^= c; d ^= a; c ^= !d & a; d ^= (c | a) & b; b ^= !d & c; [c, a, b, d] }
        6 => { c ^= d & a; b ^= c; d ^= a; a ^= d | b; a ^= c; d ^= b; d ^= c & a; a ^= d; c ^= !a & d; [d, b, a, c] }
        7 => { let t = d & b; a ^= t; c ^= t; d ^= c & a; b ^= a; c ^= !d & b; b ^= !d & (a | c); d ^= c; a ^= d | b; [b, a, d, c] }
    }
}

boxes! {
    /// The inverse of S-box `number`, but for complements.
    inverse(a b c d) {
        0 => { b ^= a; c ^= a | b; a ^= d | b; d ^= c; b ^= d; c ^= a; a ^= b | c; b ^= a & c; c ^= b; [c, a, d, b] }
        1 => { a ^= !d & b; b ^= a; d ^= b; b ^= a & c; c ^= d; a ^= b | c; b ^= !c & a; d ^= a & b; [b, a, d, c] }
        2 => { c ^= b; b ^= !c & d; a ^= b; d ^= a; c ^= b | d; a ^= c; d ^= !b & a; b ^= !c & d; [d, a, c, b] }
        3 => { let t = a & c; b ^= t; d ^= t; a ^= !d & b; c ^= d; b ^= a | c; c ^= (b & d) | a; a ^= b; d ^= !c & a; [b, a, d, c] }
        4 => { c ^= a | b; b ^= !(!d & a) & c; a ^= d & b; b ^= d; d ^= a; a ^= c; c ^= b & d; d ^= c & a; [c, b, d, a] }
        5 => { c ^= !a & d; d ^= (a & b) | c; a ^= d | b; d ^= b; c ^= a; b ^= c; c ^= !a & d; a ^= !b & c; [b, c, a, d] }
        6 => { d ^= !a & c; c ^= a; a ^= c & d; a ^= b; c ^= d; c ^= !a & b; a ^= c; b ^= d; d ^= c | a; [c, b, d, a] }
        7 => { b ^= !c & a; c ^= d; a ^= (!d & b) | c; d ^= !c & a; a ^= b; c ^= !b & d; let t = !a & c; b ^= t; d ^= t; [b, a, d, c] }
    }
}
