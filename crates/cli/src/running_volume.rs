//! An open volume, by the engine that runs it.

use crate::args::VolumeName;
use crate::error::{CliError, Exit};
use crate::kernel::{KernelVolume, Mapper};
use crate::nbd::control::{Client, find};
use crate::nbd::runtime::RuntimeDir;

/// An open volume of either engine.
pub(crate) enum RunningVolume {
    /// Served by a process of Scrim's, which is asked over its control socket.
    Scrim(Client),
    /// Run by the kernel's dm-crypt.
    Kernel(KernelVolume),
}

impl RunningVolume {
    /// Finds the open volume of this name; `None` if there is none. Scrim's own come first.
    pub(crate) fn find(name: &VolumeName) -> Result<Option<Self>, CliError> {
        if let Some(client) = find(&RuntimeDir::locate(), name)? {
            return Ok(Some(Self::Scrim(client)));
        }
        match Mapper::open_if_allowed() {
            Some(mapper) => Ok(mapper.find(name)?.map(Self::Kernel)),
            None => Ok(None),
        }
    }

    /// Finds the open volume of this name, which must be open.
    pub(crate) fn named(name: &VolumeName) -> Result<Self, CliError> {
        Self::find(name)?.ok_or_else(|| not_open(name))
    }
}

/// Refuses a name that an open volume has, or a device of the kernel.
pub(crate) fn refuse_taken(name: &VolumeName) -> Result<(), CliError> {
    let shown = name.as_str();
    if find(&RuntimeDir::locate(), name)?.is_some() {
        return Err(CliError::new(
            Exit::Busy,
            format!("a volume named {shown} is open already; close it, or choose another name"),
        ));
    }
    match Mapper::open_if_allowed() {
        Some(mapper) if mapper.has(name)? => Err(CliError::new(
            Exit::Busy,
            format!(
                "the kernel has a device named {shown} already; close it (scrim close {shown}), or choose another name"
            ),
        )),
        _ => Ok(()),
    }
}

/// Error for a name that no open volume has.
pub(crate) fn not_open(name: &VolumeName) -> CliError {
    let name = name.as_str();
    // Everybody may see the kernel's devices, and root may ask about them.
    let message = match std::path::Path::new("/dev/mapper").join(name).exists() {
        true => format!("{name} is a device of the kernel, which only root may work on: use sudo"),
        false => {
            format!("no volume named {name} is open; `scrim list` shows those that are")
        }
    };
    CliError::new(Exit::WrongDevice, message)
}
