//! An encrypted volume of the kernel, and what can be done with it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use scrim_sys::device_mapper::{Pending, State, Target, Which};
use scrim_sys::memory::SecretBytes;
use scrim_sys::mounts;
use scrim_volume::Keys;

use super::identity::Identity;
use super::mapper::{Mapper, failed};
use super::node;
use super::table::KernelTable;
use crate::args::VolumeName;
use crate::error::{CliError, Exit};

/// Time for a program that only looks at devices, such as udev's, to close a device again.
const PROBE: Duration = Duration::from_secs(2);

/// Pause between two attempts to remove a device.
const PAUSE: Duration = Duration::from_millis(50);

/// An encrypted volume that the kernel runs.
pub(crate) struct KernelVolume {
    pub(super) mapper: Mapper,
    pub(super) name: VolumeName,
    pub(super) identity: Identity,
    pub(super) state: State,
}

impl Mapper {
    /// Finds an encrypted volume; `None` if no device has this name.
    pub(crate) fn find(self, name: &VolumeName) -> Result<Option<KernelVolume>, CliError> {
        let Some(state) = self.state(name)? else {
            return Ok(None);
        };
        match Identity::of_device(&state.uuid) {
            Some(identity) => Ok(Some(KernelVolume::new(self, name.clone(), identity, state))),
            None => Err(CliError::new(
                Exit::WrongDevice,
                format!(
                    "{}: this device of device mapper is not an encrypted volume; see `dmsetup info {0}`",
                    name.as_str()
                ),
            )),
        }
    }
}

impl KernelVolume {
    pub(super) fn new(mapper: Mapper, name: VolumeName, identity: Identity, state: State) -> Self {
        Self {
            mapper,
            name,
            identity,
            state,
        }
    }

    /// Path of its block device.
    pub(crate) fn node(&self) -> PathBuf {
        node::path(&self.name)
    }

    /// Identity of this opening of the volume, which no other device has, also under the same name.
    pub(crate) fn opening(&self) -> String {
        let number = number_of(self.state.device);
        // A number that the kernel gives once (since Linux 5.15); device numbers are given again.
        let sequence = std::fs::read_to_string(format!("/sys/dev/block/{number}/diskseq"));
        format!("{} {}", self.state.uuid, sequence.unwrap_or(number).trim())
    }

    /// Closes the volume. With `force` its users get errors from now on, after what they have written is stored.
    pub(crate) fn close(&self, force: bool) -> Result<(), CliError> {
        if force && self.state.open_count > 0 {
            self.take_away()?;
            let removed = self.mapper.remove(&self.name, true);
            return removed.map_err(|error| self.failed("close the device", &error));
        }
        let deadline = Instant::now() + PROBE;
        loop {
            match self.mapper.remove(&self.name, false) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    let users = self.users();
                    if !users.is_empty() || Instant::now() >= deadline {
                        return Err(self.busy(&users));
                    }
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(self.failed("close the device", &error)),
            }
        }
    }

    /// Puts errors in place of the data, after what was written is stored.
    fn take_away(&self) -> Result<(), CliError> {
        let errors = Target {
            start: 0,
            len: self.table(Which::Active)?.sectors().max(1),
            kind: "error",
            arguments: b"",
        };
        self.load(&[errors])?;
        self.mapper.resume(&self.name, Pending::CarriedOut)
    }

    /// Holds requests, after those that were made are carried out.
    pub(crate) fn suspend(&self) -> Result<(), CliError> {
        let suspended = self
            .mapper
            .control()
            .suspend(self.name.as_str(), Pending::CarriedOut);
        suspended.map_err(|error| self.failed("suspend the device", &error))
    }

    /// Lets requests go on, by the loaded table if there is one.
    pub(crate) fn resume(&self) -> Result<(), CliError> {
        let resumed = self.mapper.resume(&self.name, Pending::CarriedOut);
        // dm-crypt without a key answers EAGAIN.
        resumed.map_err(|error| {
            error.followed_by(&format!(
                "; if its key was forgotten, `scrim luksResume {}` asks for it",
                self.name.as_str()
            ))
        })
    }

    /// Drops the loaded table.
    pub(crate) fn clear(&self) -> Result<(), CliError> {
        let cleared = self.mapper.control().clear(self.name.as_str());
        cleared.map_err(|error| self.failed("drop the loaded table", &error))
    }

    /// Returns a table as text, as `dmsetup table` prints it.
    pub(crate) fn printed_table(&self, which: Which, keys: Keys) -> Result<SecretBytes, CliError> {
        if which == Which::Inactive && !self.state.inactive_table {
            return Err(CliError::new(
                Exit::WrongDevice,
                format!("{}: no table is loaded", self.name.as_str()),
            ));
        }
        Ok(self.table(which)?.printed(keys))
    }

    pub(super) fn table(&self, which: Which) -> Result<KernelTable, CliError> {
        let text = self.mapper.control().table(self.name.as_str(), which);
        KernelTable::new(text.map_err(|error| self.failed("read the table", &error))?)
    }

    pub(super) fn load(&self, targets: &[Target<'_>]) -> Result<(), CliError> {
        let loaded = self
            .mapper
            .control()
            .load(self.name.as_str(), targets, self.state.read_only);
        loaded.map_err(|error| self.failed("load the table", &error).followed_by(SEE_LOG))
    }

    /// Puts a table to work in place of the present one. Requests wait for as long as the kernel takes to exchange them.
    pub(super) fn exchange(&self, table: &KernelTable) -> Result<(), CliError> {
        self.load(&table.targets())?;
        self.mapper.resume(&self.name, Pending::Held)
    }

    /// Mounts, and devices above it, that use the volume.
    pub(super) fn users(&self) -> Vec<String> {
        let mut users = self.mounts();
        let holders = std::fs::read_dir(self.sysfs().join("holders"));
        for holder in holders.into_iter().flatten().flatten() {
            users.push(format!("/dev/{}", holder.file_name().display()));
        }
        users
    }

    /// Folders on which its file system is mounted.
    pub(super) fn mounts(&self) -> Vec<String> {
        let device = self.number();
        let all = mounts::all().unwrap_or_default();
        all.into_iter()
            .filter(|mount| mount.id.device == device)
            .map(|mount| mount.point.display().to_string())
            .collect()
    }

    /// Number of its block device, `MAJOR:MINOR`.
    pub(super) fn number(&self) -> String {
        number_of(self.state.device)
    }

    /// Folder of its block device in sysfs.
    pub(super) fn sysfs(&self) -> PathBuf {
        Path::new("/sys/dev/block").join(self.number())
    }

    pub(super) fn failed(&self, doing: &str, error: &io::Error) -> CliError {
        failed(&self.name, doing, error)
    }

    fn busy(&self, users: &[String]) -> CliError {
        let name = self.name.as_str();
        let users = match users {
            [] => "a program has its device open; `fuser -v` on it names that".to_owned(),
            users => format!("{} uses it; unmount or close that first", users.join(", ")),
        };
        CliError::new(
            Exit::Busy,
            format!("{name} is in use: {users}, or use --force, which gives its users errors"),
        )
    }
}

/// Number of a block device, `MAJOR:MINOR`.
pub(super) fn number_of(device: u64) -> String {
    format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    )
}

/// Advice on a table that the kernel refuses, as it says why only in its log.
pub(super) const SEE_LOG: &str = "; the kernel's log (dmesg) has the reason";
