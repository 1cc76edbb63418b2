//! Twofish (Schneier, Kelsey, Whiting, Wagner, Hall, Ferguson: "Twofish: A 128-Bit Block Cipher"), with the S-boxes of
//! a key as four tables that include the matrix MDS: "full keying" in section 5.1.
//!
//! | | |
//! |---|---|
//! | state | round keys and tables of each key, 4.2 KiB |
//! | constant time | no: tables are looked up by key and data |
//! | why | RustCrypto's crate keeps no tables, and computes 100 times as long |

use super::blocks::{BlockCipher, BlockEncrypt};
use crate::kernels::iv::Block;

/// Blocks that are computed side by side, so that look-ups of one wait for none of the others.
const LANES: usize = 2;

/// Twofish with an expanded key.
pub(super) struct Schedule {
    /// S-boxes, each followed by its column of the matrix MDS.
    boxes: [[u32; 256]; 4],
    before: [u32; 4],
    after: [u32; 4],
    rounds: [[u32; 2]; 16],
}

impl BlockEncrypt for Schedule {
    fn expand(key: &[u8]) -> Option<Self> {
        if !matches!(key.len(), 16 | 24 | 32) {
            return None;
        }
        let words = key.as_chunks().0;
        let even = Words::new(words.iter().step_by(2).copied());
        let odd = Words::new(words.iter().skip(1).step_by(2).copied());
        let boxes = Words::new(key.as_chunks().0.iter().rev().map(reed_solomon));
        let pair = |number: usize| {
            let repeated = |byte: usize| u32::from_ne_bytes([byte.to_le_bytes()[0]; 4]);
            let one = even.h(repeated(2 * number));
            let other = odd.h(repeated(2 * number + 1)).rotate_left(8);
            let sum = one.wrapping_add(other);
            [sum, sum.wrapping_add(other).rotate_left(9)]
        };
        let four = |number: usize| {
            let [[a, b], [c, d]] = [pair(number), pair(number + 1)];
            [a, b, c, d]
        };
        Some(Self {
            boxes: std::array::from_fn(|position| {
                std::array::from_fn(|byte| boxes.column(position, byte.to_le_bytes()[0]))
            }),
            before: four(0),
            after: four(2),
            rounds: std::array::from_fn(|round| pair(4 + round)),
        })
    }

    fn encrypt_all(&self, blocks: &mut [Block]) {
        let (groups, rest) = blocks.as_chunks_mut();
        groups
            .iter_mut()
            .for_each(|group| self.encrypt::<LANES>(group));
        let (singles, _) = rest.as_chunks_mut();
        singles
            .iter_mut()
            .for_each(|single| self.encrypt::<1>(single));
    }
}

impl BlockCipher for Schedule {
    type Tweak = Self;

    fn decrypt_all(&self, blocks: &mut [Block]) {
        let (groups, rest) = blocks.as_chunks_mut();
        groups
            .iter_mut()
            .for_each(|group| self.decrypt::<LANES>(group));
        let (singles, _) = rest.as_chunks_mut();
        singles
            .iter_mut()
            .for_each(|single| self.decrypt::<1>(single));
    }
}

impl Schedule {
    fn encrypt<const N: usize>(&self, blocks: &mut [Block; N]) {
        let mut lanes = blocks.map(|block| whiten(block, self.before));
        for [even, odd] in self.rounds.as_chunks().0 {
            for [a, b, c, d] in &mut lanes {
                (*c, *d) = self.round(*even, (*a, *b), (*c, *d));
            }
            for [a, b, c, d] in &mut lanes {
                (*a, *b) = self.round(*odd, (*c, *d), (*a, *b));
            }
        }
        *blocks = lanes.map(|[a, b, c, d]| bytes([c, d, a, b], self.after));
    }

    fn decrypt<const N: usize>(&self, blocks: &mut [Block; N]) {
        let mut lanes = blocks.map(|block| whiten(block, self.after));
        for [even, odd] in self.rounds.as_chunks().0.iter().rev() {
            for [c, d, a, b] in &mut lanes {
                (*a, *b) = self.round_back(*odd, (*c, *d), (*a, *b));
            }
            for [c, d, a, b] in &mut lanes {
                (*c, *d) = self.round_back(*even, (*a, *b), (*c, *d));
            }
        }
        *blocks = lanes.map(|[c, d, a, b]| bytes([a, b, c, d], self.before));
    }

    /// One round: `from` is left as it is, and `to` is returned anew.
    #[inline(always)]
    fn round(&self, keys: [u32; 2], from: (u32, u32), to: (u32, u32)) -> (u32, u32) {
        let [one, other] = self.f(keys, from);
        ((to.0 ^ one).rotate_right(1), to.1.rotate_left(1) ^ other)
    }

    /// Undoes one round, from the same keys.
    #[inline(always)]
    fn round_back(&self, keys: [u32; 2], from: (u32, u32), to: (u32, u32)) -> (u32, u32) {
        let [one, other] = self.f(keys, from);
        (to.0.rotate_left(1) ^ one, (to.1 ^ other).rotate_right(1))
    }

    /// The function F of section 4.1.
    #[inline(always)]
    fn f(&self, keys: [u32; 2], (a, b): (u32, u32)) -> [u32; 2] {
        let one = self.g(a);
        let other = self.g(b.rotate_left(8));
        let sum = one.wrapping_add(other);
        [
            sum.wrapping_add(keys[0]),
            sum.wrapping_add(other).wrapping_add(keys[1]),
        ]
    }

    /// The function g of section 4.2.
    #[inline(always)]
    fn g(&self, word: u32) -> u32 {
        let [a, b, c, d] = word.to_le_bytes().map(usize::from);
        self.boxes[0][a] ^ self.boxes[1][b] ^ self.boxes[2][c] ^ self.boxes[3][d]
    }
}

#[inline(always)]
fn whiten(block: Block, keys: [u32; 4]) -> [u32; 4] {
    let words = block.as_chunks().0;
    std::array::from_fn(|at| u32::from_le_bytes(words[at]) ^ keys[at])
}

#[inline(always)]
fn bytes(words: [u32; 4], keys: [u32; 4]) -> Block {
    let mut block = [0; 16];
    let (places, _) = block.as_chunks_mut();
    for ((place, word), key) in places.iter_mut().zip(words).zip(keys) {
        *place = (word ^ key).to_le_bytes();
    }
    block
}

/// The list L of the function h in section 4.3.2: two to four words.
struct Words {
    words: [[u8; 4]; 4],
    len: usize,
}

impl Words {
    fn new(given: impl Iterator<Item = [u8; 4]>) -> Self {
        let mut list = Self {
            words: [[0; 4]; 4],
            len: 0,
        };
        for (place, word) in list.words.iter_mut().zip(given) {
            *place = word;
            list.len += 1;
        }
        list
    }

    /// The function h of a word.
    fn h(&self, word: u32) -> u32 {
        let bytes = word.to_le_bytes().into_iter().enumerate();
        bytes.fold(0, |sum, (position, byte)| sum ^ self.column(position, byte))
    }

    /// Contribution of the byte at one position to h: its S-box, and its column of the matrix MDS.
    fn column(&self, position: usize, byte: u8) -> u32 {
        let [last, stages @ ..] = &BOXES[position];
        let mut byte = byte;
        for (word, which) in self.words[..self.len].iter().zip(stages).rev() {
            byte = Q[*which][usize::from(byte)] ^ word[position];
        }
        byte = Q[*last][usize::from(byte)];
        let row = |number: usize| multiply(MDS[number][position], byte, 0x169);
        u32::from_le_bytes(std::array::from_fn(row))
    }
}

/// For each byte of a word the permutations q that it passes: the last one first, then those after which the words of L
/// are added, in the order of these words (figure 2 of the paper).
const BOXES: [[usize; 5]; 4] = [
    [1, 0, 0, 1, 1],
    [0, 0, 1, 1, 0],
    [1, 1, 0, 0, 0],
    [0, 1, 1, 0, 1],
];

const MDS: [[u8; 4]; 4] = [
    [0x01, 0xef, 0x5b, 0x5b],
    [0x5b, 0xef, 0xef, 0x01],
    [0xef, 0x5b, 0x01, 0xef],
    [0xef, 0x01, 0xef, 0x5b],
];

const RS: [[u8; 8]; 4] = [
    [0x01, 0xa4, 0x55, 0x87, 0x5a, 0x58, 0xdb, 0x9e],
    [0xa4, 0x56, 0x82, 0xf3, 0x1e, 0xc6, 0x68, 0xe5],
    [0x02, 0xa1, 0xfc, 0xc1, 0x47, 0xae, 0x3d, 0x19],
    [0xa4, 0x55, 0x87, 0x5a, 0x58, 0xdb, 0x9e, 0x03],
];

/// Eight bytes of the key, times the matrix RS (section 4.3).
fn reed_solomon(bytes: &[u8; 8]) -> [u8; 4] {
    RS.map(|row| {
        let terms = row.iter().zip(bytes);
        terms.fold(0, |sum, (one, other)| sum ^ multiply(*one, *other, 0x14d))
    })
}

/// Product in GF(2⁸) modulo the polynomial `modulus`.
const fn multiply(one: u8, other: u8, modulus: u16) -> u8 {
    let mut product = 0;
    let mut bit = 8;
    while bit > 0 {
        bit -= 1;
        product <<= 1;
        product ^= (product >> 8) * modulus;
        product ^= other as u16 * ((one as u16 >> bit) & 1);
    }
    product.to_le_bytes()[0]
}

/// The permutations q₀ and q₁ (section 4.3.5).
static Q: [[u8; 256]; 2] = [
    permutation([
        *b"817d6f320b59eca4",
        *b"ecb81235f4a6709d",
        *b"ba5e6d90c8f32471",
        *b"d7f4126e9b3085ca",
    ]),
    permutation([
        *b"28bdf76e31940ac5",
        *b"1e2b4c376da5f908",
        *b"4c75169a0ed82b3f",
        *b"b951c3de647f208a",
    ]),
];

/// A permutation of bytes, from four of digits.
const fn permutation(digits: [[u8; 16]; 4]) -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut high, mut low) = (byte >> 4, byte & 15);
        let mut stage = 0;
        while stage < 4 {
            let turned = (low >> 1) | ((low & 1) << 3);
            let mixed = (high ^ turned ^ (high << 3)) & 15;
            high = digit(digits[stage][high ^ low]);
            low = digit(digits[stage + 1][mixed]);
            stage += 2;
        }
        table[byte] = (low << 4 | high).to_le_bytes()[0];
        byte += 1;
    }
    table
}

/// Value of a hexadecimal digit.
const fn digit(letter: u8) -> usize {
    match letter {
        b'0'..=b'9' => (letter - b'0') as usize,
        _ => (letter - b'a') as usize + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The iterated tests of the submission's file `ecb_tbl.txt`: each plaintext is the ciphertext before, and each
    /// key what the ciphertexts before that leave of it. The last of 49 ciphertexts is compared.
    #[test]
    fn iterated_tests_of_the_submission() {
        for (size, last) in [
            (16, 0x5d9d_4eef_fa91_5157_5524_f115_815a_12e0),
            (24, 0xe754_4921_2bee_f9f4_a390_bd86_0a64_0941),
            (32, 0x37fe_26ff_1cf6_6175_f5dd_f4c3_3b97_a205),
        ] {
            let mut key = [0; 32];
            let mut block = [0; 16];
            for _ in 0..49 {
                let schedule = Schedule::expand(&key[..size]).unwrap();
                let plain = block;
                schedule.encrypt_all(std::slice::from_mut(&mut block));
                let mut back = [block; 3];
                schedule.decrypt_all(&mut back);
                assert_eq!(back, [plain; 3]);
                let mut together = [plain; 5];
                schedule.encrypt_all(&mut together);
                assert_eq!(together, [block; 5]);
                key.copy_within(..16, 16);
                key[..16].copy_from_slice(&plain);
            }
            assert_eq!(u128::from_be_bytes(block), last, "{size}");
        }
    }
}
