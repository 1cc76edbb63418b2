//! Errors of these tools.

use std::fmt;
use std::io;
use std::path::PathBuf;

use scrim_bench::web::WebError;

/// Reason why a tool stopped. Its text says what was tried, where, and what to do if that is not obvious.
#[derive(Debug)]
pub(crate) enum Error {
    /// A system call failed.
    Io { doing: String, source: io::Error },
    /// A program failed, or its output is not understood.
    Program { program: String, said: String },
    /// Too little space for the images.
    Room {
        place: PathBuf,
        needed: u64,
        free: u64,
    },
    /// A program that the comparison needs is missing.
    Missing {
        program: &'static str,
        package: &'static str,
    },
    /// The guest did not start or did not answer.
    Guest(scrim_guest::Error),
    /// A web server cannot be measured.
    Web(WebError),
    /// A signal asked the tool to stop.
    Interrupted,
}

impl Error {
    pub(crate) fn program(program: impl Into<String>, said: impl Into<String>) -> Self {
        Self::Program {
            program: program.into(),
            said: said.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, source } => write!(out, "cannot {doing}: {source}"),
            Self::Program { program, said } => write!(out, "{program}: {said}"),
            Self::Room {
                place,
                needed,
                free,
            } => write!(
                out,
                "{} has {} MB free and the images need {} MB; pass a smaller --size-mib, or set \
                 TMPDIR to a larger tmpfs",
                place.display(),
                free / 1_000_000,
                needed.div_ceil(1_000_000)
            ),
            Self::Missing { program, package } => write!(
                out,
                "{program} is not installed and nothing can be measured without it; install the \
                 package {package}"
            ),
            Self::Guest(error) => error.fmt(out),
            Self::Web(error) => error.fmt(out),
            Self::Interrupted => write!(out, "interrupted; servers and images are cleared away"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Guest(error) => error.source(),
            Self::Web(error) => error.source(),
            _ => None,
        }
    }
}

impl From<scrim_guest::Error> for Error {
    fn from(error: scrim_guest::Error) -> Self {
        Self::Guest(error)
    }
}

impl From<WebError> for Error {
    fn from(error: WebError) -> Self {
        Self::Web(error)
    }
}

/// Names what was being done when the system refused.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| Error::Io {
            doing: what(),
            source: error.into(),
        })
    }
}
