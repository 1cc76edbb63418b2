//! Errors of a backend.

use std::fmt;
use std::io;
use std::str::FromStr;

/// Operation of a backend that failed; offsets are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Opening or creating the store.
    Open,
    /// Reading `len` bytes at `offset`.
    Read { offset: u64, len: u64 },
    /// Writing `len` bytes of data or zeros at `offset`.
    Write { offset: u64, len: u64 },
    /// Making earlier writes durable.
    Flush,
    /// Discarding `len` bytes at `offset`.
    Discard { offset: u64, len: u64 },
    /// Locking against a second user.
    Lock,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => write!(f, "open"),
            Self::Read { offset, len } => write!(f, "read {len} bytes at offset {offset} of"),
            Self::Write { offset, len } => write!(f, "write {len} bytes at offset {offset} of"),
            Self::Flush => write!(f, "flush"),
            Self::Discard { offset, len } => write!(f, "discard {len} bytes at offset {offset} of"),
            Self::Lock => write!(f, "lock"),
        }
    }
}

/// A failed operation: what, where, why, and what to do next.
#[derive(Debug)]
pub struct BackendError {
    pub operation: Operation,
    /// The path, or another name of the store.
    pub place: String,
    /// Cause of the failure.
    pub source: io::Error,
    hint: Option<&'static str>,
}

impl BackendError {
    /// Says what failed where; the next step follows from why.
    pub fn new(operation: Operation, place: &str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let hint = hint(operation, &source);
        Self {
            operation,
            place: place.to_owned(),
            source,
            hint,
        }
    }

    pub(crate) fn with_hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Leaves out the next step, where the source has said it.
    pub(crate) fn without_hint(mut self) -> Self {
        self.hint = None;
        self
    }

    /// Returns whether the storage can be had by who only wants to read it.
    #[must_use]
    pub fn forbids_writing(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        )
    }

    /// Returns whether the storage is in use by another program.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let busy = self.source.kind() == io::ErrorKind::ResourceBusy;
        busy || (self.operation == Operation::Lock
            && self.source.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Parses the name of a store, which a user has given.
pub(crate) fn parse_name<T>(name: &str) -> Result<T, BackendError>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    name.parse().map_err(|error| {
        let error = io::Error::new(io::ErrorKind::InvalidInput, error);
        BackendError::new(Operation::Open, name, error)
    })
}

/// The next step, where the reason suggests one.
fn hint(operation: Operation, source: &io::Error) -> Option<&'static str> {
    match (source.kind(), operation) {
        (io::ErrorKind::NotFound, _) => Some("check the path"),
        (io::ErrorKind::PermissionDenied, _) => Some("check its owner and mode"),
        (io::ErrorKind::ReadOnlyFilesystem, _) => Some("it can only be read"),
        (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => {
            Some("free some space where it is stored, then try again")
        }
        (io::ErrorKind::UnexpectedEof, _) => {
            Some("it is shorter than it should be: compare its size with a copy of it")
        }
        (io::ErrorKind::ResourceBusy, _) => Some("close the program that uses it"),
        (_, Operation::Flush) => Some(
            "writes since the last successful flush may be lost: close the volume, check the \
             storage, and check the filesystem before going on",
        ),
        (_, Operation::Read { .. } | Operation::Write { .. }) => {
            Some("check the storage and the kernel's log")
        }
        _ => None,
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operation,
            place,
            source,
            hint,
        } = self;
        write!(f, "cannot {operation} {place}: ")?;
        match source.kind() {
            io::ErrorKind::UnexpectedEof => f.write_str("it ends before that")?,
            io::ErrorKind::WouldBlock => f.write_str("it is in use")?,
            _ => source.fmt(f)?,
        }
        match hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BackendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
