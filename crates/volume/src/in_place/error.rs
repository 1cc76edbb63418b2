//! Why data cannot be encrypted where it lies.

use std::error::Error;
use std::fmt;

use scrim_backend::BackendError;
use scrim_luks::{FormatError, Underway, Unsupported, WriteError};

use crate::error::VolumeError;
use crate::luks_device::LuksError;
use crate::mapping::OpenError;

/// Why data cannot be encrypted where it lies, or not further.
#[derive(Debug)]
pub enum InPlaceError {
    /// No encryption in place has begun here.
    NotUnderway,
    /// The header's note of it cannot be true.
    Note(Underway),
    /// There is no header for this data.
    Format(FormatError),
    /// The header cannot be read or written.
    Luks(LuksError),
    /// Header and device make no volume.
    Open(OpenError),
    /// The volume refused to read or to write.
    Volume(VolumeError),
}

impl fmt::Display for InPlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUnderway => f.write_str(
                "no encryption in place has begun here: begin one with scrim encrypt --in-place",
            ),
            Self::Note(Underway {
                length,
                saved,
                position,
            }) => write!(
                f,
                "the header's note of how far the encryption is cannot be true (length {length}, \
                 saved {saved}, position {position}): restore a backup of the header"
            ),
            Self::Format(error) => error.fmt(f),
            Self::Luks(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Volume(error) => error.fmt(f),
        }
    }
}

impl Error for InPlaceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotUnderway | Self::Note(_) => None,
            Self::Format(error) => Some(error),
            Self::Luks(error) => Some(error),
            Self::Open(error) => Some(error),
            Self::Volume(error) => Some(error),
        }
    }
}

impl From<FormatError> for InPlaceError {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl From<LuksError> for InPlaceError {
    fn from(error: LuksError) -> Self {
        Self::Luks(error)
    }
}

impl From<BackendError> for InPlaceError {
    fn from(error: BackendError) -> Self {
        Self::Luks(error.into())
    }
}

impl From<WriteError> for InPlaceError {
    fn from(error: WriteError) -> Self {
        Self::Luks(error.into())
    }
}

impl From<Unsupported> for InPlaceError {
    fn from(error: Unsupported) -> Self {
        Self::Luks(error.into())
    }
}

impl From<OpenError> for InPlaceError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<VolumeError> for InPlaceError {
    fn from(error: VolumeError) -> Self {
        Self::Volume(error)
    }
}
