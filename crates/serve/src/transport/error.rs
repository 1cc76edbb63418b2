//! Errors that end a connection.

use std::{fmt, io};

use crate::tls::TlsError;

/// Error that ends a connection. If it truncated an answer, the connection is reset and not closed, so that the client
/// does not take the part for the whole.
#[derive(Debug)]
pub(crate) enum TransportError {
    /// The socket failed: the client or the network is gone.
    Client(io::Error),
    /// The client accepted no data within the time limit.
    Stalled,
    /// A file could not be read while it was sent.
    File(io::Error),
    /// A file was changed or truncated while it was sent.
    Changed,
    /// A file that is one of several in an answer could not be sent.
    Part {
        name: String,
        error: Box<TransportError>,
    },
    /// TLS failed, by an error of the client or since a key is used up.
    Tls(TlsError),
}

impl TransportError {
    /// Returns whether the fault is in a file, and not in the connection.
    pub(crate) fn is_of_file(&self) -> bool {
        matches!(self, Self::File(_) | Self::Changed | Self::Part { .. })
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => write!(f, "the connection to the client failed: {error}"),
            Self::Stalled => f.write_str("the client accepted no data within the time limit"),
            Self::File(error) => write!(f, "the file could not be read, so its answer is incomplete or missing: {error}"),
            Self::Changed => f.write_str("the file changed while it was sent, so its answer is incomplete; clients can ask again"),
            Self::Part { name, error } => write!(f, "{name}: {error}"),
            Self::Tls(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TransportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) | Self::File(error) => Some(error),
            Self::Part { error, .. } => Some(error),
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
