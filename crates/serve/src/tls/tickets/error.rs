//! Errors of files of ticket keys.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A file of ticket keys that cannot be used, or not be written.
#[derive(Debug)]
pub struct TicketKeysError {
    path: PathBuf,
    fault: TicketKeysFault,
}

/// A fault of a file of ticket keys. None has a part of the file, which may be a key.
#[derive(Debug)]
pub enum TicketKeysFault {
    /// The file cannot be read.
    Read(io::Error),
    /// Users other than the owner and the group may read or change it.
    Public,
    /// There is no key in it.
    Empty,
    /// A line cannot be used.
    Line {
        /// Number of the line, from 1.
        number: usize,
        reason: &'static str,
    },
    /// Another process has locked the file, or has put a new one into its place.
    Busy,
    /// With a new key the file would be longer than servers read.
    TooLong,
    /// The new file cannot be written in the place of the old one.
    Write(io::Error),
    /// The system has no random numbers.
    Random,
}

impl TicketKeysError {
    pub(super) fn new(path: &Path, fault: TicketKeysFault) -> Self {
        Self {
            path: path.to_owned(),
            fault,
        }
    }

    #[must_use]
    pub fn fault(&self) -> &TicketKeysFault {
        &self.fault
    }
}

impl fmt::Display for TicketKeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.fault {
            TicketKeysFault::Read(error) => write!(
                f,
                "{path}: the ticket keys cannot be read: {error}; name a file that this user may read"
            ),
            TicketKeysFault::Public => write!(
                f,
                "{path}: every user of this machine can read or change these ticket keys; chmod o-rw {path}, and make \
                 new keys if others may have read them"
            ),
            TicketKeysFault::Empty => write!(
                f,
                "{path}: there is no ticket key in it; make keys by scrim serve --rotate-ticket-keys {path}"
            ),
            TicketKeysFault::Line { number, reason } => {
                write!(f, "{path}, line {number}: {reason}")
            }
            TicketKeysFault::Busy => write!(
                f,
                "{path}: another process has locked this file to change the ticket keys, or has just changed them; look \
                 at the file, and try again if that was not a rotation"
            ),
            TicketKeysFault::TooLong => write!(
                f,
                "{path}: with a new ticket key it would be longer than 64 KiB, and no server would read it; shorten its \
                 comments"
            ),
            TicketKeysFault::Write(error) => write!(
                f,
                "{path}: the new ticket keys cannot be written: {error}; run this as the file's owner, where its \
                 folder may be written to"
            ),
            TicketKeysFault::Random => write!(
                f,
                "{path}: the system has no random numbers for ticket keys; try again later"
            ),
        }
    }
}

impl std::error::Error for TicketKeysError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            TicketKeysFault::Read(error) | TicketKeysFault::Write(error) => Some(error),
            _ => None,
        }
    }
}
