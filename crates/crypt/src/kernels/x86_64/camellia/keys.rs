//! Round keys of Camellia (RFC 3713, section 2.2).

use zeroize::Zeroizing;

/// Constants of the key schedule, as the specification has them.
const SIGMA: [u64; 6] = [
    0xa09e_667f_3bcc_908b,
    0xb67a_e858_4caa_73b2,
    0xc6ef_372f_e94f_82be,
    0x54ff_53a5_f1d3_6f1c,
    0x10e5_27fa_de68_2d1d,
    0xb056_88c2_b3e6_c1fd,
];

/// The bytes of a subkey, the most significant one first, each four times in a word.
pub(super) type Subkey = [u32; 8];

/// Subkeys of six rounds, and of what is after them: FL and its inverse or, after the last round, whitening.
pub(super) type Group = [Subkey; 8];

/// Subkeys of one direction, in the order of use.
pub(super) struct Schedule {
    before: [Subkey; 2],
    groups: [Group; 4],
    /// Number of groups that a key of this size has.
    used: usize,
}

impl Schedule {
    const EMPTY: Self = Self {
        before: [[0; 8]; 2],
        groups: [[[0; 8]; 8]; 4],
        used: 0,
    };

    /// Subkeys of the whitening before the first round.
    #[inline(always)]
    pub(super) fn before(&self) -> &[Subkey; 2] {
        &self.before
    }

    #[inline(always)]
    pub(super) fn groups(&self) -> &[Group] {
        &self.groups[..self.used.min(4)]
    }

    fn set(&mut self, subkeys: &[u64]) {
        let places = self.before.iter_mut();
        let places = places.chain(self.groups.as_flattened_mut());
        for (place, subkey) in places.zip(subkeys) {
            *place = subkey
                .to_be_bytes()
                .map(|byte| u32::from(byte) * 0x0101_0101);
        }
        self.used = subkeys.len() / 8;
    }
}

/// Subkeys of both directions.
pub(super) struct Schedules {
    encrypt: Schedule,
    decrypt: Schedule,
}

impl Schedules {
    pub(super) const EMPTY: Self = Self {
        encrypt: Schedule::EMPTY,
        decrypt: Schedule::EMPTY,
    };

    #[inline]
    pub(super) fn of<const ENCRYPT: bool>(&self) -> &Schedule {
        if ENCRYPT {
            &self.encrypt
        } else {
            &self.decrypt
        }
    }

    /// Expands a key of 16, 24 or 32 bytes. `f` is the function F without the addition of its subkey.
    pub(super) fn expand(&mut self, key: &[u8], f: impl Fn(u64) -> u64) {
        let mut subkeys = Zeroizing::new([0; 34]);
        let used = if key.len() == 16 { 26 } else { 34 };
        let subkeys = &mut subkeys[..used];
        derive(key, f, subkeys);
        self.encrypt.set(subkeys);
        subkeys.reverse();
        subkeys.swap(0, 1);
        subkeys.swap(used - 2, used - 1);
        self.decrypt.set(subkeys);
    }
}

/// Writes the subkeys for encryption: kw1, kw2, k1 to k6, ke1, ke2 and so on, kw3, kw4.
fn derive(key: &[u8], f: impl Fn(u64) -> u64, subkeys: &mut [u64]) {
    /// The key of which two subkeys are made, and the number of bits that it is rotated by.
    type Row = (usize, u32);
    /// Numbers of KL, KR, KA and KB.
    const L: usize = 0;
    const R: usize = 1;
    const A: usize = 2;
    const B: usize = 3;
    const SHORT: [Row; 13] = [
        (L, 0),
        (A, 0),
        (L, 15),
        (A, 15),
        (A, 30),
        (L, 45),
        (A, 45),
        (A, 60),
        (L, 77),
        (L, 94),
        (A, 94),
        (L, 111),
        (A, 111),
    ];
    const LONG: [Row; 17] = [
        (L, 0),
        (B, 0),
        (R, 15),
        (A, 15),
        (R, 30),
        (B, 30),
        (L, 45),
        (A, 45),
        (L, 60),
        (R, 60),
        (B, 60),
        (L, 77),
        (A, 77),
        (R, 94),
        (A, 94),
        (L, 111),
        (B, 111),
    ];
    let mut keys = Zeroizing::new([0; 4]);
    intermediate(key, f, &mut keys);
    let rows = if subkeys.len() == 26 {
        &SHORT[..]
    } else {
        &LONG[..]
    };
    for (pair, (number, bits)) in subkeys.as_chunks_mut().0.iter_mut().zip(rows) {
        *pair = halves(keys[*number].rotate_left(*bits));
    }
    if subkeys.len() == 26 {
        // The exception: k9 is of KA, and k10 of KL.
        let [_, low] = halves(keys[L].rotate_left(60));
        subkeys[13] = low;
    }
}

/// Fills `keys` with KL, KR, KA and KB.
fn intermediate(key: &[u8], f: impl Fn(u64) -> u64, keys: &mut [u128; 4]) {
    let mut padded = Zeroizing::new([0; 32]);
    padded[..key.len()].copy_from_slice(key);
    if key.len() == 24 {
        for at in 24..32 {
            padded[at] = !padded[at - 8];
        }
    }
    let (numbers, _) = padded.as_chunks();
    let [left, right] = [0, 1].map(|number| u128::from_be_bytes(numbers[number]));
    let rounds = |block: u128, sigma: &[u64]| {
        let [mut one, mut other] = halves(block);
        for constant in sigma {
            other ^= f(one ^ constant);
            (one, other) = (other, one);
        }
        u128::from(one) << 64 | u128::from(other)
    };
    let a = rounds(rounds(left ^ right, &SIGMA[..2]) ^ left, &SIGMA[2..4]);
    *keys = [left, right, a, rounds(a ^ right, &SIGMA[4..])];
}

fn halves(number: u128) -> [u64; 2] {
    let bytes = number.to_be_bytes();
    let (halves, _) = bytes.as_chunks();
    [0, 1].map(|half| u64::from_be_bytes(halves[half]))
}
