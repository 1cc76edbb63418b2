//! The mounts of an open volume: made and taken down by requests, and watched.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use scrim_volume::Volume;

use crate::args::VolumeName;
use crate::error::{CliError, Exit};
use crate::mount::{MountRequest, MountStatus, MountedVolume, Source, UmountRequest};
use crate::nbd::runtime::RuntimeDir;
use crate::signature::Survey;
use crate::terminal::note;

/// Pause between two looks at whether mounts have ended by themselves.
const LOOK: Duration = Duration::from_millis(500);

/// The mounts of a volume, oldest first.
pub(crate) struct Mounts {
    now: RefCell<Vec<MountedVolume>>,
    /// Directory for the plaintext below a mounted file system; there is one at a time.
    private: PathBuf,
}

impl Mounts {
    pub(crate) fn none(name: &VolumeName) -> Self {
        Self {
            now: RefCell::default(),
            private: RuntimeDir::locate().plaintext_directory(name),
        }
    }

    pub(crate) fn statuses(&self) -> Vec<MountStatus> {
        self.now
            .borrow()
            .iter()
            .map(|mount| mount.status().clone())
            .collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.now.borrow().is_empty()
    }

    /// Time until the next look at whether mounts have ended; `None` while there are none.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        (!self.is_empty()).then_some(LOOK)
    }

    pub(crate) fn add(
        &self,
        name: &VolumeName,
        volume: &Arc<Volume>,
        request: &MountRequest,
    ) -> Result<MountStatus, CliError> {
        if !request.raw && self.now.borrow().iter().any(MountedVolume::shows_files) {
            return Err(CliError::new(
                Exit::Busy,
                format!(
                    "{}: its file system is mounted already; two mounts of one file system would destroy it",
                    name.as_str()
                ),
            ));
        }
        let source = Source {
            name,
            volume,
            contents: Survey::of_volume(volume).contents,
            private: self.private.clone(),
        };
        let mounted = MountedVolume::start(&source, request)?;
        let status = mounted.status().clone();
        self.now.borrow_mut().push(mounted);
        Ok(status)
    }

    /// Takes down the mounts that have ended by themselves.
    pub(crate) fn reap(&self, name: &VolumeName) {
        let mut now = self.now.borrow_mut();
        for mount in now.extract_if(.., MountedVolume::has_ended) {
            note(format_args!(
                "scrim: {}: {} is not mounted any more",
                name.as_str(),
                mount.status().directory.display()
            ));
            if let Err(error) = mount.take_down() {
                note(format_args!("scrim: warning: {error}"));
            }
        }
    }

    pub(crate) fn remove(&self, request: &UmountRequest) -> Result<(), CliError> {
        let mut now = self.now.borrow_mut();
        let is_meant = |mount: &MountedVolume| match &request.directory {
            Some(directory) => mount.status().directory == *directory,
            None => true,
        };
        let mut result = Ok(());
        while let Some(index) = now.iter().rposition(is_meant) {
            now[index].unmount(request.force)?;
            result = result.and(now.remove(index).take_down());
        }
        result
    }

    /// Takes down all mounts before the volume is closed.
    pub(crate) fn end(&self) {
        let all = UmountRequest {
            directory: None,
            force: true,
        };
        if let Err(error) = self.remove(&all) {
            note(format_args!("scrim: warning: {error}"));
        }
    }
}
