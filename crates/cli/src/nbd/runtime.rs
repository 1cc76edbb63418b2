//! The place where an open volume is found: its sockets, in a folder that only its owner can enter.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::getuid;

use crate::args::VolumeName;
use crate::error::{CliError, Exit};

/// The folder of this user's open volumes: `$XDG_RUNTIME_DIR/scrim`, else `/run/scrim` for root and
/// `/tmp/scrim-UID` for others.
pub(crate) struct RuntimeDir(PathBuf);

impl RuntimeDir {
    pub(crate) fn locate() -> Self {
        let uid = getuid();
        let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        Self(match base {
            Some(base) if base.is_absolute() => base.join("scrim"),
            _ if uid.is_root() => PathBuf::from("/run/scrim"),
            _ => PathBuf::from(format!("/tmp/scrim-{}", uid.as_raw())),
        })
    }

    /// Creates the folder where it is missing, and refuses one that others can enter.
    pub(crate) fn ensure(&self) -> Result<(), CliError> {
        let path = &self.0;
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path);
        made.map_err(|error| CliError::io(format_args!("create {}", path.display()), &error))?;
        self.check()
    }

    /// Refuses a folder that others can enter, since they could put a socket of their own there. A folder that does not
    /// exist is accepted as empty.
    pub(crate) fn check_if_there(&self) -> Result<(), CliError> {
        match self.0.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // Root may look into a user's folder, which the environment has named.
            _ if getuid().is_root() => Ok(()),
            _ => self.check(),
        }
    }

    fn check(&self) -> Result<(), CliError> {
        let path = &self.0;
        let metadata = fs::symlink_metadata(path)
            .map_err(|error| CliError::io(format_args!("look at {}", path.display()), &error))?;
        let private = metadata.is_dir()
            && metadata.uid() == getuid().as_raw()
            && metadata.permissions().mode() & 0o077 == 0;
        if private {
            Ok(())
        } else {
            Err(CliError::new(
                Exit::WrongDevice,
                format!(
                    "{} is not a folder of yours alone; remove it, or set XDG_RUNTIME_DIR to a \
                     private folder (mode 0700)",
                    path.display()
                ),
            ))
        }
    }

    pub(crate) fn control_socket(&self, name: &VolumeName) -> PathBuf {
        self.0.join(format!("{}.control", name.as_str()))
    }

    pub(crate) fn nbd_socket(&self, name: &VolumeName) -> PathBuf {
        self.0.join(format!("{}.nbd", name.as_str()))
    }

    /// Record of the settings that a volume had before it was tuned.
    pub(crate) fn tune_record(&self, name: &VolumeName) -> PathBuf {
        self.0.join(format!("{}.tune", name.as_str()))
    }

    /// File that a run of `encrypt --in-place` on a server's storage locks, by the name of that storage.
    pub(crate) fn in_place_lock(&self, image: &Path) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        image.hash(&mut hasher);
        self.0.join(format!("{:016x}.in-place", hasher.finish()))
    }

    /// File that the process that tunes a volume locks.
    pub(crate) fn tune_lock(&self, name: &VolumeName) -> PathBuf {
        self.0.join(format!("{}.tune-lock", name.as_str()))
    }

    /// Directory for the plaintext of a mounted volume as one file, below what shows its files.
    pub(crate) fn plaintext_directory(&self, name: &VolumeName) -> PathBuf {
        self.0.join(format!("{}.mount", name.as_str()))
    }

    /// Directory for the plaintext of the volume that this process packs.
    pub(crate) fn pack_directory(&self) -> PathBuf {
        self.0.join(format!("pack-{}.mount", std::process::id()))
    }

    /// The names that have a control socket, open or left over, in order.
    pub(crate) fn names(&self) -> Vec<VolumeName> {
        let Ok(entries) = fs::read_dir(&self.0) else {
            return Vec::new();
        };
        let mut names: Vec<VolumeName> = entries
            .filter_map(|entry| {
                let file = entry.ok()?.file_name();
                file.to_str()?.strip_suffix(".control")?.parse().ok()
            })
            .collect();
        names.sort();
        names
    }
}
