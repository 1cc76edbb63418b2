//! Errors of commands: their messages and exit codes.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use scrim_backend::BackendError;
use scrim_luks::kdf::KdfError;
use scrim_luks::{BackupError, ConvertError, EditError, KeyslotError, RestoreError, UnlockError};
use scrim_serve::site::SiteError;
use scrim_volume::{InPlaceError, LoadError, LuksError, OpenError, TableError, VolumeError};

/// The exit codes of `cryptsetup(8)`, and one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Code 1: wrong parameters.
    Usage = 1,
    /// Code 2: no permission: wrong passphrase or key.
    NoKey = 2,
    /// Code 3: out of memory.
    OutOfMemory = 3,
    /// Code 4: wrong device or file.
    WrongDevice = 4,
    /// Code 5: exists already, or is in use.
    Busy = 5,
    /// Code 130, as a shell shows SIGINT: Ctrl-C at a prompt that takes it as a key.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A command that failed: what happened, where, what to do next, and the exit code.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    message: String,
    /// Storage that another program has open, which is the cause.
    pub(crate) in_use: Option<PathBuf>,
}

impl CliError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            in_use: None,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// An I/O error, with the operation that failed.
    pub(crate) fn io(doing: impl fmt::Display, error: &io::Error) -> Self {
        let exit = match error.kind() {
            io::ErrorKind::OutOfMemory => Exit::OutOfMemory,
            io::ErrorKind::AlreadyExists | io::ErrorKind::AddrInUse => Exit::Busy,
            _ => Exit::WrongDevice,
        };
        Self::new(exit, format!("cannot {doing}: {error}"))
    }

    /// Adds advice on what to do to an error.
    pub(crate) fn followed_by(self, hint: &str) -> Self {
        Self {
            message: self.message + hint,
            ..self
        }
    }

    /// Puts the place that an error is about before its message.
    pub(crate) fn within(self, place: impl fmt::Display) -> Self {
        Self {
            message: format!("{place}: {}", self.message),
            ..self
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<SiteError> for CliError {
    fn from(error: SiteError) -> Self {
        let reason = error
            .source()
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        let exit = match error {
            SiteError::Root { .. }
            | SiteError::RootRefused { .. }
            | SiteError::VolumeRoot { .. }
            | SiteError::NoOpenat2 { .. }
            | SiteError::Page { .. } => Exit::WrongDevice,
            _ => Exit::Usage,
        };
        Self::new(exit, format!("{error}{reason}"))
    }
}

impl From<scrim_files::Error> for CliError {
    fn from(error: scrim_files::Error) -> Self {
        Self::new(Exit::WrongDevice, error.to_string())
    }
}

impl From<BackendError> for CliError {
    fn from(error: BackendError) -> Self {
        let exit = if error.is_busy() || error.source.kind() == io::ErrorKind::AlreadyExists {
            Exit::Busy
        } else {
            Exit::WrongDevice
        };
        Self {
            in_use: error.is_busy().then(|| PathBuf::from(&error.place)),
            ..Self::new(exit, error.to_string())
        }
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Backend(error) => error.into(),
            OpenError::Cipher(_) => Self::usage(error.to_string()),
            OpenError::DeviceTooSmall { .. } | OpenError::Blocks { .. } | OpenError::Queues(_) => {
                Self::new(Exit::WrongDevice, error.to_string())
            }
        }
    }
}

impl From<LoadError> for CliError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Open(error) => error.into(),
            LoadError::Meaning(_) | LoadError::MaskedKey { .. } => Self::usage(error.to_string()),
            LoadError::KeyForgotten => Self::new(Exit::Busy, error.to_string()),
        }
    }
}

impl From<LuksError> for CliError {
    fn from(error: LuksError) -> Self {
        match error {
            LuksError::Backend(error) => error.into(),
            // As in cryptsetup, a device that is not a LUKS device is a wrong parameter.
            LuksError::Header(_) => Self::usage(error.to_string()),
            LuksError::NoKey { .. } | LuksError::Unlock(UnlockError::WrongVolumeKey) => {
                Self::new(Exit::NoKey, error.to_string())
            }
            LuksError::Changed => Self::new(Exit::Busy, error.to_string()),
            LuksError::Unlock(UnlockError::UnusedKeyslot { .. } | UnlockError::NoKeyslot) => {
                Self::usage(error.to_string())
            }
            LuksError::Unlock(UnlockError::Kdf {
                source: KdfError::Memory { .. } | KdfError::MemoryRefused { .. },
                ..
            }) => Self::new(Exit::OutOfMemory, error.to_string()),
            LuksError::Unlock(error @ (UnlockError::Kdf { .. } | UnlockError::Digest(_))) => {
                of_derivation(&error)
            }
            error => Self::new(Exit::WrongDevice, error.to_string()),
        }
    }
}

/// A key derivation that was refused or ended, and the option that allows it.
fn of_derivation(error: &UnlockError) -> CliError {
    let (UnlockError::Kdf { source, .. } | UnlockError::Digest(source)) = error else {
        return CliError::new(Exit::WrongDevice, error.to_string());
    };
    match source {
        KdfError::OverLimit { need_kib, .. } => CliError::new(
            Exit::OutOfMemory,
            format!(
                "{error}: allow it with --pbkdf-memory-limit {need_kib} of scrim open and its like"
            ),
        ),
        KdfError::TimeLimit { .. } => CliError::new(
            Exit::WrongDevice,
            format!("{error}: allow more with --pbkdf-time-limit of scrim open and its like"),
        ),
        _ => CliError::new(Exit::WrongDevice, error.to_string()),
    }
}

impl From<VolumeError> for CliError {
    fn from(error: VolumeError) -> Self {
        match error {
            VolumeError::Backend(error) => error.into(),
            error => Self::new(Exit::WrongDevice, error.to_string()),
        }
    }
}

impl From<InPlaceError> for CliError {
    fn from(error: InPlaceError) -> Self {
        match error {
            InPlaceError::Luks(error) => error.into(),
            InPlaceError::Open(error) => error.into(),
            _ => Self::new(Exit::WrongDevice, error.to_string()),
        }
    }
}

impl From<KeyslotError> for CliError {
    fn from(error: KeyslotError) -> Self {
        match error {
            KeyslotError::Key(error) => LuksError::Unlock(error).into(),
            error if memory_refused(&error) => Self::new(Exit::OutOfMemory, error.to_string()),
            error => Self::usage(error.to_string()),
        }
    }
}

/// Returns whether an error was caused by too little memory for the key derivation.
pub(crate) fn memory_refused(error: &(dyn Error + 'static)) -> bool {
    let refused = matches!(
        error.downcast_ref(),
        Some(KdfError::Memory { .. } | KdfError::MemoryRefused { .. })
    );
    refused || error.source().is_some_and(memory_refused)
}

impl From<EditError> for CliError {
    fn from(error: EditError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<ConvertError> for CliError {
    fn from(error: ConvertError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<BackupError> for CliError {
    fn from(error: BackupError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<RestoreError> for CliError {
    fn from(error: RestoreError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<KdfError> for CliError {
    fn from(error: KdfError) -> Self {
        let exit = match error {
            KdfError::Memory { .. } | KdfError::MemoryRefused { .. } => Exit::OutOfMemory,
            _ => Exit::Usage,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<TableError> for CliError {
    fn from(error: TableError) -> Self {
        Self::usage(error.to_string())
    }
}
