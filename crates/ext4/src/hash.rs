//! Hashes of names ("Hash Tree Directories"), by which a folder's index finds the block that has a name.

/// State with which hashes begin where the file system has no seed: MD4's (RFC 1320, 3.3).
const MD4_STATE: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
/// MD4's constants of its second and third rounds (RFC 1320, 3.4).
const MD4_ADDED: [u32; 3] = [0, 0x5a82_7999, 0x6ed9_eba1];
/// TEA's constant, the golden ratio.
const TEA_DELTA: u32 = 0x9e37_79b9;
/// The highest hash means the end of a folder, so that no name has it.
const END: u32 = 0xffff_fffe;

/// A way to hash names, as an index names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Legacy,
    HalfMd4,
    Tea,
}

/// Signedness of bytes of names from 128 on, as the makers of a file system have taken them (`s_flags`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signs {
    Signed,
    Unsigned,
    /// As on the machine that wrote it.
    Unknown,
}

/// Hash function of a folder, with its seed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hasher {
    method: Method,
    signs: Signs,
    seed: [u32; 4],
}

impl Hasher {
    /// A hasher by the number in a folder's index; `None` for numbers that are unknown, and for hashes with a key.
    pub(crate) fn new(number: u8, signs: Signs, seed: [u32; 4]) -> Option<Self> {
        let method = match number % 3 {
            0 => Method::Legacy,
            1 => Method::HalfMd4,
            _ => Method::Tea,
        };
        let signs = match number {
            0..=2 => signs,
            3..=5 => Signs::Unsigned,
            _ => return None,
        };
        // A seed of zeros stands for MD4's state.
        let seed = if seed == [0; 4] { MD4_STATE } else { seed };
        Some(Self {
            method,
            signs,
            seed,
        })
    }

    /// Returns the hash of a name, whose lowest bit is free for the index; `None` where it depends on signs
    /// that are unknown.
    pub(crate) fn hash(&self, name: &[u8]) -> Option<u32> {
        if self.signs == Signs::Unknown && !name.is_ascii() {
            return None;
        }
        let hash = match self.method {
            Method::Legacy => self.legacy(name),
            Method::HalfMd4 => self.folded::<8>(name, half_md4)[1],
            Method::Tea => self.folded::<4>(name, tea)[0],
        };
        let hash = hash & !1;
        Some(if hash == END { END - 2 } else { hash })
    }

    fn value(&self, byte: u8) -> u32 {
        match self.signs {
            Signs::Signed => i32::from(byte.cast_signed()).cast_unsigned(),
            Signs::Unsigned | Signs::Unknown => byte.into(),
        }
    }

    fn legacy(&self, name: &[u8]) -> u32 {
        let (mut last, mut before) = (0x12a3_fe2d_u32, 0x37ab_e8f9_u32);
        for &byte in name {
            let mixed = last ^ self.value(byte).wrapping_mul(7_152_373);
            let next = before.wrapping_add(mixed);
            let folded = match next >> 31 {
                0 => next,
                _ => next.wrapping_sub(0x7fff_ffff),
            };
            (last, before) = (folded, last);
        }
        last << 1
    }

    /// Folds a name, `WORDS` words at a time, into the seed.
    fn folded<const WORDS: usize>(
        &self,
        name: &[u8],
        fold: impl Fn(&mut [u32; 4], &[u32; WORDS]),
    ) -> [u32; 4] {
        let mut state = self.seed;
        let mut rest = name;
        while !rest.is_empty() {
            fold(&mut state, &self.words(rest));
            rest = rest.get(WORDS * 4..).unwrap_or_default();
        }
        state
    }

    /// The next words of a name, filled up with the length of what is left of it.
    fn words<const WORDS: usize>(&self, rest: &[u8]) -> [u32; WORDS] {
        // A name has at most 255 bytes.
        let len = u32::from(u8::try_from(rest.len()).unwrap_or(u8::MAX));
        let filling = len * 0x0101_0101;
        let mut words = [filling; WORDS];
        for (word, bytes) in words.iter_mut().zip(rest.chunks(4)) {
            for &byte in bytes {
                *word = (*word << 8).wrapping_add(self.value(byte));
            }
        }
        words
    }
}

/// MD4 with eight words instead of sixteen, and so half of its steps.
fn half_md4(state: &mut [u32; 4], words: &[u32; 8]) {
    type Mix = fn(u32, u32, u32) -> u32;
    const ROUNDS: [(Mix, [u32; 4], [usize; 8]); 3] = [
        (
            |x, y, z| (x & y) | (!x & z),
            [3, 7, 11, 19],
            [0, 1, 2, 3, 4, 5, 6, 7],
        ),
        (
            |x, y, z| (x & y) | (x & z) | (y & z),
            [3, 5, 9, 13],
            [1, 3, 5, 7, 0, 2, 4, 6],
        ),
        (
            |x, y, z| x ^ y ^ z,
            [3, 9, 11, 15],
            [3, 7, 2, 6, 1, 5, 0, 4],
        ),
    ];
    let [mut a, mut b, mut c, mut d] = *state;
    for ((mix, turns, order), added) in ROUNDS.into_iter().zip(MD4_ADDED) {
        for (step, word) in order.into_iter().enumerate() {
            let sum = a
                .wrapping_add(mix(b, c, d))
                .wrapping_add(words[word])
                .wrapping_add(added);
            (a, b, c, d) = (d, sum.rotate_left(turns[step % 4]), b, c);
        }
    }
    for (word, new) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(new);
    }
}

/// Sixteen rounds of TEA, whose key is the name and whose block half of the state.
fn tea(state: &mut [u32; 4], key: &[u32; 4]) {
    let [mut left, mut right, ..] = *state;
    let mut sum = 0_u32;
    let mix = |half: u32, sum: u32, key: &[u32]| {
        let shifted = (half << 4).wrapping_add(key[0]);
        shifted ^ half.wrapping_add(sum) ^ (half >> 5).wrapping_add(key[1])
    };
    for _ in 0..16 {
        sum = sum.wrapping_add(TEA_DELTA);
        left = left.wrapping_add(mix(right, sum, &key[..2]));
        right = right.wrapping_add(mix(left, sum, &key[2..]));
    }
    state[0] = state[0].wrapping_add(left);
    state[1] = state[1].wrapping_add(right);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `debugfs -R "dx_hash -h METHOD -s SEED NAME"` of e2fsprogs 1.47.0 tells, without a seed and with one.
    #[test]
    fn hashes_are_those_of_e2fsprogs() {
        const LONG: &str = "a longer name that has more than thirty-two bytes in it";
        let seed = [0x0403_0201, 0x0807_0605, 0x0c0b_0a09, 0x100f_0e0d];
        let bytes: &[u8] = b"\xff\xfe";
        for (number, seed, name, hash) in [
            (0, seed, b"a".as_slice(), 0xe74b_53e2),
            (0, seed, b"hello", 0x3225_2546),
            (0, seed, LONG.as_bytes(), 0xf0c9_057e),
            (0, seed, bytes, 0xdd39_686e),
            (1, seed, b"a", 0x8d08_ec4c),
            (1, seed, b"hello", 0xe2dd_f968),
            (1, [0; 4], b"hello", 0x1746_da32),
            (1, seed, LONG.as_bytes(), 0x48ac_683c),
            (1, seed, bytes, 0xe493_6b1c),
            (2, seed, b"a", 0xf535_28f0),
            (2, seed, b"hello", 0x1a56_92b6),
            (2, seed, LONG.as_bytes(), 0x3a72_8b52),
            (2, seed, bytes, 0x065b_cc7e),
        ] {
            let hasher = Hasher::new(number, Signs::Signed, seed).unwrap();
            let got = hasher.hash(name).unwrap();
            assert_eq!(got, hash, "{number} {}", name.escape_ascii());
        }
    }

    #[test]
    fn what_takes_to_know_a_key_or_the_signs_has_no_hash() {
        assert!(Hasher::new(6, Signs::Signed, [0; 4]).is_none());
        let hasher = Hasher::new(1, Signs::Unknown, [0; 4]).unwrap();
        assert_eq!(hasher.hash(b"hello"), Some(0x1746_da32));
        assert_eq!(hasher.hash(b"\xff"), None);
    }
}
