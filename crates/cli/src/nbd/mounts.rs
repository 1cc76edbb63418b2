//! The mounts of an open volume: made and taken down by requests, and watched.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scrim_foreign::Foreign;
use scrim_volume::Volume;

use crate::args::VolumeName;
use crate::error::{CliError, Exit};
use crate::mount::{
    Frozen, MountRequest, MountStatus, MountedVolume, Source, UmountRequest, read_in_time,
};
use crate::nbd::runtime::RuntimeDir;
use crate::signature::Survey;
use crate::terminal::note;

/// The mounts of a volume, oldest first.
pub(crate) struct Mounts {
    now: Mutex<Vec<MountedVolume>>,
    /// Directory for the plaintext below a mounted file system; there is one at a time.
    private: PathBuf,
}

impl Mounts {
    pub(crate) fn none(name: &VolumeName) -> Self {
        let private = RuntimeDir::locate().plaintext_directory(name);
        // A process that was killed may have left it. It is kept if something is mounted there.
        let _ = std::fs::remove_dir(&private);
        Self {
            now: Mutex::default(),
            private,
        }
    }

    pub(crate) fn statuses(&self) -> Vec<MountStatus> {
        self.now().iter().map(MountedVolume::status_now).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.now().is_empty()
    }

    fn now(&self) -> MutexGuard<'_, Vec<MountedVolume>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Mounts the volume. One thread adds and removes mounts; others may ask for their status.
    pub(crate) fn add(
        &self,
        name: &VolumeName,
        volume: &Arc<Volume>,
        request: &MountRequest,
    ) -> Result<MountStatus, CliError> {
        let read_only = request.read_only || volume.is_read_only();
        for other in &*self.now() {
            refuse_beside(name, other, request, read_only)?;
        }
        let survey = read_in_time(volume, &request.directory, Survey::of_volume)?;
        let source = Source {
            name,
            volume,
            contents: survey.contents,
            private: self.private.clone(),
        };
        // Not under the lock, so that the status is shown meanwhile.
        let mounted = MountedVolume::start(&source, request)?;
        let status = mounted.status().clone();
        self.now().push(mounted);
        Ok(status)
    }

    /// Takes down the mounts that have ended by themselves.
    pub(crate) fn reap(&self, name: &VolumeName) {
        let mut now = self.now();
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

    /// Freezes the file systems that write, from the newest mount on. Returns them, and a line for each that cannot be
    /// frozen.
    ///
    /// # Errors
    /// When one cannot write what it has in memory; those that were frozen are thawed.
    pub(crate) fn freeze(&self) -> Result<(Vec<Frozen>, String), CliError> {
        let (mut frozen, mut remarks) = (Vec::new(), String::new());
        for mount in self.now().iter().rev() {
            let status = mount.status();
            match mount.freeze()? {
                Some(one) => frozen.push(one),
                None if status.read_only => {}
                None => {
                    let directory = Foreign::new(status.directory.as_os_str().as_encoded_bytes());
                    remarks += &format!(
                        "{directory}: {} cannot be frozen; a snapshot has its files as they are after a power cut\n",
                        status.file_system
                    );
                }
            }
        }
        Ok((frozen, remarks))
    }

    pub(crate) fn remove(&self, request: &UmountRequest) -> Result<(), CliError> {
        let mut now = self.now();
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

/// Refuses a mount that would change data which another one shows or keeps in memory: a volume has any number of mounts
/// that only read, or one that writes. One whose plaintext stays in the page cache is alone, because nobody tells the
/// kernel of changes.
fn refuse_beside(
    name: &VolumeName,
    other: &MountedVolume,
    request: &MountRequest,
    read_only: bool,
) -> Result<(), CliError> {
    let status = other.status();
    let reason = if !request.raw && other.shows_files() {
        "a file system has one mount at a time"
    } else if request.page_cache || status.page_cache {
        "a mount with --page-cache is the only one"
    } else if !(read_only && status.read_only) {
        "several mounts may only read: with --readonly"
    } else {
        return Ok(());
    };
    let directory = Foreign::new(status.directory.as_os_str().as_encoded_bytes());
    Err(CliError::new(
        Exit::Busy,
        format!(
            "{}: it is mounted already on {directory}, and {reason}; use that mount, or unmount it first (scrim umount \
             {directory})",
            name.as_str(),
        ),
    ))
}
