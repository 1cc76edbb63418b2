//! A LUKS header of either version, in common terms, and the operations on it.

mod convert;
mod edit;
mod format;
mod keyslots;
mod underway;
mod unlock;

pub use format::{Formatted, format_luks1, format_luks2, format_luks2_underway};

use scrim_foreign::Foreign;

use crate::digest::Digest;
use crate::error::{HeaderError, UnlockError, Unsupported, WriteError};
use crate::finding::{Finding, Repair};
use crate::flag::Flag;
use crate::keyslot::Keyslot;
use crate::metadata::Metadata;
use crate::on_disk::magic::version_at_start;
use crate::on_disk::{luks1, luks2};
use crate::plan::Plan;
use crate::segment::{DataSegment, Segment};
use crate::token::Token;

/// Bytes at the start of a header device that can hold a header: both copies of the largest LUKS2
/// metadata area. Read this much, or the whole device if it is shorter, for [`Header::parse`].
pub const HEADER_AREA_MAX: usize = 8 << 20;

/// A header that has been checked, of either version.
#[derive(Debug, Clone)]
pub enum Header {
    Luks1(luks1::Header),
    Luks2(luks2::Header),
}

/// A header as [`Header::parse`] found it.
#[derive(Debug)]
pub struct Parsed {
    /// The header, the better copy of it where there are two.
    pub header: Header,
    /// Faults that do not prevent the use of the header, but are worth a warning each.
    pub findings: Vec<Finding>,
    /// The copy that should be rewritten from the other, and whether to ask first.
    pub repair: Option<Repair>,
}

/// Which version of LUKS the first bytes of a device claim to be, unchecked: by the magic of a
/// primary, or of a secondary LUKS2 header where one may lie. `None` if the device has no LUKS header.
///
/// [`Header::parse`] tells whether it is true.
#[must_use]
pub fn probe(area: &[u8]) -> Option<u16> {
    version_at_start(area).or_else(|| luks2::has_secondary(area).then_some(2))
}

impl Header {
    /// Finds and checks the header in `area`, the first [`HEADER_AREA_MAX`] bytes of a device of
    /// `device_len` bytes, or all of them if there are fewer.
    ///
    /// # Errors
    /// [`HeaderError`]: there is no header, or none that can be trusted.
    pub fn parse(area: &[u8], device_len: u64) -> Result<Parsed, HeaderError> {
        Parsed::of(area)?.usable(device_len)
    }

    /// Version of LUKS: 1 or 2.
    #[must_use]
    pub fn version(&self) -> u16 {
        match self {
            Self::Luks1(_) => 1,
            Self::Luks2(_) => 2,
        }
    }

    /// The UUID as stored.
    #[must_use]
    pub fn uuid(&self) -> Foreign<&str> {
        match self {
            Self::Luks1(header) => header.uuid(),
            Self::Luks2(header) => header.uuid(),
        }
    }

    /// The label, if it has one; LUKS1 has none.
    #[must_use]
    pub fn label(&self) -> Option<Foreign<&str>> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => header.label(),
        }
    }

    /// The subsystem label, if it has one; LUKS1 has none.
    #[must_use]
    pub fn subsystem(&self) -> Option<Foreign<&str>> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(header) => header.subsystem(),
        }
    }

    /// The persistent flags that Scrim knows; [`Parsed::findings`] names the others.
    #[must_use]
    pub fn flags(&self) -> Vec<Flag> {
        let names = self.metadata().flags.iter();
        names.filter_map(|name| Flag::from_name(name)).collect()
    }

    /// Names of features that a program must support to use the volume, as stored. Scrim supports
    /// none of them; an ordinary volume has no requirement.
    #[must_use]
    pub fn requirements(&self) -> &[String] {
        &self.metadata().requirements
    }

    /// The key slots in use, by number.
    #[must_use]
    pub fn keyslots(&self) -> &[Keyslot] {
        &self.metadata().keyslots
    }

    /// The digests, by number.
    #[must_use]
    pub fn digests(&self) -> &[Digest] {
        &self.metadata().digests
    }

    /// The segments, by number.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.metadata().segments
    }

    /// The tokens, by number; LUKS1 has none.
    #[must_use]
    pub fn tokens(&self) -> &[Token] {
        &self.metadata().tokens
    }

    /// The first byte behind the header and its key slots area.
    #[must_use]
    pub fn header_end(&self) -> u64 {
        match self {
            Self::Luks1(header) => header.header_end(),
            Self::Luks2(header) => header.header_end(),
        }
    }

    /// The one segment that holds the data, in the terms of [`scrim_crypt`].
    ///
    /// # Errors
    /// [`Unsupported`]: the header is sound, but asks for something that Scrim does not have.
    pub fn data_segment(&self) -> Result<DataSegment, Unsupported> {
        self.data_segment_and_digest().map(|(segment, _)| segment)
    }

    /// The data segment and the digest of its key.
    pub(crate) fn data_segment_and_digest(&self) -> Result<(DataSegment, &Digest), Unsupported> {
        let metadata = self.metadata();
        if let Some(requirement) = metadata.requirements.first() {
            return Err(Unsupported::Requirement(requirement.clone()));
        }
        let in_use: Vec<_> = metadata.segments_in_use().collect();
        let [segment] = in_use[..] else {
            return Err(Unsupported::SegmentCount(in_use.len()));
        };
        let digests = metadata.digests.iter();
        let of_segment: Vec<_> = digests
            .filter(|digest| digest.segments.contains(&segment.id))
            .collect();
        let [digest] = of_segment[..] else {
            return Err(Unsupported::SegmentDigest(segment.id));
        };
        let key_size = self.key_size(digest)?;
        Ok((segment.resolve(key_size, self.header_end())?, digest))
    }

    /// Length of the key that `digest` knows. LUKS2 states it only in the key slots that hold the key.
    fn key_size(&self, digest: &Digest) -> Result<Option<usize>, Unsupported> {
        if let Self::Luks1(header) = self {
            return Ok(Some(header.key_bytes() as usize));
        }
        let mut sizes = self
            .keyslots()
            .iter()
            .filter(|slot| digest.keyslots.contains(&slot.id))
            .map(|slot| slot.key_size as usize);
        let first = sizes.next();
        match (first, sizes.find(|size| Some(*size) != first)) {
            (Some(first), Some(other)) => Err(Unsupported::KeySizesDiffer { first, other }),
            (first, _) => Ok(first),
        }
    }

    pub(crate) fn keyslot(&self, slot: u8) -> Result<&Keyslot, UnlockError> {
        let mut keyslots = self.keyslots().iter();
        keyslots
            .find(|keyslot| keyslot.id == slot)
            .ok_or(UnlockError::UnusedKeyslot { slot })
    }

    /// A header with a requirement belongs to the program that set it.
    pub(crate) fn check_editable(&self) -> Result<(), Unsupported> {
        match self.requirements().first() {
            Some(requirement) => Err(Unsupported::Requirement(requirement.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        match self {
            Self::Luks1(header) => header.metadata(),
            Self::Luks2(header) => header.metadata(),
        }
    }
}

impl Parsed {
    /// Finds and checks the header in `area`, whatever the device is used for now, and however short it is.
    pub(crate) fn of(area: &[u8]) -> Result<Self, HeaderError> {
        let mut parsed = match version_at_start(area) {
            Some(1) => Self {
                header: Header::Luks1(luks1::Header::parse(area)?),
                findings: Vec::new(),
                repair: None,
            },
            version => {
                let luks2::Copies {
                    better,
                    findings,
                    repair,
                } = luks2::parse_copies(area, version)?;
                Self {
                    header: Header::Luks2(better),
                    findings,
                    repair,
                }
            }
        };
        for name in &parsed.header.metadata().flags {
            if Flag::from_name(name).is_none() {
                parsed.findings.push(Finding::UnknownFlag(name.clone()));
            }
        }
        Ok(parsed)
    }

    /// Refuses what cryptsetup refuses: a device of `device_len` bytes that ends before the key slots area
    /// does, and one that has become something else although one copy of the header is left.
    pub(crate) fn usable(self, device_len: u64) -> Result<Self, HeaderError> {
        let need = self.header.header_end();
        if need > device_len {
            return Err(HeaderError::DeviceTooSmall {
                need,
                have: device_len,
            });
        }
        match self.repair {
            Some(Repair {
                copy,
                overwritten_by: Some(by),
                ..
            }) => Err(HeaderError::Overwritten { copy, by }),
            _ => Ok(self),
        }
    }

    /// Plans to rewrite the copy that [`Parsed::repair`] names, if it names one.
    ///
    /// # Errors
    /// [`WriteError`]; nothing has been written.
    pub fn repair_plan(&self) -> Result<Option<Plan>, WriteError> {
        match (&self.header, self.repair) {
            (Header::Luks2(header), Some(repair)) => header.repair_plan(repair.copy).map(Some),
            _ => Ok(None),
        }
    }
}
