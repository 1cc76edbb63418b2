//! The S-boxes of Camellia as inversions in the field of AES, between affine maps.
//!
//! Camellia inverts in another representation of GF(2⁸) (RFC 3713 has its S-boxes as tables; the authors' specification
//! has the formula). The field of AES is isomorphic to it, so that instructions for AES, or GFNI, compute the inverse. An
//! isomorphism is linear: it is a part of the affine maps before and after.

/// An affine map of bytes: a sum of the columns at bits that are set, and a constant.
#[derive(Clone, Copy)]
pub(super) struct Affine {
    columns: [u8; 8],
    constant: u8,
}

/// An affine map as tables that are looked up by the lower and the upper half of a byte.
pub(super) type Nibbles = [[u8; 16]; 2];

/// S-box 1 up to the inversion.
const BEFORE: Affine = Affine {
    columns: [0xb8, 0x03, 0xd9, 0x17, 0x0d, 0x59, 0x84, 0xee],
    constant: 0x0b,
};

/// S-box 1 from the inversion on.
const AFTER: Affine = Affine {
    columns: [0x14, 0x46, 0xfc, 0x7e, 0x66, 0x22, 0x25, 0x3b],
    constant: 0x6e,
};

/// The S-box of AES from the inversion on (FIPS 197, 5.1.1).
const AES: Affine = Affine {
    columns: [0x1f, 0x3e, 0x7c, 0xf8, 0xf1, 0xe3, 0xc7, 0x8f],
    constant: 0x63,
};

/// The inverse of [`AES`].
const AES_INVERSE: Affine = Affine {
    columns: [0x4a, 0x94, 0x29, 0x52, 0xa4, 0x49, 0x92, 0x25],
    constant: 0x05,
};

impl Affine {
    /// The image of `byte`.
    const fn of(self, byte: u8) -> u8 {
        let mut image = self.constant;
        let mut bit = 0;
        while bit < 8 {
            image ^= self.columns[bit] * (byte >> bit & 1);
            bit += 1;
        }
        image
    }

    /// This map, and then `next`.
    const fn then(self, next: Self) -> Self {
        let constant = next.of(self.constant);
        let mut columns = [0; 8];
        let mut bit = 0;
        while bit < 8 {
            columns[bit] = next.of(self.columns[bit]) ^ next.constant;
            bit += 1;
        }
        Self { columns, constant }
    }

    /// Rotates to the left by `bits`, and then maps.
    const fn of_rotated(self, bits: usize) -> Self {
        let mut columns = [0; 8];
        let mut bit = 0;
        while bit < 8 {
            columns[bit] = self.columns[(bit + bits) % 8];
            bit += 1;
        }
        Self { columns, ..self }
    }

    /// Maps, and then rotates to the left by `bits`.
    const fn rotated(self, bits: u32) -> Self {
        let mut columns = self.columns;
        let mut bit = 0;
        while bit < 8 {
            columns[bit] = columns[bit].rotate_left(bits);
            bit += 1;
        }
        let constant = self.constant.rotate_left(bits);
        Self { columns, constant }
    }

    /// Images of the bytes whose upper four bits are 0, and differences from the image of 0 of those whose lower four
    /// are: an image is the sum of one of each.
    const fn nibbles(self) -> Nibbles {
        let mut tables = [[0; 16]; 2];
        let mut nibble = 0;
        while nibble < 16 {
            tables[0][nibble as usize] = self.of(nibble);
            tables[1][nibble as usize] = self.of(nibble << 4) ^ self.constant;
            nibble += 1;
        }
        tables
    }

    /// The linear part as GFNI has it: the bits of row `n` are byte `7 - n`.
    pub(super) const fn matrix(self) -> i64 {
        let mut matrix = 0;
        let mut at = 0;
        while at < 64 {
            let (row, column) = (at / 8, at % 8);
            let bit = (self.columns[column] >> row & 1) as u64;
            matrix |= bit << (8 * (7 - row) + column);
            at += 1;
        }
        matrix.cast_signed()
    }
}

/// The affine maps of an S-box.
#[derive(Clone, Copy)]
pub(super) struct Maps {
    pub(super) before: Affine,
    pub(super) after: Affine,
}

impl Maps {
    /// Both maps as tables.
    pub(super) const fn nibbles(self) -> [Nibbles; 2] {
        [self.before.nibbles(), self.after.nibbles()]
    }
}

/// Around the inversion, for each S-box.
pub(super) const MAPS: [Maps; 4] = [
    Maps {
        before: BEFORE,
        after: AFTER,
    },
    Maps {
        before: BEFORE,
        after: AFTER.rotated(1),
    },
    Maps {
        before: BEFORE,
        after: AFTER.rotated(7),
    },
    Maps {
        before: BEFORE.of_rotated(1),
        after: AFTER,
    },
];

/// The constants of [`MAPS`], which GFNI's instructions have as an operand of their own. Box 4 has that of box 1.
pub(super) const BEFORE_CONSTANT: i32 = BEFORE.constant as i32;
pub(super) const AFTER_CONSTANTS: [i32; 3] = [
    MAPS[0].after.constant as i32,
    MAPS[1].after.constant as i32,
    MAPS[2].after.constant as i32,
];

/// Around the S-box of AES, an inversion with an affine map after it.
pub(super) const AROUND_AES: [Maps; 4] = {
    let mut maps = MAPS;
    let mut number = 0;
    while number < 4 {
        maps[number].after = AES_INVERSE.then(maps[number].after);
        number += 1;
    }
    maps
};

/// Around the inverse S-box of AES, an affine map with an inversion after it.
pub(super) const AROUND_AES_INVERSE: [Maps; 4] = {
    let mut maps = MAPS;
    let mut number = 0;
    while number < 4 {
        maps[number].before = maps[number].before.then(AES);
        number += 1;
    }
    maps
};
