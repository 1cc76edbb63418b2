//! The partition header (LUKS1 specification, section 2.3): 592 bytes, big-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0..6 | magic, `LUKS\xba\xbe` |
//! | 6..8 | version |
//! | 8..40 | cipher name |
//! | 40..72 | cipher mode |
//! | 72..104 | hash |
//! | 104..108 | payload offset, in sectors |
//! | 108..112 | key bytes |
//! | 112..132 | digest of the key |
//! | 132..164 | its salt |
//! | 164..168 | its iterations |
//! | 168..208 | UUID |
//! | 208..592 | eight key slots of 48 bytes: marker, iterations, salt (32), offset in sectors, stripes |

use std::ops::Range;

use crate::af::{self, STRIPES};
use crate::error::{Fault, WriteError};
use crate::keyslot::MAX_KEY_SIZE;
use crate::on_disk::fields::{Fields, TooShort, field, text};
use crate::on_disk::magic::MAGIC;

/// Key slots in every header.
pub(crate) const KEYSLOTS: u8 = 8;
/// The unit of offsets in the header.
pub(super) const SECTOR: u64 = SECTOR_BYTES as u64;
pub(super) const SECTOR_BYTES: usize = 512;
/// Slots of which every field lies in the header's first sector.
pub(super) const IN_FIRST_SECTOR: usize = 6;

/// Bytes of the header.
pub(super) const PHDR_SIZE: usize = 592;
/// Limit for the end of key slot areas, in bytes: eight times as much as the longest keys need, so that
/// a header with its areas always fits in memory.
const MAX_END: u64 = 128 << 20;
const VERSION: u16 = 1;
const ENABLED: u32 = 0x00ac_71f3;
const DISABLED: u32 = 0x0000_dead;

/// The fields of the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phdr {
    pub(super) cipher_name: String,
    pub(super) cipher_mode: String,
    pub(super) hash_spec: String,
    pub(super) payload_offset: u32,
    pub(super) key_bytes: u32,
    pub(super) mk_digest: [u8; 20],
    pub(super) mk_digest_salt: [u8; 32],
    pub(super) mk_digest_iterations: u32,
    pub(super) uuid: String,
    pub(super) slots: [Slot; KEYSLOTS as usize],
}

/// A key slot, in use or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) active: bool,
    pub(crate) iterations: u32,
    pub(crate) salt: [u8; 32],
    /// Offset of the area, in sectors.
    pub(crate) offset: u32,
    pub(crate) stripes: u32,
}

impl Phdr {
    /// Reads and checks the header at the start of `area`.
    pub(super) fn read(area: &[u8]) -> Result<Self, Fault> {
        let (phdr, markers) = Self::fields(header_bytes(area)?)?;
        for (slot, marker) in (0..KEYSLOTS).zip(markers) {
            if marker != ENABLED && marker != DISABLED {
                return Err(Fault::Marker { slot, marker });
            }
        }
        phdr.check()?;
        Ok(phdr)
    }

    /// Reads the header at the start of `area`, and which key slots are in use: `None` where the
    /// marker says neither.
    pub(super) fn read_unchecked(area: &[u8]) -> Result<(Self, [Option<bool>; 8]), Fault> {
        let (phdr, markers) = Self::fields(header_bytes(area)?)?;
        let in_use = markers.map(|marker| match marker {
            ENABLED => Some(true),
            DISABLED => Some(false),
            _ => None,
        });
        Ok((phdr, in_use))
    }

    /// The fields, and the markers of the key slots.
    fn fields(bytes: &[u8]) -> Result<(Self, [u32; KEYSLOTS as usize]), Fault> {
        let mut fields = Fields::new(bytes);
        let _magic: &[u8; 6] = fields.array()?;
        let _version = fields.u16()?;
        let mut phdr = Self {
            cipher_name: word("cipher name", fields.array::<32>()?)?,
            cipher_mode: word("cipher mode", fields.array::<32>()?)?,
            hash_spec: word("hash", fields.array::<32>()?)?,
            payload_offset: fields.u32()?,
            key_bytes: fields.u32()?,
            mk_digest: *fields.array()?,
            mk_digest_salt: *fields.array()?,
            mk_digest_iterations: fields.u32()?,
            uuid: word("UUID", fields.array::<40>()?)?,
            slots: std::array::from_fn(|_| Slot::default()),
        };
        let mut markers = [0; KEYSLOTS as usize];
        for (slot, marker) in phdr.slots.iter_mut().zip(&mut markers) {
            *marker = fields.u32()?;
            *slot = Slot {
                active: *marker == ENABLED,
                iterations: fields.u32()?,
                salt: *fields.array()?,
                offset: fields.u32()?,
                stripes: fields.u32()?,
            };
        }
        Ok((phdr, markers))
    }

    /// Checks what the fields must be together.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if !(1..=MAX_KEY_SIZE).contains(&self.key_bytes) {
            return Err(Fault::KeyBytes(self.key_bytes));
        }
        if self.mk_digest_iterations == 0 {
            return Err(Fault::DigestIterations);
        }
        let payload = u64::from(self.payload_offset) * SECTOR;
        let mut areas = Vec::new();
        for (slot, fields) in (0..KEYSLOTS).zip(&self.slots) {
            if fields.stripes != STRIPES {
                let stripes = fields.stripes;
                return Err(Fault::Stripes { slot, stripes });
            }
            if fields.active && fields.iterations == 0 {
                return Err(Fault::Iterations { slot });
            }
            let area = area(fields, self.key_bytes);
            if area.start < PHDR_SIZE as u64 {
                return Err(Fault::InsideHeader { slot });
            }
            if payload != 0 && area.end > payload {
                return Err(Fault::InsidePayload { slot });
            }
            if area.end > MAX_END {
                return Err(Fault::TooFar { slot });
            }
            areas.push((area.start, area.end, slot));
        }
        areas.sort_unstable();
        for pair in areas.windows(2) {
            if let [(_, end, first), (start, _, second)] = pair
                && end > start
            {
                return Err(Fault::Overlap {
                    slot: *second,
                    other: *first,
                });
            }
        }
        Ok(())
    }

    /// The header's [`PHDR_SIZE`] bytes.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, WriteError> {
        let mut bytes = Vec::with_capacity(PHDR_SIZE);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend(field::<32>("cipher name", &self.cipher_name)?);
        bytes.extend(field::<32>("cipher mode", &self.cipher_mode)?);
        bytes.extend(field::<32>("hash", &self.hash_spec)?);
        bytes.extend(self.payload_offset.to_be_bytes());
        bytes.extend(self.key_bytes.to_be_bytes());
        bytes.extend(self.mk_digest);
        bytes.extend(self.mk_digest_salt);
        bytes.extend(self.mk_digest_iterations.to_be_bytes());
        bytes.extend(field::<40>("UUID", &self.uuid)?);
        for slot in &self.slots {
            let marker = if slot.active { ENABLED } else { DISABLED };
            bytes.extend(marker.to_be_bytes());
            bytes.extend(slot.iterations.to_be_bytes());
            bytes.extend(slot.salt);
            bytes.extend(slot.offset.to_be_bytes());
            bytes.extend(slot.stripes.to_be_bytes());
        }
        Ok(bytes)
    }
}

fn header_bytes(area: &[u8]) -> Result<&[u8], Fault> {
    area.get(..PHDR_SIZE).ok_or(Fault::Truncated {
        need: PHDR_SIZE,
        have: area.len(),
    })
}

impl Default for Slot {
    /// As cryptsetup leaves a slot that was never used, but for its offset.
    fn default() -> Self {
        Self {
            active: false,
            iterations: 0,
            salt: [0; 32],
            offset: 0,
            stripes: STRIPES,
        }
    }
}

/// The bytes of the header device that belong to a key slot.
pub(super) fn area(slot: &Slot, key_bytes: u32) -> Range<u64> {
    let start = u64::from(slot.offset) * SECTOR;
    // The key has at most 512 bytes.
    start..start + af::material_len(key_bytes as usize) as u64
}

impl From<TooShort> for Fault {
    fn from(_: TooShort) -> Self {
        Self::Truncated {
            need: PHDR_SIZE,
            have: 0,
        }
    }
}

/// Printable ASCII, not empty, in a field that a NUL ends.
fn word(name: &'static str, field: &[u8]) -> Result<String, Fault> {
    match text(field) {
        Some(word) if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(word.to_owned())
        }
        _ => Err(Fault::Text(name)),
    }
}
