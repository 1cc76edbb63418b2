//! Reasons for which there is no guest, or no answer from it.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Failure to get or run a guest. Each text says what was tried, and what to do where that is not
/// plain.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    Io {
        /// The operation and its object, as in "make /a/folder".
        doing: String,
        /// The error that the system returned.
        source: io::Error,
    },
    /// A program of the host that a guest needs is not there.
    Missing { program: &'static str },
    /// A program of the host failed.
    Program {
        /// Name of the program, with its first words.
        program: String,
        /// Last lines of its output.
        said: String,
    },
    /// Nothing in `/etc/apt` names a Debian archive.
    NoMirror,
    /// The archive no longer has this kernel.
    KernelGone {
        /// The kernel that was asked for.
        wanted: &'static str,
        suite: &'static str,
        /// Version of the kernel that the suite has instead.
        offered: String,
    },
    /// The guest ended by itself: a panic, or QEMU refused its command line.
    Ended {
        /// QEMU's messages, and the end of the guest's console.
        console: String,
    },
    /// The guest did not answer within this time, and was ended.
    Hung {
        /// The task that the guest did not finish.
        doing: &'static str,
        /// Time that the guest had for it.
        limit: Duration,
        /// End of the guest's console.
        console: String,
    },
    /// The caller set the flag that ends the guest.
    Interrupted,
}

impl Error {
    pub(crate) fn program(program: impl Into<String>, said: &[u8]) -> Self {
        let said = String::from_utf8_lossy(said);
        Self::Program {
            program: program.into(),
            said: last_lines(&said, 20),
        }
    }
}

/// Returns at most the last `most` lines of a text.
pub(crate) fn last_lines(text: &str, most: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(most)..].join("\n")
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, source } => write!(out, "cannot {doing}: {source}"),
            Self::Missing { program } => write!(
                out,
                "{program} is missing and a guest needs it; `scripts/setup.sh guest` \
                 installs what is missing, as root or through sudo"
            ),
            Self::Program { program, said } => write!(out, "{program} failed:\n{said}"),
            Self::NoMirror => write!(
                out,
                "no Debian archive is named in /etc/apt, so there is nowhere to fetch a kernel \
                 from; set SCRIM_GUEST_MIRROR to the address of one"
            ),
            Self::KernelGone {
                wanted,
                suite,
                offered,
            } => write!(
                out,
                "{suite} no longer has a kernel {wanted} but {offered}; a newer Scrim may know it"
            ),
            Self::Ended { console } => {
                write!(out, "the guest ended by itself; its console:\n{console}")
            }
            Self::Hung {
                doing,
                limit,
                console,
            } => write!(
                out,
                "the guest did not {doing} within {} s and was ended; its console:\n{console}",
                limit.as_secs()
            ),
            Self::Interrupted => write!(out, "interrupted; the guest is ended"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Names what was being done when the system refused.
pub(crate) trait Doing<T> {
    fn doing(self, what: &str, path: &Path) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: &str, path: &Path) -> Result<T, Error> {
        self.map_err(|error| Error::Io {
            doing: format!("{what} {}", path.display()),
            source: error.into(),
        })
    }
}

/// A folder in `parent` to make something in.
pub(crate) fn temporary(parent: &Path) -> Result<tempfile::TempDir, Error> {
    tempfile::Builder::new()
        .prefix("making-")
        .tempdir_in(parent)
        .doing("make a folder in", parent)
}
