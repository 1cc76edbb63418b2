//! Reasons for which a connection ended in the middle of something.

use std::{fmt, io};

use crate::tls::TlsError;

/// Cause that cut an answer short. The code that sees it ends the connection without the farewell that would let a part
/// pass for the whole.
#[derive(Debug)]
pub(crate) enum TransportError {
    /// The client has gone, or its network has.
    Client(io::Error),
    /// The client took nothing for as long as is allowed.
    Stalled,
    /// A file could not be read.
    File(io::Error),
    /// A file was changed or cut while it was being sent.
    Changed,
    /// TLS does not go on.
    Tls(TlsError),
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => write!(f, "the connection broke: {error}"),
            Self::Stalled => f.write_str("the client took nothing for too long"),
            Self::File(error) => write!(f, "the file could not be read: {error}"),
            Self::Changed => f.write_str("the file was changed while it was sent"),
            Self::Tls(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TransportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) | Self::File(error) => Some(error),
            Self::Tls(error) => Some(error),
            Self::Stalled | Self::Changed => None,
        }
    }
}

impl From<TlsError> for TransportError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}
