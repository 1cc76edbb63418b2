//! Errors of a comparison.

use std::error::Error;
use std::fmt;
use std::io;

/// Reasons for which a measurement failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileserverError {
    /// An operation of the system failed.
    System {
        /// In words, to follow "cannot".
        doing: String,
        /// Error of the system.
        error: io::Error,
    },
    /// A program that the measurement needs failed.
    Program {
        /// Name of the program, with what it was to do.
        program: String,
        /// Last words of the program.
        said: String,
    },
    /// The storage is too small.
    Space {
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A file of another run is in the way, or a file that this command did not create.
    Occupied {
        /// Problem, and what to do next.
        said: String,
    },
    /// The state file cannot be used.
    State {
        /// Problem, and what to do next.
        said: String,
    },
    /// The file system returned other data than was written to it.
    WrongData {
        /// Offset in the file, in bytes.
        offset: u64,
    },
    /// The user ended the measurement.
    Interrupted,
}

impl FileserverError {
    pub(super) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |error| Self::System { doing, error }
    }
}

impl fmt::Display for FileserverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { doing, error } => write!(f, "cannot {doing}: {error}"),
            Self::Program { program, said } => write!(f, "{program} failed: {said}"),
            Self::Space { needed, free } => write!(
                f,
                "the measurement needs {} MiB, and {} MiB are free; choose a smaller --size, or free some space",
                needed.div_ceil(1 << 20),
                free >> 20
            ),
            Self::Occupied { said } | Self::State { said } => f.write_str(said),
            Self::WrongData { offset } => write!(
                f,
                "the file system returned other data than was written at offset {offset} of the file; check the disk \
                 and its cables before you trust it with files"
            ),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl Error for FileserverError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}
