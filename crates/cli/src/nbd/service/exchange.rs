//! Exchange of the table of a volume that is being served.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use scrim_backend::Backend;
use scrim_luks::VolumeKey;
use scrim_sys::memory::SecretBytes;
use scrim_volume::{
    Change, CryptTable, DataPath, ForgetError, Keys, OpenFlags, RecallError, ResumeError, Resumed,
    TargetSpec,
};

use super::{DEPARTURE, OpenVolume};
use crate::error::{CliError, Exit};
use crate::nbd::control::Answer;
use crate::storage::device_names::path_of;
use crate::storage::is_remote;

/// Time for requests in flight to end, after which the table stays as it is. A command waits longer for its answer.
const QUIESCE_TIMEOUT: Duration = Duration::from_secs(10);

impl OpenVolume {
    /// Loads a table beside the one at work.
    pub(super) fn load(&self, text: &SecretBytes, change: Change) -> Answer {
        let text = std::str::from_utf8(text.expose())
            .map_err(|_| CliError::usage("the table is not text"))?;
        let table = CryptTable::parse(text)?;
        self.check_devices(&table)?;
        let mapping = self.volume.mapping();
        let is_other = mapping.difference(&table).is_some();
        self.volume.load(table, mapping.path(), change, |name| {
            self.devices.open(name)
        })?;
        self.loads_other_data.store(is_other, Ordering::Relaxed);
        done()
    }

    /// This process has left the folder that it was started in.
    fn check_devices(&self, new: &CryptTable) -> Result<(), CliError> {
        let mapping = self.volume.mapping();
        let is_open = |name: &str| {
            let mut lines = mapping.table().lines().iter();
            lines.any(|line| line.target.device() == Some(name))
        };
        for (number, line) in (1..).zip(new.lines()) {
            let Some(name) = line.target.device() else {
                continue;
            };
            let path = path_of(name);
            if !is_open(name) && !path.is_absolute() && !is_remote(&path) {
                return Err(CliError::usage(format!(
                    "table, line {number}: device {name} is neither a whole path nor a device's \
                     number; write its path from / on"
                )));
            }
        }
        Ok(())
    }

    /// Puts the same table to work at once with other flags. A table that was loaded beside it is dropped.
    pub(super) fn refresh(&self, flags: OpenFlags, path: Option<DataPath>) -> Answer {
        let mapping = self.volume.mapping();
        if self.volume.is_key_forgotten() {
            return Err(self.key_is_forgotten());
        }
        let text = self.volume.table_text(Keys::Shown);
        let text = std::str::from_utf8(text.expose())
            .map_err(|_| CliError::usage("a device's name is not text"))?;
        let table = CryptTable::parse(text)?.with_flags(flags);
        let path = path.unwrap_or_else(|| mapping.path());
        self.volume.load(table, path, Change::OfService, |name| {
            self.devices.open(name)
        })?;
        self.loads_other_data.store(false, Ordering::Relaxed);
        let resumed = self.resume();
        if resumed.is_err() {
            self.volume.clear();
        }
        resumed
    }

    pub(super) fn suspend(&self) -> Answer {
        if self.volume.suspend(QUIESCE_TIMEOUT) {
            return done();
        }
        let (name, limit) = (self.name.as_str(), QUIESCE_TIMEOUT.as_secs());
        Err(CliError::new(
            Exit::Busy,
            format!(
                "requests to {name} have not ended within {limit} s, and it goes on; try again once \
                 its storage answers"
            ),
        ))
    }

    /// Suspends the volume and destroys its key; only a header can give it back.
    pub(super) fn forget(&self) -> Answer {
        let name = self.name.as_str();
        if self.has_other_data.load(Ordering::Relaxed) || !self.r#type.starts_with("LUKS") {
            return Err(CliError::usage(format!(
                "{name} runs a table, and no header could give its key back; `scrim suspend` holds its \
                 requests and keeps the key"
            )));
        }
        self.volume
            .forget_key(QUIESCE_TIMEOUT)
            .map_err(|error| CliError::from(error).within(name))?;
        self.loads_other_data.store(false, Ordering::Relaxed);
        done()
    }

    /// Reads a part of the bytes before the data, for a command that cannot reach the device itself.
    pub(super) fn read_header(&self, offset: u64, len: usize) -> Answer {
        let mapping = self.volume.mapping();
        let mut lines = mapping.table().lines().iter();
        let data = lines.find_map(|line| match &line.target {
            TargetSpec::Crypt(crypt) => Some((&crypt.device, crypt.offset.saturating_mul(512))),
            _ => None,
        });
        let refused = || CliError::usage(format!("{} has no header there", self.name.as_str()));
        let is_attached = self.r#type.starts_with("LUKS") && self.header.is_none();
        if !is_attached || self.has_other_data.load(Ordering::Relaxed) {
            return Err(refused());
        }
        let (device, start) = data.ok_or_else(refused)?;
        if offset.checked_add(len as u64).is_none_or(|end| end > start) {
            return Err(refused());
        }
        let path = path_of(device);
        let open = self.devices.now();
        let found = open.iter().find(|storage| storage.path() == path);
        let mut bytes = SecretBytes::zeroed(len);
        found
            .ok_or_else(refused)?
            .read_at(offset, bytes.expose_mut())?;
        Ok(bytes)
    }

    pub(super) fn resume_with_key(&self, key: &SecretBytes) -> Answer {
        let key = VolumeKey::new(SecretBytes::copied_from(key.expose()));
        self.volume
            .recall_key(&key, |name| self.devices.open(name))
            .map_err(|error| CliError::from(error).within(self.name.as_str()))?;
        done()
    }

    pub(super) fn key_is_forgotten(&self) -> CliError {
        let name = self.name.as_str();
        CliError::new(
            Exit::Busy,
            format!(
                "{name}: its key is forgotten: `scrim luksResume {name}` asks for the passphrase"
            ),
        )
    }

    pub(super) fn resume(&self) -> Answer {
        if self.volume.resume(QUIESCE_TIMEOUT)? == Resumed::OnNewTable {
            if self.loads_other_data.swap(false, Ordering::Relaxed) {
                self.has_other_data.store(true, Ordering::Relaxed);
            }
            self.let_go();
        }
        done()
    }

    /// Waits until every device that the active table no longer uses is closed: another process may open it next.
    fn let_go(&self) {
        let mapping = self.volume.mapping();
        let lines = mapping.table().lines().iter();
        let kept: BTreeSet<_> = lines.filter_map(|line| line.target.device()).collect();
        let moment_ends = Instant::now() + DEPARTURE;
        while self.devices.now().len() > kept.len() && Instant::now() < moment_ends {
            std::thread::sleep(DEPARTURE / 200);
        }
    }

    pub(super) fn clear(&self) -> Answer {
        self.volume.clear();
        done()
    }

    /// The loaded table; empty if no table is loaded, as in `dmsetup table --inactive`.
    pub(super) fn inactive_table(&self, keys: Keys) -> Answer {
        let text = self.volume.inactive_table_text(keys);
        Ok(text.unwrap_or_else(|| SecretBytes::zeroed(0)))
    }
}

fn done() -> Answer {
    Ok(SecretBytes::zeroed(0))
}

impl From<ResumeError> for CliError {
    fn from(error: ResumeError) -> Self {
        let exit = match &error {
            ResumeError::Busy | ResumeError::KeyForgotten => Exit::Busy,
            ResumeError::Flush(_) => Exit::WrongDevice,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<ForgetError> for CliError {
    fn from(error: ForgetError) -> Self {
        match error {
            ForgetError::Open(error) => error.into(),
            ForgetError::NoKey => Self::usage(error.to_string()),
            ForgetError::Busy | ForgetError::Kept => Self::new(Exit::Busy, error.to_string()),
        }
    }
}

impl From<RecallError> for CliError {
    fn from(error: RecallError) -> Self {
        match error {
            RecallError::Open(error) => error.into(),
            RecallError::AnotherKey => Self::new(Exit::NoKey, error.to_string()),
            RecallError::NotForgotten => Self::usage(error.to_string()),
        }
    }
}
