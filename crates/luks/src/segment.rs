//! Segments: where on the data device the encrypted data lies.

use std::fmt;
use std::ops::Range;

use scrim_crypt::{CipherSpec, IvSector, SectorSize};

use crate::error::Unsupported;
use crate::keyslot;

/// A segment as the header describes it (LUKS2 specification, section 3.3). A LUKS1 header has
/// exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its number in the header.
    pub id: u8,
    /// First byte on the data device.
    pub offset: u64,
    pub length: SegmentLength,
    /// Flags as stored, such as `backup-final` while a volume is being reencrypted.
    pub flags: Vec<String>,
    pub kind: SegmentKind,
}

impl Segment {
    /// Returns whether this is the record of an earlier or later layout, kept for reencryption, and no
    /// part of the data now.
    #[must_use]
    pub fn is_backup(&self) -> bool {
        self.flags.iter().any(|flag| flag.starts_with("backup-"))
    }

    /// Translates the segment into the terms of [`scrim_crypt`], for a volume key of `key_size` bytes.
    pub(crate) fn resolve(
        &self,
        key_size: Option<usize>,
        header_end: u64,
    ) -> Result<DataSegment, Unsupported> {
        let crypt = match &self.kind {
            SegmentKind::Crypt(crypt) => crypt,
            SegmentKind::Other(kind) => return Err(Unsupported::SegmentType(kind.clone())),
        };
        if let Some(kind) = &crypt.integrity {
            return Err(Unsupported::Integrity(kind.clone()));
        }
        let cipher = keyslot::parse_cipher(&crypt.cipher)?;
        if let Some(key_size) = key_size {
            keyslot::check_key_size(&cipher, key_size)?;
        }
        let sector_size =
            SectorSize::new(crypt.sector_size).ok_or(Unsupported::SectorSize(crypt.sector_size))?;
        Ok(DataSegment {
            cipher,
            key_size,
            sector_size,
            offset: self.offset,
            length: self.length,
            iv_offset: IvSector(crypt.iv_tweak),
            header_end,
        })
    }
}

/// Length of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentLength {
    /// To the end of the device.
    Dynamic,
    /// A number of bytes.
    Fixed(u64),
}

/// Contents of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SegmentKind {
    /// Data that dm-crypt encrypts.
    Crypt(CryptSegment),
    /// A type that Scrim does not open, by its name in the header.
    Other(String),
}

/// The parameters of an encrypted segment, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CryptSegment {
    /// Cipher specification, such as `aes-xts-plain64`.
    pub cipher: String,
    /// Number that is added to the sector number to make the IV, in 512-byte units.
    pub iv_tweak: u64,
    /// Encryption sector in bytes: 512, 1024, 2048 or 4096.
    pub sector_size: u32,
    /// Type of the integrity protection, if there is any: `hmac(sha256)`, `aead` …
    pub integrity: Option<String>,
}

/// The one segment that holds a volume's data, in the terms of [`scrim_crypt`].
#[derive(Debug, Clone)]
pub struct DataSegment {
    /// Cipher, mode and IV generator.
    pub cipher: CipherSpec,
    /// Length of the volume key in bytes; `None` when no key slot is left to tell.
    pub key_size: Option<usize>,
    /// Size of an encryption sector.
    pub sector_size: SectorSize,
    /// First byte on the data device; 0 in a detached header whose data device is all data.
    pub offset: u64,
    pub length: SegmentLength,
    /// IV of the first sector, in 512-byte units.
    pub iv_offset: IvSector,
    /// The first byte behind the header and its key slots area, on the header's device.
    pub header_end: u64,
}

/// Location of the header: on the device of the data, or elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The header lies before the data on the same device.
    Attached,
    /// The header is in a file or on a device of its own.
    Detached,
}

impl DataSegment {
    /// The bytes of the data device that the segment covers, checked against the device's length
    /// and, where the header is on that device too, against the header's end.
    ///
    /// An incomplete 512-byte sector at the end of the device is left out, as a loop device does.
    ///
    /// # Errors
    /// [`DataError`]: the header is not for this device, or the device has been truncated.
    pub fn extent(&self, placement: Placement, device_len: u64) -> Result<Range<u64>, DataError> {
        if placement == Placement::Attached && self.offset < self.header_end {
            return Err(DataError::InsideHeader {
                offset: self.offset,
                header_end: self.header_end,
            });
        }
        let whole_sectors = device_len - device_len % 512;
        let past_end = DataError::PastEnd {
            offset: self.offset,
            length: self.length,
            device_len,
        };
        let end = match self.length {
            SegmentLength::Dynamic => whole_sectors,
            SegmentLength::Fixed(length) => match self.offset.checked_add(length) {
                Some(end) if end <= whole_sectors => end,
                _ => return Err(past_end),
            },
        };
        if end <= self.offset {
            return Err(past_end);
        }
        let length = end - self.offset;
        let sector_size = self.sector_size.bytes() as u64;
        if !length.is_multiple_of(sector_size) {
            return Err(DataError::Unaligned {
                length,
                sector_size,
            });
        }
        if self.iv_offset.0.checked_add(length / 512).is_none() {
            return Err(DataError::IvOverflow);
        }
        Ok(self.offset..end)
    }
}

/// Why a data device does not fit its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataError {
    /// The data would start before the header ends.
    InsideHeader {
        /// Start of the data, in bytes.
        offset: u64,
        /// End of the header, in bytes.
        header_end: u64,
    },
    /// The segment starts or ends behind the end of the device.
    PastEnd {
        /// Start of the segment, in bytes.
        offset: u64,
        /// Length of the segment.
        length: SegmentLength,
        /// Length of the device in bytes.
        device_len: u64,
    },
    /// The length is not a whole number of encryption sectors.
    Unaligned {
        /// Length of the data in bytes.
        length: u64,
        /// Encryption sector in bytes.
        sector_size: u64,
    },
    /// The sector numbers overflow behind the segment's `iv_tweak`.
    IvOverflow,
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InsideHeader { offset, header_end } => write!(
                f,
                "the data would start at byte {offset}, inside the header that ends at \
                 {header_end}: this is a detached header, name its data device beside it"
            ),
            Self::PastEnd {
                offset,
                length: SegmentLength::Dynamic,
                device_len,
            } => write!(
                f,
                "the data starts at byte {offset}, but the device ends at {device_len}: \
                 it has been truncated, or is not the device of this header"
            ),
            Self::PastEnd {
                offset,
                length: SegmentLength::Fixed(length),
                device_len,
            } => write!(
                f,
                "the data takes {length} bytes from byte {offset}, but the device ends at \
                 {device_len}: it has been truncated, or is not the device of this header"
            ),
            Self::Unaligned {
                length,
                sector_size,
            } => write!(
                f,
                "the data takes {length} bytes, no whole number of {sector_size}-byte encryption \
                 sectors: restore the device's length"
            ),
            Self::IvOverflow => f.write_str(
                "the segment's iv_tweak is so large that sector numbers would overflow: \
                 the header is damaged, restore it from a backup",
            ),
        }
    }
}

impl std::error::Error for DataError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(offset: u64, length: SegmentLength, sector_size: u32) -> DataSegment {
        DataSegment {
            cipher: "aes-xts-plain64".parse().unwrap(),
            key_size: Some(64),
            sector_size: SectorSize::new(sector_size).unwrap(),
            offset,
            length,
            iv_offset: IvSector(0),
            header_end: 4096,
        }
    }

    #[test]
    fn a_dynamic_segment_reaches_to_the_last_whole_sector() {
        let segment = segment(4096, SegmentLength::Dynamic, 512);
        let extent = |len| segment.extent(Placement::Attached, len);
        assert_eq!(extent(8192), Ok(4096..8192));
        assert_eq!(extent(8192 + 511), Ok(4096..8192));
        assert_eq!(extent(4096 + 512), Ok(4096..4608));
        for len in [0, 3, 4095, 4096, 4607] {
            assert!(
                matches!(extent(len), Err(DataError::PastEnd { .. })),
                "{len}"
            );
        }
    }

    #[test]
    fn a_fixed_segment_must_fit() {
        let fixed = segment(4096, SegmentLength::Fixed(8192), 4096);
        let extent = |len| fixed.extent(Placement::Detached, len);
        assert_eq!(extent(12288), Ok(4096..12288));
        assert!(matches!(extent(12287), Err(DataError::PastEnd { .. })));
        let absurd = segment(4096, SegmentLength::Fixed(u64::MAX), 512);
        let absurd = absurd.extent(Placement::Detached, u64::MAX);
        assert!(matches!(absurd, Err(DataError::PastEnd { .. })));
    }

    #[test]
    fn lengths_between_sectors_and_data_inside_the_header_are_refused() {
        let large = segment(4096, SegmentLength::Dynamic, 4096);
        let odd = large.extent(Placement::Attached, 4096 + 4096 + 512);
        assert!(matches!(odd, Err(DataError::Unaligned { .. })));
        let detached = segment(0, SegmentLength::Dynamic, 4096);
        assert_eq!(detached.extent(Placement::Detached, 8192), Ok(0..8192));
        let inside = detached.extent(Placement::Attached, 1 << 20);
        assert!(matches!(inside, Err(DataError::InsideHeader { .. })));
    }

    #[test]
    fn sector_numbers_never_overflow() {
        let mut last = segment(0, SegmentLength::Dynamic, 512);
        last.iv_offset = IvSector(u64::MAX - 2);
        assert_eq!(last.extent(Placement::Detached, 1024), Ok(0..1024));
        assert_eq!(
            last.extent(Placement::Detached, 1536),
            Err(DataError::IvOverflow)
        );
    }
}
