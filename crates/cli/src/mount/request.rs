//! Requests to mount a volume, and the state of a mount, as the control socket sends them.

use std::fmt;
use std::path::{Path, PathBuf};

use scrim_export::Traffic;
use scrim_export::fuse::{DirectoryFault, MountError, OtherMount};
use scrim_foreign::Foreign;
use serde::{Deserialize, Serialize};

use crate::args::{MountArgs, MountMethod};
use crate::error::{CliError, Exit};

/// A mount that is wanted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MountRequest {
    /// Absolute path of an existing directory.
    pub(crate) directory: PathBuf,
    /// True if the plaintext is to be shown as one file.
    pub(crate) raw: bool,
    pub(crate) method: MountMethod,
    pub(crate) read_only: bool,
    pub(crate) allow_other: bool,
    /// True if plaintext that Scrim itself shows may stay in the page cache.
    pub(crate) page_cache: bool,
    /// True if a hole in the one file discards its range, which then reads as noise.
    pub(crate) discard_holes: bool,
}

impl MountRequest {
    /// Checks the directory, before any passphrase is asked for.
    pub(crate) fn by(args: &MountArgs) -> Result<Self, CliError> {
        Ok(Self {
            directory: suitable(&args.directory)?,
            raw: args.raw,
            method: args.method,
            read_only: args.unlock.readonly,
            allow_other: args.allow_other,
            page_cache: args.page_cache,
            discard_holes: args.discard_holes,
        })
    }
}

/// Mounts that are to be taken down.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct UmountRequest {
    /// The directory; `None` for all mounts of the volume.
    pub(crate) directory: Option<PathBuf>,
    /// True if files in use do not matter.
    pub(crate) force: bool,
}

/// A mount, as `mount` reports it and `status` and `list` show it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MountStatus {
    pub(crate) directory: PathBuf,
    /// Contents of the mount: `raw`, or the kind of file system, such as `ext4`.
    pub(crate) file_system: String,
    /// Name of the program that serves the files, or `kernel`, or `scrim`.
    pub(crate) by: String,
    /// Reason for this method, as a clause.
    pub(crate) reason: String,
    pub(crate) read_only: bool,
    /// True if plaintext of the one file stays in the page cache.
    #[serde(default)]
    pub(crate) page_cache: bool,
    /// Requests for the plaintext that it has served, in `status`.
    #[serde(default)]
    pub(crate) served: Served,
    /// Requests that the storage has failed, in `status`.
    #[serde(default)]
    pub(crate) failed: u64,
    /// The latest failures, oldest first, in `status`.
    #[serde(default)]
    pub(crate) errors: Vec<String>,
}

/// Counters since a volume was opened or mounted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Served {
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) flushes: u64,
}

impl Served {
    pub(crate) fn of(traffic: &Traffic) -> Self {
        Self {
            reads: traffic.read.requests,
            read_bytes: traffic.read.bytes,
            writes: traffic.write.requests,
            written_bytes: traffic.write.bytes,
            flushes: traffic.flush.requests,
        }
    }
}

impl fmt::Display for MountStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            directory,
            file_system,
            by,
            reason,
            read_only,
            ..
        } = self;
        let directory = Foreign::new(directory.as_os_str().as_encoded_bytes());
        let mode = if *read_only { ", read-only" } else { "" };
        write!(f, "{directory}: {file_system} by {by}{mode} ({reason})")
    }
}

/// The canonical path of a directory that a mount suits. The process that mounts has another working directory.
fn suitable(path: &Path) -> Result<PathBuf, CliError> {
    let fail = |error| CliError::io(format_args!("look at {}", path.display()), &error);
    OtherMount::check(path)?;
    let directory = path.canonicalize().map_err(fail)?;
    match directory.to_str() {
        Some(_) => Ok(directory),
        None => Err(CliError::usage(format!(
            "{}: the name of the directory is not UTF-8; choose another directory",
            path.display()
        ))),
    }
}

impl From<MountError> for CliError {
    fn from(error: MountError) -> Self {
        let exit = match &error {
            MountError::Directory {
                fault: DirectoryFault::MountPoint,
                ..
            } => Exit::Busy,
            _ => Exit::WrongDevice,
        };
        let without_fuse = match error.is_without_fuse() {
            true => {
                "; without FUSE, `scrim ls`, `cat` and `cp` read files of ext2, ext3 and ext4, and `scrim open` serves \
                 the plaintext by NBD"
            }
            false => "",
        };
        Self::new(exit, format!("{error}{without_fuse}"))
    }
}
