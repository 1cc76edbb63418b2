//! The parts of the cipher. That the kernels agree with the portable code is tested with all others.

use serpent::Serpent;
use serpent::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

use super::boxes::{COMPLEMENTS, INVERSE_COMPLEMENTS, forward, inverse};
use super::rounds::{Schedules, decrypt, encrypt};
use super::words::State;

/// The S-boxes of the specification.
const TABLES: [[u32; 16]; 8] = [
    [3, 8, 15, 1, 10, 6, 5, 11, 14, 13, 4, 2, 7, 0, 9, 12],
    [15, 12, 2, 7, 9, 0, 5, 10, 1, 11, 14, 8, 6, 13, 3, 4],
    [8, 6, 7, 9, 3, 12, 10, 15, 13, 1, 14, 4, 0, 11, 5, 2],
    [0, 15, 11, 8, 12, 9, 6, 3, 13, 1, 2, 4, 10, 7, 5, 14],
    [1, 15, 8, 3, 12, 0, 11, 6, 2, 5, 4, 10, 9, 14, 7, 13],
    [15, 5, 2, 11, 4, 10, 9, 12, 0, 3, 14, 8, 13, 6, 7, 1],
    [7, 2, 12, 5, 8, 4, 6, 11, 14, 9, 1, 15, 13, 3, 10, 0],
    [1, 13, 15, 0, 14, 8, 2, 11, 7, 4, 12, 10, 9, 3, 5, 6],
];

/// Bit `n` of the words is bit `n` of each number, for all sixteen numbers at once.
fn sliced(numbers: &[u32; 16]) -> State<u32> {
    [0, 1, 2, 3].map(|bit| {
        let places = (0..).zip(numbers);
        places.fold(0, |word, (place, number)| {
            word | (number >> bit & 1) << place
        })
    })
}

#[test]
fn functions_are_the_tables_but_for_complements() {
    let all = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    for (number, table) in TABLES.iter().enumerate() {
        let (inputs, outputs) = (sliced(&all), sliced(table));
        let check = |found: State<u32>, expected: State<u32>, complements: u32| {
            for word in 0..4 {
                let all = (complements >> word & 1).wrapping_neg();
                assert_eq!((found[word] ^ all) & 0xffff, expected[word], "{number}");
            }
        };
        check(forward(number, inputs), outputs, COMPLEMENTS[number]);
        check(
            inverse(number, outputs),
            inputs,
            INVERSE_COMPLEMENTS[number],
        );
    }
}

#[test]
fn blocks_are_those_of_the_crate() {
    let key: Vec<u8> = (0..32).map(|at: u8| at.wrapping_mul(29) ^ 0x5a).collect();
    for size in [16, 24, 32] {
        let theirs = Serpent::new_from_slice(&key[..size]).unwrap();
        let mut ours = Schedules::EMPTY;
        ours.expand(&key[..size]);
        for seed in 0..50_u32 {
            let words = [3, 5, 7, 11].map(|factor| seed.wrapping_mul(factor * 0x0123_4567));
            let mut block = [0; 16];
            for (bytes, word) in block.as_chunks_mut().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
            let mut set = [words];
            encrypt(ours.of::<true>(), &mut set, |word| word);
            let mut expected = block.into();
            theirs.encrypt_block(&mut expected);
            let found: Vec<u8> = set[0].into_iter().flat_map(u32::to_le_bytes).collect();
            assert_eq!(found, expected.as_slice());
            decrypt(ours.of::<false>(), &mut set, |word| word);
            assert_eq!(set[0], words);
            theirs.decrypt_block(&mut expected);
            assert_eq!(expected.as_slice(), block);
        }
    }
}
