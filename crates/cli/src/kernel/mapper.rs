//! Device mapper, with errors that say what to do.

use std::io;

use scrim_sys::device_mapper::{Control, Pending, State};

use super::identity::Identity;
use super::node;
use crate::args::VolumeName;
use crate::error::{CliError, Exit};

/// The kernel's device mapper, open for calls.
pub(crate) struct Mapper {
    control: Control,
}

impl Mapper {
    /// Opens device mapper; the error says what is missing.
    pub(crate) fn open() -> Result<Self, CliError> {
        let control = Control::open().map_err(|error| unavailable(&error))?;
        Ok(Self { control })
    }

    /// Opens device mapper; `None` where there is none, or this user may not use it.
    pub(crate) fn open_if_allowed() -> Option<Self> {
        let control = Control::open().ok()?;
        Some(Self { control })
    }

    pub(super) fn control(&self) -> &Control {
        &self.control
    }

    /// Returns whether a device has this name, encrypted or not.
    pub(crate) fn has(&self, name: &VolumeName) -> Result<bool, CliError> {
        self.state(name).map(|state| state.is_some())
    }

    /// Lists the encrypted volumes by name.
    pub(crate) fn volumes(&self) -> Result<Vec<VolumeName>, CliError> {
        let names = self.control.devices();
        let names = names.map_err(|error| CliError::io("list the kernel's devices", &error))?;
        let mut volumes: Vec<VolumeName> = names
            .iter()
            .filter_map(|name| name.parse().ok())
            .filter(|name| {
                // One that has gone since is not listed.
                matches!(self.state(name), Ok(Some(state)) if Identity::of_device(&state.uuid).is_some())
            })
            .collect();
        volumes.sort();
        Ok(volumes)
    }

    pub(super) fn state(&self, name: &VolumeName) -> Result<Option<State>, CliError> {
        let state = self.control.state(name.as_str());
        state.map_err(|error| failed(name, "look at the device", &error))
    }

    /// Puts the loaded table to work, or lets requests go on, and waits for the node in `/dev/mapper`.
    pub(super) fn resume(&self, name: &VolumeName, pending: Pending) -> Result<(), CliError> {
        let resumed = node::with_udev(|udev| self.control.resume(name.as_str(), pending, udev));
        resumed.map_err(|error| failed(name, "resume the device", &error))?;
        match self.state(name)? {
            Some(state) => node::make(name, state.device),
            None => Ok(()),
        }
    }

    /// Removes a device and its node, `deferred` once nobody has it open.
    pub(super) fn remove(&self, name: &VolumeName, deferred: bool) -> io::Result<()> {
        node::with_udev(|udev| self.control.remove(name.as_str(), deferred, udev))?;
        if !deferred || self.control.state(name.as_str())?.is_none() {
            node::remove(name);
        }
        Ok(())
    }
}

/// An error of a call about a volume.
pub(super) fn failed(name: &VolumeName, doing: &str, error: &io::Error) -> CliError {
    CliError::io(doing, error).within(name.as_str())
}

fn unavailable(error: &io::Error) -> CliError {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "the kernel's engine needs root: use sudo, or leave --engine out to run the volume in this process"
        }
        _ => {
            "this kernel has no device mapper, or its module is not loaded (modprobe dm-mod dm-crypt); leave --engine \
             out to run the volume in this process"
        }
    };
    CliError::new(
        Exit::WrongDevice,
        format!("cannot use device mapper: {error}; {advice}"),
    )
}
