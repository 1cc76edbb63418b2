//! From the number of a sector to its IV: 16 bytes, for XTS the tweak before encryption. The names
//! and layouts are dm-crypt's (kernel documentation, admin-guide/device-mapper/dm-crypt).

use crate::sector::{Geometry, IvSector};
use crate::spec::IvMode;

/// One cipher block's worth of bytes.
pub(crate) type Block = [u8; 16];

/// The IVs of consecutive data units, in order and without end.
#[derive(Clone)]
pub(crate) struct Ivs {
    rule: Rule,
    next: u64,
    step: u64,
}

#[derive(Clone, Copy)]
enum Rule {
    /// The same for all.
    Constant(Block),
    /// The low 32 bits of the number, little endian.
    Plain,
    /// The number, little endian.
    Plain64,
    /// The number, big endian, in the last 8 bytes.
    Plain64be,
}

impl Ivs {
    /// For a run that starts at `first`. The numbers wrap after 2⁶⁴ - 1, as dm-crypt's do.
    pub(crate) fn new(mode: IvMode, first: IvSector, geometry: Geometry) -> Self {
        Self {
            rule: match mode {
                IvMode::Null => Rule::Constant([0; 16]),
                IvMode::Plain => Rule::Plain,
                IvMode::Plain64 => Rule::Plain64,
                IvMode::Plain64be => Rule::Plain64be,
            },
            next: first.0,
            step: geometry.iv_step(),
        }
    }

    /// The same IV for every data unit, for test vectors that give it as it is.
    #[cfg(test)]
    pub(crate) fn constant(iv: Block) -> Self {
        Self {
            rule: Rule::Constant(iv),
            next: 0,
            step: 0,
        }
    }

    /// The next `ivs.len()` IVs.
    #[inline]
    pub(crate) fn fill(&mut self, ivs: &mut [Block]) {
        for iv in ivs {
            *iv = self.rule.iv(self.next);
            self.next = self.next.wrapping_add(self.step);
        }
    }
}

impl Rule {
    #[inline]
    fn iv(self, number: u64) -> Block {
        match self {
            Self::Constant(iv) => iv,
            Self::Plain => u128::from(number & 0xffff_ffff).to_le_bytes(),
            Self::Plain64 => u128::from(number).to_le_bytes(),
            Self::Plain64be => u128::from(number).to_be_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sector::SectorSize;

    fn three(mode: IvMode, first: u64, bytes: u32) -> [Block; 3] {
        let geometry = Geometry::new(SectorSize::new(bytes).unwrap());
        let mut ivs = Ivs::new(mode, IvSector(first), geometry);
        let mut out = [[0xff; 16]; 3];
        let (first, rest) = out.split_at_mut(1);
        ivs.fill(first);
        ivs.fill(rest);
        out
    }

    #[test]
    fn null_is_zero() {
        assert_eq!(three(IvMode::Null, 77, 512), [[0; 16]; 3]);
    }

    #[test]
    fn plain_wraps_at_32_bits() {
        let ivs = three(IvMode::Plain, 0x7_ffff_fff8, 4096);
        assert_eq!(ivs[0][..5], [0xf8, 0xff, 0xff, 0xff, 0]);
        assert_eq!(ivs[1], [0; 16]);
        assert_eq!(ivs[2][..5], [8, 0, 0, 0, 0]);
    }

    #[test]
    fn plain64_is_little_endian_and_wraps_at_64_bits() {
        let ivs = three(IvMode::Plain64, u64::MAX, 512);
        assert_eq!(ivs[0][..8], [0xff; 8]);
        assert_eq!(ivs[0][8..], [0; 8]);
        assert_eq!(ivs[1], [0; 16]);
        assert_eq!(ivs[2][..2], [1, 0]);
        assert_eq!(three(IvMode::Plain64, 0x0102, 512)[0][..3], [2, 1, 0]);
    }

    #[test]
    fn plain64be_is_big_endian_in_the_last_half() {
        let ivs = three(IvMode::Plain64be, 0x0102_0304_0506_0708, 2048);
        assert_eq!(ivs[0], [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(ivs[1][15], 12);
        assert_eq!(ivs[2][15], 16);
    }

    #[test]
    fn large_sectors_step_by_one() {
        let geometry = Geometry {
            sector_size: SectorSize::S4096,
            iv_large_sectors: true,
        };
        let mut ivs = Ivs::new(IvMode::Plain64, IvSector(9), geometry);
        let mut out = [[0; 16]; 2];
        ivs.fill(&mut out);
        assert_eq!((out[0][0], out[1][0]), (9, 10));
    }
}
