//! Errors of converting a header to the other version of LUKS.

use std::error::Error;
use std::fmt;

use super::unsupported::Unsupported;
use super::write::WriteError;

/// Why a header cannot be converted.
#[derive(Debug)]
pub enum ConvertError {
    /// The header already has that version.
    Already(u16),
    /// LUKS1 has no equivalent of a key slot.
    Keyslot {
        slot: u8,
        /// Obstacle, worded to follow the key slot, as in "key slot 3 …".
        why: &'static str,
    },
    /// LUKS1 has no equivalent of something in the header.
    Header {
        /// Obstacle, worded to follow the header, as in "the header …".
        why: &'static str,
    },
    /// There is no room for the other layout.
    NoRoom {
        /// Bytes that are needed in one piece before the data.
        need: u64,
    },
    /// A cipher or requirement that Scrim does not have.
    Unsupported(Unsupported),
    /// The header cannot be written.
    Write(WriteError),
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Already(version) => write!(f, "the header is LUKS{version} already"),
            Self::Keyslot { slot, why } => write!(
                f,
                "key slot {slot} {why}, which the other version of LUKS cannot say: change or \
                 remove it first"
            ),
            Self::Header { why } => write!(
                f,
                "the header {why}, which the other version of LUKS cannot say: change that first"
            ),
            Self::NoRoom { need } => write!(
                f,
                "there is no room of {need} bytes before the data to move a key slot to without \
                 risk: remove one of key slots 1 to 5 first, and add it again when the header is \
                 converted"
            ),
            Self::Unsupported(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl Error for ConvertError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unsupported(error) => Some(error),
            Self::Write(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Unsupported> for ConvertError {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error)
    }
}

impl From<WriteError> for ConvertError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}
