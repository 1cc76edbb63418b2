//! The rounds of Serpent (Anderson, Biham, Knudsen: "Serpent: A Proposal for the Advanced Encryption Standard", 1998),
//! bitsliced: bit `n` of the four words of a block goes through an S-box together, and all 32 of them at once.

use zeroize::Zeroizing;

use super::boxes::{COMPLEMENTS, INVERSE_COMPLEMENTS, forward, inverse};
use super::words::{State, Words};

const ROUNDS: usize = 32;

type RoundKey = State<u32>;

/// Round keys of one direction, numbered as for encryption.
pub(super) type Schedule = [RoundKey; ROUNDS + 1];

/// Round keys of both directions.
pub(super) struct Schedules {
    encrypt: Schedule,
    decrypt: Schedule,
}

impl Schedules {
    pub(super) const EMPTY: Self = Self {
        encrypt: [[0; 4]; ROUNDS + 1],
        decrypt: [[0; 4]; ROUNDS + 1],
    };

    /// Expands a key of 16, 24 or 32 bytes.
    pub(super) fn expand(&mut self, key: &[u8]) {
        expand(key, &mut self.encrypt);
        self.decrypt = self.encrypt;
        fold_complements(&mut self.encrypt, &mut self.decrypt);
    }

    #[inline]
    pub(super) fn of<const ENCRYPT: bool>(&self) -> &Schedule {
        if ENCRYPT {
            &self.encrypt
        } else {
            &self.decrypt
        }
    }
}

/// Round keys as the specification has them. A key of less than 32 bytes is followed by a bit that is set, and zeros.
fn expand(key: &[u8], schedule: &mut Schedule) {
    const PHI: u32 = 0x9e37_79b9;
    let mut padded = Zeroizing::new([0; 32]);
    padded[..key.len()].copy_from_slice(key);
    if let Some(after) = padded.get_mut(key.len()) {
        *after = 1;
    }
    let mut words = Zeroizing::new([0_u32; 8 + 4 * (ROUNDS + 1)]);
    for (word, bytes) in words.iter_mut().zip(padded.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    for (number, at) in (0..).zip(8..words.len()) {
        let sum = words[at - 8] ^ words[at - 5] ^ words[at - 3] ^ words[at - 1];
        words[at] = (sum ^ PHI ^ number).rotate_left(11);
    }
    let (words, _) = words[8..].as_chunks();
    for (number, (round_key, words)) in schedule.iter_mut().zip(words).enumerate() {
        let number = (ROUNDS + 3 - number) % 8;
        *round_key = forward(number, *words);
        add_complements(round_key, complements(COMPLEMENTS[number]));
    }
}

/// Takes into the round keys that S-boxes here leave some words complemented: those of a round go through the linear
/// transformation into the next key.
fn fold_complements(encrypt: &mut Schedule, decrypt: &mut Schedule) {
    for round in 0..ROUNDS {
        let mut words = complements(COMPLEMENTS[round % 8]);
        if round + 1 < ROUNDS {
            transform(&mut words);
        }
        add_complements(&mut encrypt[round + 1], words);
        add_complements(
            &mut decrypt[round],
            complements(INVERSE_COMPLEMENTS[round % 8]),
        );
    }
}

/// Words that are all ones where the bit of their number is set.
fn complements(bits: u32) -> RoundKey {
    [0, 1, 2, 3].map(|word| (bits >> word & 1).wrapping_neg())
}

fn add_complements(round_key: &mut RoundKey, words: RoundKey) {
    for (key, word) in round_key.iter_mut().zip(words) {
        *key ^= word;
    }
}

/// Spells the eight S-boxes out: each is code of its own.
macro_rules! eight {
    ($round:ident!($($number:literal)*)) => {
        $($round!($number);)*
    };
}

/// Encrypts sets of blocks side by side. All of it is inlined where the words' instructions are enabled, which the
/// compiler does not do with the functions of iterators and closures. `all` makes words of one that is for all blocks.
#[inline(always)]
pub(super) fn encrypt<W: Words, const SETS: usize>(
    keys: &Schedule,
    sets: &mut [State<W>; SETS],
    all: impl Fn(u32) -> W,
) {
    let (eights, last) = keys.as_chunks::<8>();
    for (turn, keys) in eights.iter().enumerate() {
        macro_rules! round {
            ($number:literal) => {
                add(sets, keys[$number], &all);
                for set in sets.iter_mut() {
                    *set = forward($number, *set);
                }
                if $number < 7 || turn + 1 < eights.len() {
                    for set in sets.iter_mut() {
                        transform(set);
                    }
                }
            };
        }
        eight!(round!(0 1 2 3 4 5 6 7));
    }
    add(sets, last[0], &all);
}

/// The reverse of [`encrypt`].
#[inline(always)]
pub(super) fn decrypt<W: Words, const SETS: usize>(
    keys: &Schedule,
    sets: &mut [State<W>; SETS],
    all: impl Fn(u32) -> W,
) {
    let (eights, last) = keys.as_chunks::<8>();
    add(sets, last[0], &all);
    for (turn, keys) in eights.iter().rev().enumerate() {
        macro_rules! round {
            ($number:literal) => {
                if $number < 7 || turn > 0 {
                    for set in sets.iter_mut() {
                        transform_back(set);
                    }
                }
                for set in sets.iter_mut() {
                    *set = inverse($number, *set);
                }
                add(sets, keys[$number], &all);
            };
        }
        eight!(round!(7 6 5 4 3 2 1 0));
    }
}

#[inline(always)]
fn add<W: Words, const SETS: usize>(
    sets: &mut [State<W>; SETS],
    key: RoundKey,
    all: &impl Fn(u32) -> W,
) {
    for word in 0..4 {
        let key = all(key[word]);
        for set in sets.iter_mut() {
            set[word] ^= key;
        }
    }
}

/// The linear transformation, between the S-boxes of two rounds.
#[inline(always)]
fn transform<W: Words>(set: &mut State<W>) {
    let [a, b, c, d] = set;
    *a = a.rotate::<13, 19>();
    *c = c.rotate::<3, 29>();
    *b ^= *a ^ *c;
    *d ^= *c ^ a.shift_left::<3>();
    *b = b.rotate::<1, 31>();
    *d = d.rotate::<7, 25>();
    *a ^= *b ^ *d;
    *c ^= *d ^ b.shift_left::<7>();
    *a = a.rotate::<5, 27>();
    *c = c.rotate::<22, 10>();
}

/// The reverse of [`transform`].
#[inline(always)]
fn transform_back<W: Words>(set: &mut State<W>) {
    let [a, b, c, d] = set;
    *c = c.rotate::<10, 22>();
    *a = a.rotate::<27, 5>();
    *c ^= *d ^ b.shift_left::<7>();
    *a ^= *b ^ *d;
    *d = d.rotate::<25, 7>();
    *b = b.rotate::<31, 1>();
    *d ^= *c ^ a.shift_left::<3>();
    *b ^= *a ^ *c;
    *c = c.rotate::<29, 3>();
    *a = a.rotate::<19, 13>();
}
