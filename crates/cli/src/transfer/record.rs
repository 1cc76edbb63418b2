//! Record of a transfer: its kind, its source and its position.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::storage::{file_of, is_remote};

/// Version of the record's format.
const VERSION: u32 = 1;

/// Direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Plaintext into a new volume.
    Import,
    /// A volume's plaintext into a file.
    Export,
    /// A folder into a new volume. It is begun again after an interruption.
    Pack,
}

impl Kind {
    /// Name of the command that runs the transfer.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Export => "export",
            Self::Pack => "pack",
        }
    }

    /// Name of the work, for a line of progress.
    pub(crate) fn activity(self) -> &'static str {
        match self {
            Self::Import => "encrypting",
            Self::Export => "decrypting",
            Self::Pack => "packing",
        }
    }
}

/// Size and time by which a source that has changed is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// Size in bytes; 0 for a block device and an export.
    size: u64,
    /// When it was written last, in seconds and nanoseconds; 0 for a block device and an
    /// export, which do not tell.
    modified: (i64, i64),
}

impl Stamp {
    /// Of a part, the whole file's. For a block device and an export it tells nothing.
    pub(crate) fn of(path: &Path) -> Result<Self, CliError> {
        let untold = Self {
            size: 0,
            modified: (0, 0),
        };
        if is_remote(path) {
            return Ok(untold);
        }
        let found = fs::metadata(file_of(path)?)
            .map_err(|error| CliError::io(format_args!("look at {}", path.display()), &error))?;
        Ok(if found.file_type().is_block_device() {
            untold
        } else {
            Self {
                size: found.len(),
                modified: (found.mtime(), found.mtime_nsec()),
            }
        })
    }
}

/// State of a transfer, from which a later run goes on.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    version: u32,
    pub(crate) kind: Kind,
    pub(crate) source: Stamp,
    /// UUID of the volume.
    pub(crate) uuid: String,
    /// Bytes of plaintext that are on the disk at their places.
    pub(crate) position: u64,
    /// True if nothing is left to do but to give the target its name.
    pub(super) whole: bool,
}

impl Record {
    pub(crate) fn new(kind: Kind, source: Stamp, uuid: &str) -> Self {
        Self {
            version: VERSION,
            kind,
            source,
            uuid: uuid.to_owned(),
            position: 0,
            whole: false,
        }
    }

    /// Returns whether this version of Scrim understands it.
    pub(super) fn is_current(&self) -> bool {
        self.version == VERSION
    }
}
