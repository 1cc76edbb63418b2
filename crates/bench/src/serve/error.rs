//! Errors of a measurement of servers.

use std::error::Error;
use std::fmt;
use std::io;

use crate::web::WebError;

/// Reasons for which nothing was measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// A server was not reached, or not understood.
    Web(WebError),
    /// Something that is needed beside the server failed.
    System {
        /// In words, to follow "cannot".
        doing: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The program did not serve.
    Server {
        /// Words of the program.
        said: String,
    },
    /// A program that is needed is not there.
    Missing {
        /// Name of the program.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// There is too little memory for the file.
    Room {
        /// Bytes of the file.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The file is empty.
    Empty,
    /// The file has changed while it was measured.
    Changed {
        /// Length of the file at first, in bytes.
        before: u64,
        /// Length of the file later, in bytes.
        after: u64,
    },
}

impl ServeError {
    pub(super) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |error| Self::System { doing, error }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web(error) => error.fmt(f),
            Self::System { doing, error } => write!(f, "cannot {doing}: {error}"),
            Self::Server { said } => write!(
                f,
                "the server to measure did not serve: {said}; `--url` measures one that runs already"
            ),
            Self::Missing { program, package } => write!(
                f,
                "a file system for the volume is made by {program}, which is not there; install it (Debian \
                 package {package}), or compare without a volume"
            ),
            Self::Room { wanted, free } => write!(
                f,
                "a file of {wanted} bytes does not fit into memory, of which {free} bytes are free; give a \
                 smaller --size, or a FILE"
            ),
            Self::Empty => {
                f.write_str("the file is empty; give one that takes a while, such as 1 GB")
            }
            Self::Changed { before, after } => write!(
                f,
                "the file had {before} bytes and then {after}; measure one that does not change"
            ),
        }
    }
}

impl Error for ServeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Web(error) => Some(error),
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<WebError> for ServeError {
    fn from(error: WebError) -> Self {
        Self::Web(error)
    }
}
