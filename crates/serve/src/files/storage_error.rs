//! Faults of the storage that files are on.

use std::path::PathBuf;
use std::{fmt, io};

/// Storage that cannot be read.
#[derive(Debug)]
pub(crate) enum StorageError {
    /// The metadata of a folder cannot be read.
    Folder { path: PathBuf, source: io::Error },
    /// A folder was removed.
    Removed { path: PathBuf },
    /// The file system in a volume cannot be read.
    Volume {
        /// Name of the volume.
        name: String,
        source: scrim_files::Error,
    },
}

impl fmt::Display for StorageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder { path, .. } => {
                write!(out, "{}: the folder cannot be read", path.display())
            }
            Self::Removed { path } => write!(out, "{}: the folder was removed", path.display()),
            Self::Volume { name, .. } => write!(out, "{name}: the volume cannot be read"),
        }
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Folder { source, .. } => Some(source),
            Self::Removed { .. } => None,
            Self::Volume { source, .. } => Some(source),
        }
    }
}
