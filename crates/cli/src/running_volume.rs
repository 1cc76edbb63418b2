//! An open volume, by the engine that runs it.

use std::path::Path;
use std::time::Duration;

use scrim_foreign::Foreign;

use crate::args::VolumeName;
use crate::error::{CliError, Exit};
use crate::kernel::{KernelVolume, Mapper};
use crate::nbd::control::{Client, Status, find};
use crate::nbd::runtime::RuntimeDir;
use crate::storage::{absolute, file_of, is_remote};

/// Time for a volume to answer where its name only makes an error clearer.
const LOOK: Duration = Duration::from_secs(1);

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

/// Adds the name of an open volume of ours to the error of a command that cannot have that volume's storage.
pub(crate) fn with_holder(error: CliError) -> CliError {
    let holder = error.in_use.as_deref().and_then(holder);
    let Some(status) = holder else {
        return error;
    };
    let name = &status.name;
    error.followed_by(&match status.mounts.first() {
        None => format!("; it is open as {name}: `scrim close {name}` closes it"),
        Some(mount) => {
            let directory = Foreign::new(mount.directory.as_os_str().as_encoded_bytes());
            format!(
                "; it is open as {name} and mounted on {directory}: use that mount, or unmount it first (scrim umount \
                 {directory})"
            )
        }
    })
}

/// The open volume whose data or header is in this file or device, or in this storage on a server.
fn holder(path: &Path) -> Option<Status> {
    let storage = |path: &Path| match is_remote(path) {
        true => absolute(path).ok(),
        false => file_of(path).ok()?.canonicalize().ok(),
    };
    let there = storage(path)?;
    let lies_there = |image: &str| storage(Path::new(image)).as_ref() == Some(&there);
    let runtime = RuntimeDir::locate();
    runtime.check_if_there().ok()?;
    let names = runtime.names().into_iter();
    let mut open = names.filter_map(|name| find(&runtime, &name).ok()??.status_within(LOOK).ok());
    open.find(|status| {
        lies_there(&status.device) || status.header.as_deref().is_some_and(lies_there)
    })
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
    let message = match Path::new("/dev/mapper").join(name).exists() {
        true => format!("{name} is a device of the kernel, which only root may work on: use sudo"),
        false => {
            format!("no volume named {name} is open; `scrim list` shows those that are")
        }
    };
    CliError::new(Exit::WrongDevice, message)
}
