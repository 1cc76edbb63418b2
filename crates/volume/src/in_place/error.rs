//! Why data cannot be encrypted where it lies.

use std::error::Error;
use std::fmt;

use scrim_backend::BackendError;
use scrim_luks::{Underway, Unsupported, WriteError};

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
    /// The start of the data was half overwritten by a header, and then written to by somebody else.
    Used {
        /// Where the start is saved, in bytes.
        saved: u64,
        /// How much of it, in bytes.
        len: u64,
        /// Where the record of this lies, in bytes.
        record: u64,
    },
    /// The file was used since an encryption that came to nothing made it longer.
    Grown {
        /// How long it was, in bytes.
        original: u64,
        /// Where the record of this lies, in bytes.
        record: u64,
    },
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
            Self::Used { saved, len, record } => write!(
                f,
                "it was written to after an encryption in place had been cut short in the midst of \
                 writing the header, and nothing is put back over that; nothing was changed. Save a \
                 copy of the image. To put its first {len} bytes back as they were before: `dd \
                 if=IMAGE of=IMAGE conv=notrunc bs=512 count={} skip={}`. To keep what is there now: \
                 `dd if=/dev/zero of=IMAGE conv=notrunc bs=512 count=1 seek={}`",
                len / 512,
                saved / 512,
                record / 512
            ),
            Self::Grown { original, record } => write!(
                f,
                "it was written to after an encryption in place, which changed nothing else, had \
                 made it longer; nothing was changed now. Where its data still ends at byte \
                 {original}: `truncate -s {original} IMAGE`. Where it is in use up to its end: `dd \
                 if=/dev/zero of=IMAGE conv=notrunc bs=512 count=1 seek={}`",
                record / 512
            ),
            Self::Luks(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Volume(error) => error.fmt(f),
        }
    }
}

impl Error for InPlaceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotUnderway | Self::Note(_) | Self::Used { .. } | Self::Grown { .. } => None,
            Self::Luks(error) => Some(error),
            Self::Open(error) => Some(error),
            Self::Volume(error) => Some(error),
        }
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
