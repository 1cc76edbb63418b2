//! Why a stream cannot go on.

use std::error::Error;
use std::fmt;

use super::{Aead, PIECE_MAX, TAG};

/// Why a key was not set up, or a piece not sealed or opened.
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
    /// More content than [`PIECE_MAX`].
    TooLong {
        /// Length of the content in bytes, without the tag.
        bytes: usize,
    },
    /// The piece is shorter than a tag.
    TooShort {
        /// Length of the piece in bytes.
        bytes: usize,
    },
    /// The tag is not that of these bytes, under this key, with this number and additional data.
    Forged {
        /// The number that was expected.
        number: u64,
    },
    /// This key has sealed as many pieces as it may.
    KeyExhausted {
        /// The limit: a number of pieces.
        pieces: u64,
    },
    /// With this key, as many pieces failed to open as may.
    TooManyForgeries {
        /// The limit: a number of pieces that failed to open.
        forgeries: u64,
    },
    /// The library refused a call with valid parameters.
    Library {
        /// The AEAD that it was to compute.
        aead: Aead,
    },
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeySize { aead, bytes } => {
                let size = aead.key_size();
                write!(f, "{aead} takes a key of {size} bytes, not of {bytes}")
            }
            Self::TooLong { bytes } => write!(
                f,
                "a piece of {bytes} bytes, and {PIECE_MAX} is the most; cut the stream smaller"
            ),
            Self::TooShort { bytes } => write!(
                f,
                "a sealed piece of {bytes} bytes, and its tag alone has {TAG}; the stream was cut \
                 off or is no such stream"
            ),
            Self::Forged { number } => write!(
                f,
                "piece {number} was not sealed with this key and this number, or changed on the \
                 way; end the stream"
            ),
            Self::KeyExhausted { pieces } => write!(
                f,
                "this key has sealed {pieces} pieces, as many as are safe; go on with a new key"
            ),
            Self::TooManyForgeries { forgeries } => write!(
                f,
                "{forgeries} pieces failed to open with this key, as many as are safe; go on with \
                 a new key"
            ),
            Self::Library { aead } => write!(
                f,
                "the cryptographic library refused {aead}; there may be no memory left"
            ),
        }
    }
}

impl Error for StreamError {}
