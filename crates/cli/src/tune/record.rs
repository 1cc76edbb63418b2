//! Record of the settings that a volume had before `tune` changed them.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use scrim_volume::OpenFlags;
use serde::{Deserialize, Serialize};

use crate::args::VolumeName;
use crate::error::{CliError, Exit};
use crate::nbd::runtime::RuntimeDir;

/// Why settings may differ from those in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// They are being measured, by a process that lives or was killed.
    Measuring,
    /// `--apply` has put others to work.
    Applied,
}

/// Settings of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Settings {
    /// Flags of the table, by dm-crypt's names.
    Kernel { flags: Vec<String> },
    /// Data path of Scrim's own engine.
    Scrim { data_path: String },
}

/// The settings of a volume before `tune`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The opening of the volume that they belong to: another one has settings of its own.
    pub(crate) opening: String,
    pub(crate) phase: Phase,
    pub(crate) before: Settings,
}

impl Settings {
    pub(crate) fn of_kernel(flags: OpenFlags) -> Self {
        let words = crate::kernel::words_of(flags);
        Self::Kernel {
            flags: words.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Flags of dm-crypt; `None` for settings of the other engine.
    pub(crate) fn flags(&self) -> Option<OpenFlags> {
        let Self::Kernel { flags } = self else {
            return None;
        };
        let has = |word: &str| flags.iter().any(|flag| flag == word);
        Some(OpenFlags {
            allow_discards: has("allow_discards"),
            same_cpu_crypt: has("same_cpu_crypt"),
            submit_from_crypt_cpus: has("submit_from_crypt_cpus"),
            no_read_workqueue: has("no_read_workqueue"),
            no_write_workqueue: has("no_write_workqueue"),
            high_priority: has("high_priority"),
        })
    }
}

impl Record {
    /// Reads the record of an opening of a volume; `None` if there is none.
    pub(crate) fn read(name: &VolumeName, opening: &str) -> Result<Option<Self>, CliError> {
        let path = path(name);
        match fs::read(&path) {
            Ok(text) => {
                let record: Self = serde_json::from_slice(&text).map_err(|error| {
                    CliError::io(format_args!("read {}", path.display()), &error.into())
                })?;
                Ok(Some(record).filter(|record| record.opening == opening))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CliError::io(
                format_args!("read {}", path.display()),
                &error,
            )),
        }
    }

    /// Writes the record, whole or not at all.
    pub(crate) fn write(&self, name: &VolumeName) -> Result<(), CliError> {
        let path = path(name);
        let fail =
            |error: io::Error| CliError::io(format_args!("write {}", path.display()), &error);
        let text = serde_json::to_vec(self).map_err(|error| fail(error.into()))?;
        let unfinished = path.with_extension("tune-new");
        fs::write(&unfinished, text).map_err(fail)?;
        fs::rename(&unfinished, &path).map_err(fail)
    }

    /// Removes the record of a volume.
    pub(crate) fn remove(name: &VolumeName) {
        // One that is missing is as good.
        let _ = fs::remove_file(path(name));
    }
}

/// Keeps a second `tune` of the same volume away, until it is dropped or the process ends.
pub(crate) struct Turn(#[expect(dead_code, reason = "held for its lock")] fs::File);

impl Turn {
    pub(crate) fn take(name: &VolumeName) -> Result<Self, CliError> {
        let path = RuntimeDir::locate().tune_lock(name);
        let fail = |error: io::Error| CliError::io(format_args!("lock {}", path.display()), &error);
        let file = fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(fail)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self(file)),
            Err(Errno::WOULDBLOCK) => Err(CliError::new(
                Exit::Busy,
                format!(
                    "{}: another tune measures it; let that end first",
                    name.as_str()
                ),
            )),
            Err(error) => Err(fail(error.into())),
        }
    }
}

fn path(name: &VolumeName) -> PathBuf {
    RuntimeDir::locate().tune_record(name)
}
