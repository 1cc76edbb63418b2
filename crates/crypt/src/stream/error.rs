//! Reasons for which a record is not sealed or opened.

use std::error::Error;
use std::fmt;

use super::aead::{Aead, CONTENT_MAX, MESSAGE_MAX};

/// Reason for which a key was not set up, or a record not sealed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// The key has a length that the AEAD does not take.
    KeySize {
        /// The AEAD that was to use the key.
        aead: Aead,
        /// Length of the key given, in bytes.
        bytes: usize,
    },
    /// The driver that was named does not exist, does not compute this AEAD, or cannot be used here.
    DriverNotReady {
        /// The AEAD that was to use it.
        aead: Aead,
    },
    /// No driver was named, and `SCRIM_DISABLE` names all code for this AEAD.
    NoCode {
        /// The AEAD that was to be computed.
        aead: Aead,
    },
    /// More content than [`CONTENT_MAX`].
    TooLong {
        /// Length of the content in bytes, without the tag.
        bytes: usize,
    },
    /// A message of more than [`MESSAGE_MAX`].
    MessageTooLong {
        /// Length of the message in bytes, without the tag.
        bytes: u64,
    },
    /// The tag is not that of these bytes, under this key, with this number and additional data.
    Forged {
        /// The number that was expected.
        number: u64,
    },
    /// This key has sealed as many records or messages as it may.
    KeyExhausted {
        /// Their count: the limit, or fewer where the bytes of messages came to theirs.
        records: u64,
    },
    /// The library refused a call with valid parameters.
    Library,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeySize { aead, bytes } => {
                let size = aead.key_size();
                write!(f, "{aead} takes a key of {size} bytes, not of {bytes}")
            }
            Self::DriverNotReady { aead } => write!(
                f,
                "no driver of this name computes {aead} here; name another, or look at SCRIM_DISABLE"
            ),
            Self::NoCode { aead } => write!(
                f,
                "SCRIM_DISABLE names all code for {aead}; take `awslc` or `portable` out of it"
            ),
            Self::TooLong { bytes } => write!(
                f,
                "a record of {bytes} bytes, and {CONTENT_MAX} is the most; send shorter records"
            ),
            Self::MessageTooLong { bytes } => write!(
                f,
                "a message of {bytes} bytes, and {MESSAGE_MAX} is the most; send several"
            ),
            Self::Forged { number } => write!(
                f,
                "record {number} was not sealed with this key and this number, or changed on the \
                 way; end the stream"
            ),
            Self::KeyExhausted { records } => write!(
                f,
                "this key has sealed {records} records, as many as are safe; go on with a new key"
            ),
            Self::Library => {
                f.write_str("the cryptographic library refused; there may be no memory left")
            }
        }
    }
}

impl Error for StreamError {}
