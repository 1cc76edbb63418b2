//! The binary header (LUKS2 specification, section 2.1): 4096 bytes, big-endian, twice.
//!
//! | bytes | field |
//! |---|---|
//! | 0..6 | magic, `LUKS\xba\xbe` or, in the secondary, `SKUL\xba\xbe` |
//! | 6..8 | version |
//! | 8..16 | size of this header with its JSON area |
//! | 16..24 | sequence number |
//! | 24..72 | label |
//! | 72..104 | checksum algorithm |
//! | 104..168 | salt, different in each copy |
//! | 168..208 | UUID |
//! | 208..256 | subsystem |
//! | 256..264 | offset of this header on the device |
//! | 264..448 | zeros |
//! | 448..512 | checksum of header and JSON area, over zeros in its own place |
//! | 512..4096 | zeros |

use crate::error::{CopyFault, WriteError};
use crate::header_copy::{HeaderCopy, LUKS2_COPY_SIZES};
use crate::kdf::Hash;
use crate::on_disk::fields::{Fields, TooShort, field, text};
use crate::on_disk::magic::MAGIC;

/// Bytes of the binary header; the JSON area follows.
pub(super) const BINARY_SIZE: usize = 4096;
const SECONDARY_MAGIC: [u8; 6] = *b"SKUL\xba\xbe";
const VERSION: u16 = 2;
const CHECKSUM: std::ops::Range<usize> = 448..512;

/// The fields of a binary header that both copies share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binary {
    pub(super) hdr_size: u64,
    pub(super) seqid: u64,
    pub(super) label: String,
    pub(super) checksum: Checksum,
    pub(super) uuid: String,
    pub(super) subsystem: String,
}

/// A checksum algorithm with its name in the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checksum {
    pub(super) name: String,
    hash: Hash,
}

impl Checksum {
    fn from_name(name: &str) -> Result<Self, CopyFault> {
        let unknown = |_| CopyFault::ChecksumAlgorithm(name.escape_debug().to_string());
        Ok(Self {
            name: name.to_owned(),
            hash: name.parse().map_err(unknown)?,
        })
    }

    /// The checksum field of a whole copy: the digest, then zeros.
    fn of(&self, whole: &[u8]) -> [u8; 64] {
        const ZEROS: [u8; CHECKSUM.end - CHECKSUM.start] = [0; 64];
        let (before, rest) = whole.split_at(CHECKSUM.start);
        let (_, behind) = rest.split_at(ZEROS.len());
        let mut field = ZEROS;
        let digest = &mut field[..self.hash.digest_len()];
        self.hash.digest(&[before, &ZEROS, behind], digest);
        field
    }
}

impl From<Hash> for Checksum {
    fn from(hash: Hash) -> Self {
        Self {
            name: hash.to_string(),
            hash,
        }
    }
}

impl HeaderCopy {
    fn magic(self) -> [u8; 6] {
        match self {
            Self::Primary => MAGIC,
            Self::Secondary => SECONDARY_MAGIC,
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Primary => Self::Secondary,
            Self::Secondary => Self::Primary,
        }
    }

    /// Offset of this copy when a copy has `hdr_size` bytes.
    pub(super) fn offset(self, hdr_size: u64) -> u64 {
        match self {
            Self::Primary => 0,
            Self::Secondary => hdr_size,
        }
    }
}

/// Reads the copy at `offset` of the header device, whose first bytes are `area`: the fields, and
/// the JSON area, when everything about both that does not need the JSON is as it should be.
pub(super) fn read(
    area: &[u8],
    copy: HeaderCopy,
    offset: u64,
) -> Result<(Binary, &[u8]), CopyFault> {
    let truncated = |len: u64| CopyFault::Truncated {
        need: offset.saturating_add(len),
        have: area.len() as u64,
    };
    let from_here = usize::try_from(offset)
        .ok()
        .and_then(|offset| area.get(offset..))
        .ok_or(truncated(BINARY_SIZE as u64))?;
    if !from_here.starts_with(&copy.magic()) {
        return Err(CopyFault::Magic);
    }
    let header = from_here
        .get(..BINARY_SIZE)
        .ok_or(truncated(BINARY_SIZE as u64))?;
    let raw = Raw::read(header).map_err(|TooShort| truncated(BINARY_SIZE as u64))?;
    if raw.version != VERSION {
        return Err(CopyFault::Version(raw.version));
    }
    if !LUKS2_COPY_SIZES.contains(&raw.hdr_size) {
        return Err(CopyFault::Size(raw.hdr_size));
    }
    let lies = copy.offset(raw.hdr_size);
    if lies != offset || raw.hdr_offset != offset {
        return Err(CopyFault::Offset {
            says: if lies == offset { raw.hdr_offset } else { lies },
            lies: offset,
        });
    }
    let whole = usize::try_from(raw.hdr_size)
        .ok()
        .and_then(|len| from_here.get(..len))
        .ok_or(truncated(raw.hdr_size))?;
    let checksum = text(raw.checksum_algorithm).ok_or(CopyFault::Text("checksum algorithm"))?;
    let checksum = Checksum::from_name(checksum)?;
    // All 64 bytes: those behind a shorter digest are zeros in every header that was ever written,
    // and no checksum covers them.
    if whole[CHECKSUM] != checksum.of(whole) {
        return Err(CopyFault::Checksum);
    }
    let field = |name, field: &[u8]| match text(field) {
        Some(text) => Ok(text.to_owned()),
        None => Err(CopyFault::Text(name)),
    };
    let binary = Binary {
        hdr_size: raw.hdr_size,
        seqid: raw.seqid,
        label: field("label", raw.label)?,
        checksum,
        uuid: field("UUID", raw.uuid)?,
        subsystem: field("subsystem", raw.subsystem)?,
    };
    Ok((binary, &whole[BINARY_SIZE..]))
}

/// The fields as they lie there.
struct Raw<'a> {
    version: u16,
    hdr_size: u64,
    seqid: u64,
    label: &'a [u8; 48],
    checksum_algorithm: &'a [u8; 32],
    uuid: &'a [u8; 40],
    subsystem: &'a [u8; 48],
    hdr_offset: u64,
}

impl<'a> Raw<'a> {
    fn read(header: &'a [u8]) -> Result<Self, TooShort> {
        let mut fields = Fields::new(header);
        let _magic: &[u8; 6] = fields.array()?;
        let version = fields.u16()?;
        let hdr_size = fields.u64()?;
        let seqid = fields.u64()?;
        let label = fields.array()?;
        let checksum_algorithm = fields.array()?;
        let _salt: &[u8; 64] = fields.array()?;
        Ok(Self {
            version,
            hdr_size,
            seqid,
            label,
            checksum_algorithm,
            uuid: fields.array()?,
            subsystem: fields.array()?,
            hdr_offset: fields.u64()?,
        })
    }
}

impl Binary {
    /// The bytes of a whole copy with this JSON text.
    pub(super) fn encode(
        &self,
        copy: HeaderCopy,
        salt: &[u8; 64],
        json: &[u8],
    ) -> Result<Vec<u8>, WriteError> {
        let capacity = self.json_size() - 1;
        let size = self.json_size() + BINARY_SIZE;
        if json.len() > capacity {
            return Err(WriteError::JsonTooLarge {
                len: json.len(),
                capacity,
            });
        }
        let mut bytes = Vec::with_capacity(size);
        bytes.extend(copy.magic());
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend(self.hdr_size.to_be_bytes());
        bytes.extend(self.seqid.to_be_bytes());
        bytes.extend(field::<48>("label", &self.label)?);
        bytes.extend(field::<32>("checksum algorithm", &self.checksum.name)?);
        bytes.extend(salt);
        bytes.extend(field::<40>("UUID", &self.uuid)?);
        bytes.extend(field::<48>("subsystem", &self.subsystem)?);
        bytes.extend(copy.offset(self.hdr_size).to_be_bytes());
        bytes.resize(BINARY_SIZE, 0);
        bytes.extend(json);
        bytes.resize(size, 0);
        let checksum = self.checksum.of(&bytes);
        bytes[CHECKSUM].copy_from_slice(&checksum);
        Ok(bytes)
    }

    /// Bytes of the JSON area, with the NUL that ends the text.
    pub(super) fn json_size(&self) -> usize {
        // One of `LUKS2_COPY_SIZES`, so at most 4 MiB.
        usize::try_from(self.hdr_size).map_or(0, |size| size.saturating_sub(BINARY_SIZE))
    }
}

/// The offsets at which `area` has what claims to be a secondary.
pub(super) fn secondary_offsets(area: &[u8]) -> impl Iterator<Item = u64> {
    LUKS2_COPY_SIZES.into_iter().filter(|&offset| {
        usize::try_from(offset)
            .ok()
            .and_then(|offset| area.get(offset..))
            .is_some_and(|here| here.starts_with(&SECONDARY_MAGIC))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary() -> Binary {
        Binary {
            hdr_size: 0x4000,
            seqid: 7,
            label: "été".to_owned(),
            checksum: Hash::Sha256.into(),
            uuid: "fbcbd03f-0263-4494-a555-c95b3082935f".to_owned(),
            subsystem: String::new(),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let json = br#"{"a":1}"#;
        let primary = binary()
            .encode(HeaderCopy::Primary, &[1; 64], json)
            .unwrap();
        let secondary = binary()
            .encode(HeaderCopy::Secondary, &[2; 64], json)
            .unwrap();
        let area = [primary, secondary].concat();
        for copy in [HeaderCopy::Primary, HeaderCopy::Secondary] {
            let (read, rest) = read(&area, copy, copy.offset(0x4000)).unwrap();
            assert_eq!(read, binary());
            assert_eq!(rest.len(), 0x3000);
            assert!(rest.starts_with(json));
        }
        assert_eq!(secondary_offsets(&area).collect::<Vec<_>>(), [0x4000]);
    }

    /// Every bit of the binary header, with its checksum and padding, and of the JSON text; behind
    /// the text, where no bit may be set anyway, one bit of each byte.
    fn flip_bits(copy: HeaderCopy) {
        let start = usize::try_from(copy.offset(0x4000)).unwrap();
        let mut area = vec![0; start];
        area.extend(
            binary()
                .encode(copy, &[9; 64], br#"{"some":"text"}"#)
                .unwrap(),
        );
        let text_end = BINARY_SIZE + 16;
        let behind = (text_end..0x4000).map(|byte| 8 * byte + byte % 8);
        for bit in (0..8 * text_end).chain(behind) {
            area[start + bit / 8] ^= 1 << (bit % 8);
            assert!(read(&area, copy, start as u64).is_err(), "bit {bit}");
            area[start + bit / 8] ^= 1 << (bit % 8);
        }
        assert!(read(&area, copy, start as u64).is_ok());
    }

    #[test]
    fn no_bit_of_the_primary_flips_unnoticed() {
        flip_bits(HeaderCopy::Primary);
    }

    #[test]
    fn no_bit_of_the_secondary_flips_unnoticed() {
        flip_bits(HeaderCopy::Secondary);
    }

    #[test]
    fn no_length_is_read_past_its_end() {
        let whole = binary()
            .encode(HeaderCopy::Primary, &[9; 64], b"{}")
            .unwrap();
        for len in 0..whole.len() {
            let fault = read(&whole[..len], HeaderCopy::Primary, 0).unwrap_err();
            let expected = if len < 6 {
                matches!(fault, CopyFault::Magic)
            } else {
                matches!(fault, CopyFault::Truncated { have, .. } if have == len as u64)
            };
            assert!(expected, "{len}: {fault:?}");
        }
        assert!(read(&whole, HeaderCopy::Secondary, u64::MAX).is_err());
    }

    #[test]
    fn a_copy_must_lie_where_it_says() {
        let secondary = binary()
            .encode(HeaderCopy::Secondary, &[2; 64], b"{}")
            .unwrap();
        let mut area = vec![0; 0x8000];
        area.extend(secondary);
        assert_eq!(
            read(&area, HeaderCopy::Secondary, 0x8000),
            Err(CopyFault::Offset {
                says: 0x4000,
                lies: 0x8000
            })
        );
    }

    #[test]
    fn fields_that_do_not_fit_are_refused() {
        let mut long = binary();
        long.label = "x".repeat(48);
        let refused = long.encode(HeaderCopy::Primary, &[0; 64], b"{}");
        assert!(matches!(
            refused,
            Err(WriteError::Text {
                field: "label",
                capacity: 47
            })
        ));
        let refused = binary().encode(HeaderCopy::Primary, &[0; 64], &[b' '; 0x3000]);
        assert!(matches!(
            refused,
            Err(WriteError::JsonTooLarge {
                capacity: 0x2fff,
                ..
            })
        ));
    }
}
