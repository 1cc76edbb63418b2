//! Errors of a measurement of data paths.

use std::error::Error;
use std::fmt;
use std::io;

use scrim_backend::BackendError;
use scrim_crypt::CipherError;
use scrim_volume::{OpenError, TableError};

/// Reasons for which a part was not measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum PathsError {
    /// A table of ours was not understood.
    Table(TableError),
    /// A volume did not start.
    Open(OpenError),
    /// The cipher cannot be set up.
    Cipher(CipherError),
    /// A served volume or a block device cannot be reached.
    Connect(BackendError),
    Request(Box<dyn Error + Send + Sync>),
    /// Something that is needed beside the volumes failed.
    System {
        /// In words, to follow "cannot".
        doing: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The program did not serve a volume.
    Server {
        /// Words of the program.
        said: String,
    },
    /// There is no block device to measure on.
    NoDevice,
    /// The storage is shorter than what is asked for at a time.
    Short {
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that are needed.
        needed: u64,
    },
}

impl PathsError {
    pub(super) fn request(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Request(Box::new(error))
    }

    pub(super) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |error| Self::System { doing, error }
    }
}

impl fmt::Display for PathsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Cipher(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
            Self::Request(error) => write!(f, "a request of the measurement failed: {error}"),
            Self::System { doing, error } => write!(f, "cannot {doing}: {error}"),
            Self::Server { said } => write!(
                f,
                "a volume to measure was not served: {said}; `--only in-process` measures without"
            ),
            Self::NoDevice => f.write_str("there is no block device to measure dm-crypt on"),
            Self::Short { bytes, needed } => write!(
                f,
                "{bytes} bytes are too few to measure on: give at least {needed}"
            ),
        }
    }
}

impl Error for PathsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Table(error) => Some(error),
            Self::Open(error) => Some(error),
            Self::Cipher(error) => Some(error),
            Self::Connect(error) => Some(error),
            Self::Request(error) => Some(&**error),
            Self::System { error, .. } => Some(error),
            Self::Server { .. } | Self::NoDevice | Self::Short { .. } => None,
        }
    }
}

impl From<TableError> for PathsError {
    fn from(error: TableError) -> Self {
        Self::Table(error)
    }
}

impl From<OpenError> for PathsError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<CipherError> for PathsError {
    fn from(error: CipherError) -> Self {
        Self::Cipher(error)
    }
}
