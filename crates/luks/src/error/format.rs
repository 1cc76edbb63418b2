//! Errors of making a header.

use std::error::Error;
use std::fmt;

use super::keyslot::KeyslotError;
use super::unsupported::Unsupported;
use super::write::WriteError;
use crate::kdf::KdfError;
use crate::random::RandomError;

/// Why a header cannot be made.
#[derive(Debug)]
pub enum FormatError {
    /// The data would start inside the header.
    DataOffset {
        /// Start of the data, in bytes.
        offset: u64,
        /// End of the header, in bytes.
        header_end: u64,
    },
    /// The data offset is not a multiple of 512.
    Unaligned {
        /// Start of the data, in bytes.
        offset: u64,
    },
    /// The space for data is not a whole number of encryption sectors.
    PartialSector {
        /// Bytes from the data offset to the end of the device.
        length: u64,
        /// Encryption sector in bytes.
        sector_size: u64,
    },
    /// The device is too short.
    NoRoom {
        /// Bytes that it needs at least.
        need: u64,
        /// Bytes that it has.
        have: u64,
    },
    /// The metadata size is not one of those that LUKS2 has.
    MetadataSize(u64),
    /// The size of the key slots area is not a multiple of 4096, too large, or too small for one key.
    KeyslotsSize {
        /// The size that was asked for, in bytes.
        size: u64,
        /// The least that holds one key, in bytes.
        least: u64,
    },
    /// The data offset does not fit in a LUKS1 header.
    DataOffsetLuks1 {
        /// Start of the data, in bytes.
        offset: u64,
    },
    /// The text is not a UUID.
    Uuid(String),
    /// A cipher, or a key for it, that Scrim does not have.
    Unsupported(Unsupported),
    /// The first key slot could not be made.
    Keyslot(KeyslotError),
    /// The digest of the volume key could not be computed.
    Digest(KdfError),
    /// The header cannot be written.
    Write(WriteError),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataOffset { offset, header_end } => write!(
                f,
                "data at byte {offset} would lie inside the header, which takes {header_end} \
                 bytes: choose a larger offset"
            ),
            Self::Unaligned { offset } => write!(
                f,
                "data cannot start at byte {offset}: choose a multiple of 512"
            ),
            Self::PartialSector {
                length,
                sector_size,
            } => write!(
                f,
                "{length} bytes of data are no whole number of {sector_size}-byte encryption \
                 sectors: choose a smaller sector size, or change the device's length"
            ),
            Self::NoRoom { need, have } => write!(
                f,
                "the device has {have} bytes, and at least {need} are needed: make it larger, or \
                 choose a smaller data offset"
            ),
            Self::MetadataSize(size) => write!(
                f,
                "a LUKS2 metadata area cannot have {size} bytes: choose 16 KiB, or a power of two \
                 from there to 4 MiB"
            ),
            Self::KeyslotsSize { size, least } => write!(
                f,
                "a key slots area cannot have {size} bytes: choose a multiple of 4096 from \
                 {least} bytes to 128 MiB"
            ),
            Self::DataOffsetLuks1 { offset } => write!(
                f,
                "data at byte {offset} is beyond what LUKS1 can say: choose a smaller offset, or \
                 LUKS2"
            ),
            Self::Uuid(uuid) => write!(
                f,
                "{uuid:?} is no UUID: write it like 9bbcbbf9-cf9b-48eb-95a2-34484ec7a33b"
            ),
            Self::Unsupported(error) => error.fmt(f),
            Self::Keyslot(error) => error.fmt(f),
            Self::Digest(error) => write!(f, "the digest of the volume key: {error}"),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl Error for FormatError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unsupported(error) => Some(error),
            Self::Keyslot(error) => Some(error),
            Self::Digest(error) => Some(error),
            Self::Write(error) => Some(error),
            _ => None,
        }
    }
}

impl From<WriteError> for FormatError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<KeyslotError> for FormatError {
    fn from(error: KeyslotError) -> Self {
        Self::Keyslot(error)
    }
}

impl From<RandomError> for FormatError {
    fn from(error: RandomError) -> Self {
        Self::Write(error.into())
    }
}

impl From<Unsupported> for FormatError {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error)
    }
}
