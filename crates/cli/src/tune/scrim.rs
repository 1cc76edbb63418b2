//! Data paths of a volume that Scrim's own engine runs.

use std::io;
use std::os::unix::fs::MetadataExt;

use scrim_bench::tune::{Direction, Load, Setting, Tunable};
use scrim_volume::{DataPath, OpenFlags};

use super::Tuned;
use crate::args::VolumeName;
use crate::error::CliError;
use crate::nbd::control::{Client, Request, Status};
use crate::nbd::runtime::RuntimeDir;

/// The paths that are compared; the first is the usual one.
const PATHS: [DataPath; 3] = [DataPath::Auto, DataPath::Inline, DataPath::Queued];

/// A volume of Scrim's, with each data path.
pub(crate) struct ScrimTuned {
    name: VolumeName,
    /// The table's flags, which stay as they are.
    flags: OpenFlags,
    original: DataPath,
    at_work: DataPath,
}

impl ScrimTuned {
    pub(crate) fn new(name: &VolumeName, status: &Status) -> Self {
        let has = |word: &str| status.flags.iter().any(|flag| flag == word);
        let original = status.data_path.parse().unwrap_or_default();
        Self {
            name: name.clone(),
            flags: OpenFlags {
                allow_discards: has("allow_discards"),
                same_cpu_crypt: has("same_cpu_crypt"),
                submit_from_crypt_cpus: has("submit_from_crypt_cpus"),
                no_read_workqueue: has("no_read_workqueue"),
                no_write_workqueue: has("no_write_workqueue"),
                high_priority: has("high_priority"),
            },
            original,
            at_work: original,
        }
    }

    /// Puts a data path to work.
    pub(crate) fn set(&mut self, path: DataPath) -> Result<(), CliError> {
        if path != self.at_work {
            let client = Client::connect(&RuntimeDir::locate(), &self.name)?;
            client.ask(Request::Refresh(self.flags, Some(path)))?;
            self.at_work = path;
        }
        Ok(())
    }
}

/// Identity of this opening of a volume: that of its control socket, which each opening makes anew.
pub(crate) fn opening(name: &VolumeName) -> Result<String, CliError> {
    let socket = RuntimeDir::locate().control_socket(name);
    let found = socket
        .metadata()
        .map_err(|error| CliError::io(format_args!("look at {}", socket.display()), &error))?;
    Ok(format!(
        "{} {}.{:09}",
        found.ino(),
        found.ctime(),
        found.ctime_nsec()
    ))
}

impl Tunable for ScrimTuned {
    type Error = CliError;

    fn failed(load: &Load, error: io::Error) -> CliError {
        CliError::io(format_args!("measure {}", load.name()), &error)
    }

    fn apply(&mut self, setting: usize) -> Result<(), CliError> {
        self.set(PATHS[setting])
    }
}

impl Tuned for ScrimTuned {
    fn settings(&self) -> Vec<Setting> {
        let setting = |path: &DataPath| Setting {
            name: path.to_string(),
            directions: vec![Direction::Read, Direction::Write],
        };
        PATHS.iter().map(setting).collect()
    }

    fn choose(&mut self, settings: &[usize]) -> Result<(), CliError> {
        self.set(PATHS[one_of(settings)])
    }

    fn restore(&mut self) -> Result<(), CliError> {
        self.set(self.original)
    }

    fn commands(&self, settings: &[usize]) -> Vec<String> {
        vec![format!(
            "scrim refresh {} --data-path {}",
            self.name.as_str(),
            PATHS[one_of(settings)]
        )]
    }
}

/// The data path of settings that differ by direction: a volume has one, so the usual one serves both.
fn one_of(settings: &[usize]) -> usize {
    match settings {
        [one] => *one,
        _ => 0,
    }
}
