//! Numbers and sizes of sectors.

/// A logical sector of a mapping: its first is 0, each is one [`SectorSize`] long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectorIndex(pub u64);

/// The number that a sector's IV is made from, as dm-crypt counts it: in 512-byte units, also where
/// sectors are larger, so that consecutive 4096-byte sectors are 8 apart. Only with
/// `iv_large_sectors` does it count whole sectors. See [`Geometry::iv_sector`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IvSector(pub u64);

/// The size of an encryption sector: 512, 1024, 2048 or 4096 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectorSize(usize);

impl SectorSize {
    pub const S512: Self = Self(512);
    /// The largest sector of dm-crypt.
    pub const S4096: Self = Self(4096);

    /// `None` for a size that dm-crypt does not know.
    #[must_use]
    pub const fn new(bytes: u32) -> Option<Self> {
        match bytes {
            512 | 1024 | 2048 | 4096 => Some(Self(bytes as usize)),
            _ => None,
        }
    }

    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0
    }

    /// Size in the 512-byte units of [`IvSector`] and of table lines.
    #[must_use]
    pub const fn units(self) -> u64 {
        (self.0 / 512) as u64
    }
}

/// Division of a mapping into sectors, and the unit in which its IVs count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// The unit of encryption.
    pub sector_size: SectorSize,
    /// dm-crypt's flag of that name: the IV counts whole sectors instead of 512-byte units. LUKS2
    /// never sets it; with 512-byte sectors it changes nothing.
    pub iv_large_sectors: bool,
}

impl Geometry {
    /// Sectors of this size, whose IVs count 512-byte units, as in every LUKS volume.
    #[must_use]
    pub const fn new(sector_size: SectorSize) -> Self {
        Self {
            sector_size,
            iv_large_sectors: false,
        }
    }

    /// The number that `sector`'s IV is made from in a mapping whose `iv_offset` is given, as in a
    /// table line, in 512-byte units. Like dm-crypt's, the sum wraps.
    #[must_use]
    pub const fn iv_sector(self, sector: SectorIndex, iv_offset: u64) -> IvSector {
        let units = self.sector_size.units();
        let number = sector.0.wrapping_mul(units).wrapping_add(iv_offset);
        IvSector(if self.iv_large_sectors {
            number / units
        } else {
            number
        })
    }

    /// Distance between the IV sectors of neighbouring sectors.
    pub(crate) const fn iv_step(self) -> u64 {
        if self.iv_large_sectors {
            1
        } else {
            self.sector_size.units()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sizes_of_dm_crypt_are_sector_sizes() {
        let accepted: Vec<usize> = (0..=8192)
            .filter_map(SectorSize::new)
            .map(SectorSize::bytes)
            .collect();
        assert_eq!(accepted, [512, 1024, 2048, 4096]);
    }

    #[test]
    fn iv_sectors_count_512_byte_units_unless_told_otherwise() {
        let small = Geometry::new(SectorSize::S4096);
        assert_eq!(small.iv_sector(SectorIndex(3), 16), IvSector(40));
        assert_eq!(small.iv_step(), 8);
        let large = Geometry {
            iv_large_sectors: true,
            ..small
        };
        assert_eq!(large.iv_sector(SectorIndex(3), 16), IvSector(5));
        assert_eq!(large.iv_step(), 1);
        let plain = Geometry::new(SectorSize::S512);
        assert_eq!(plain.iv_sector(SectorIndex(2), u64::MAX), IvSector(1));
    }
}
