//! Errors of a measurement of ciphers.

use std::error::Error;
use std::fmt;

use scrim_crypt::CipherError;
use scrim_crypt::stream::StreamError;

/// Reasons for which nothing was measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum MeasureError {
    /// A cipher cannot be set up.
    Cipher(CipherError),
    /// Records cannot be sealed or opened.
    Records(StreamError),
    /// There is not enough memory for the buffers.
    Memory {
        /// Bytes that were needed.
        bytes: usize,
    },
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cipher(error) => error.fmt(f),
            Self::Records(error) => error.fmt(f),
            Self::Memory { bytes } => write!(
                f,
                "there are no {} MiB of memory for the buffers; choose a smaller --memory",
                bytes.div_ceil(1 << 20)
            ),
        }
    }
}

impl Error for MeasureError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Cipher(error) => Some(error),
            Self::Records(error) => Some(error),
            Self::Memory { .. } => None,
        }
    }
}

impl From<StreamError> for MeasureError {
    fn from(error: StreamError) -> Self {
        Self::Records(error)
    }
}

impl From<CipherError> for MeasureError {
    fn from(error: CipherError) -> Self {
        Self::Cipher(error)
    }
}
