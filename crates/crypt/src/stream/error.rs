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
    /// No implementation of AES in counter mode can be used in this process.
    NoDriver,
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
            Self::NoDriver => f.write_str(
                "no driver for ctr(aes) can be used in this process; look at SCRIM_DISABLE and at \
                 the self-tests of the drivers",
            ),
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

/// Why a message was not opened, or not to its end. `E` is the error of what reads and takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError<E> {
    /// A length that no message under one nonce has. Nothing was read.
    TooLong {
        /// The length, in bytes.
        bytes: u64,
        /// The most, in bytes.
        most: u64,
    },
    /// There is no memory for a part of the message.
    NoMemory {
        /// Length of the part, in bytes.
        bytes: usize,
    },
    /// The tag is not that of the message. Nothing of it was let out.
    Forged,
    /// With this key, as many messages failed to open as may. Nothing was read.
    TooManyForgeries {
        /// The limit: a number of messages that failed to open.
        forgeries: u64,
    },
    /// The bytes read to be decrypted are not those that were verified. The plaintext let out before is right.
    Changed {
        /// Number of bytes let out before.
        emitted: u64,
    },
    /// Reading the message, or taking its plaintext, failed.
    Caller(E),
}

impl<E> fmt::Display for MessageError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, most } => {
                write!(f, "a message of {bytes} bytes, and {most} is the most")
            }
            Self::NoMemory { bytes } => write!(
                f,
                "no memory for {bytes} bytes of the message; free some and try again"
            ),
            Self::Forged => f.write_str(
                "the message was not sealed with this key and nonce, or changed since; nothing of \
                 it was decrypted",
            ),
            Self::TooManyForgeries { forgeries } => write!(
                f,
                "{forgeries} messages failed to open with this key, as many as are safe; go on \
                 with a new key"
            ),
            Self::Changed { emitted } => write!(
                f,
                "the message changed while it was read, after byte {emitted}; only what comes \
                 before was decrypted"
            ),
            Self::Caller(_) => f.write_str("the message could not be read or passed on"),
        }
    }
}

impl<E: Error + 'static> Error for MessageError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Caller(error) => Some(error),
            _ => None,
        }
    }
}
