//! Errors of writing a header.

use std::error::Error;
use std::fmt;

use super::json::JsonFault;
use crate::random::RandomError;

/// Why a header cannot be written.
#[derive(Debug)]
pub enum WriteError {
    /// The metadata does not fit in the JSON area.
    JsonTooLarge {
        /// Bytes of the metadata.
        len: usize,
        /// Most bytes that fit, without the NUL.
        capacity: usize,
    },
    /// The new header would not be accepted when it is read again.
    Refused(JsonFault),
    /// A text does not fit in its field, or holds a NUL.
    Text {
        field: &'static str,
        /// Most bytes that fit, without the NUL.
        capacity: usize,
    },
    /// The sequence number has reached its end.
    Sequence,
    /// No random bytes for a salt.
    Random(RandomError),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JsonTooLarge { len, capacity } => write!(
                f,
                "the header's metadata takes {len} bytes, and {capacity} fit: remove tokens or key \
                 slots first"
            ),
            Self::Refused(fault) => write!(
                f,
                "the new header would not be accepted again ({fault}): choose other settings"
            ),
            Self::Text { field, capacity } => write!(
                f,
                "the {field} may have at most {capacity} bytes and no NUL: choose a shorter one"
            ),
            Self::Sequence => f.write_str(
                "the header's sequence number has reached its end: make a new volume and copy \
                 the data",
            ),
            Self::Random(error) => error.fmt(f),
        }
    }
}

impl Error for WriteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(fault) => Some(fault),
            Self::Random(error) => Some(error),
            _ => None,
        }
    }
}

impl From<RandomError> for WriteError {
    fn from(error: RandomError) -> Self {
        Self::Random(error)
    }
}
