//! Requests to mount and to unmount a volume that is being served.

use scrim_sys::memory::SecretBytes;
use serde::Deserialize;

use super::{OpenVolume, busy, while_answering};
use crate::error::{CliError, Exit};
use crate::mount::{MountRequest, MountStatus, UmountRequest};
use crate::nbd::control::{Answer, ControlSocket, Request};

impl OpenVolume {
    pub(super) fn mount_as_asked(&self, control: &ControlSocket, body: &SecretBytes) -> Answer {
        let status = self.mount(control, &parsed(body, "mount")?)?;
        let json = serde_json::to_vec(&status)
            .map_err(|error| CliError::io("write the answer", &error.into()))?;
        Ok(SecretBytes::copied_from(&json))
    }

    /// Mounts the volume. A storage that does not answer may hold that up, so meanwhile other commands are answered.
    pub(super) fn mount(
        &self,
        control: &ControlSocket,
        request: &MountRequest,
    ) -> Result<MountStatus, CliError> {
        self.refuse_while_suspended()?;
        let answer = |other: Request, _: &SecretBytes| {
            let shown = self.show(&other);
            Some(shown.unwrap_or_else(|| Err(busy(&self.name, "mounted"))))
        };
        while_answering(control, answer, || {
            self.mounts.add(&self.name, &self.volume, request)
        })?
    }

    pub(super) fn unmount(&self, body: &SecretBytes) -> Answer {
        let request: UmountRequest = parsed(body, "umount")?;
        self.refuse_while_suspended()?;
        self.mounts.remove(&request)?;
        if !self.volume.is_read_only() {
            self.volume
                .flush()
                .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()))?;
        }
        Ok(SecretBytes::zeroed(0))
    }

    /// A file system that is being mounted, written or frozen waits for requests that are held.
    pub(super) fn refuse_while_suspended(&self) -> Result<(), CliError> {
        let name = self.name.as_str();
        match self.volume.is_suspended() {
            true => Err(CliError::new(
                Exit::Busy,
                format!("{name} is suspended; resume it first (scrim resume {name})"),
            )),
            false => Ok(()),
        }
    }

    /// Refuses to close a volume that is mounted.
    pub(super) fn refuse_if_mounted(&self) -> Result<(), CliError> {
        let mounts = self.mounts.statuses();
        let Some(first) = mounts.first() else {
            return Ok(());
        };
        let (name, directory) = (self.name.as_str(), first.directory.display());
        Err(CliError::new(
            Exit::Busy,
            format!(
                "{name} is mounted on {directory}; unmount it first (scrim umount {directory})"
            ),
        ))
    }
}

fn parsed<'a, T: Deserialize<'a>>(body: &'a SecretBytes, command: &str) -> Result<T, CliError> {
    serde_json::from_slice(body.expose()).map_err(|error| {
        CliError::usage(format!(
            "the request to {command} is not understood: {error}; use the scrim that opened the volume"
        ))
    })
}
