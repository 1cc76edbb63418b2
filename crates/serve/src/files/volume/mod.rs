//! Files of a file system in a volume that is not mounted.

mod file;

use std::collections::HashMap;
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use http::StatusCode;
use scrim_files::{Error, FileSystem};
use scrim_volume::Volume;

use crate::files::StorageError;

pub(crate) use file::{Extent, VolumeFile};

/// Minimum time between two reports of the same kind of fault of a volume.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Callback that receives a message for each fault of a volume's file system.
pub type OnVolumeFault = Box<dyn Fn(&str) + Send + Sync>;

/// Facts about a volume besides its content.
#[derive(Debug)]
pub struct VolumeIdentity {
    /// Name of the volume in messages.
    pub name: String,
    /// UUID of the volume's header; empty if unknown. It is part of the entity tags of files: file systems that are made
    /// reproducibly have the same numbers for other content.
    pub uuid: String,
    /// True if other processes may write to the volume meanwhile.
    pub is_shared: bool,
}

/// A volume whose files are served, by any number of sites.
pub struct VolumeFiles {
    identity: VolumeIdentity,
    volume: Arc<Volume>,
    /// The file system as it was opened last.
    fs: RwLock<Arc<FileSystem>>,
    on_fault: OnVolumeFault,
    /// Time of the last report of each kind of fault.
    reported: Mutex<HashMap<Discriminant<Error>, Instant>>,
}

impl VolumeFiles {
    /// Opens the file system in a volume. If the volume is shared, each path resolution checks whether the file system
    /// was mounted for writing.
    ///
    /// # Errors
    /// If there is no file system that can be read.
    pub fn open(
        volume: Volume,
        identity: VolumeIdentity,
        on_fault: OnVolumeFault,
    ) -> Result<Self, Error> {
        let volume = Arc::new(volume);
        let fs = Arc::new(scrim_files::open(&volume)?);
        Ok(Self {
            identity,
            volume,
            fs: RwLock::new(fs),
            on_fault,
            reported: Mutex::default(),
        })
    }

    /// The volume below the file system, for its statistics.
    #[must_use]
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Name of the volume in messages.
    pub(crate) fn name(&self) -> &str {
        &self.identity.name
    }

    /// Current state of the file system. If it was mounted for writing since, and unmounted, it is opened again:
    /// everything that was cached of it is discarded.
    pub(crate) fn file_system(&self) -> Result<Arc<FileSystem>, Error> {
        let known = Arc::clone(&self.fs.read().unwrap_or_else(PoisonError::into_inner));
        if self.is_unchanged(&known)? {
            return Ok(known);
        }
        let fresh = Arc::new(scrim_files::open(&self.volume)?);
        *self.fs.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&fresh);
        Ok(fresh)
    }

    /// Reads the first bytes of the file system from the volume.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn check_storage(&self) -> Result<(), StorageError> {
        let read = match self.identity.is_shared {
            true => self.file_system().map(|_| true),
            false => self.file_system().and_then(|fs| fs.is_as_it_was()),
        };
        let failed = |source| StorageError::Volume {
            name: self.identity.name.clone(),
            source,
        };
        read.map(drop).map_err(failed)
    }

    fn is_unchanged(&self, fs: &FileSystem) -> Result<bool, Error> {
        match self.identity.is_shared {
            true => fs.is_as_it_was(),
            false => Ok(true),
        }
    }

    /// Status that a client gets for a fault. The details are reported to the operator only, and not repeatedly.
    pub(crate) fn status(&self, error: &Error) -> StatusCode {
        if self.is_report_due(error) {
            (self.on_fault)(&format!("{}: {error}", self.identity.name));
        }
        match error {
            Error::Encrypted { .. } => StatusCode::FORBIDDEN,
            Error::NotUnmounted => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns whether no fault of this kind was reported within [`REPORT_INTERVAL`], and notes the report.
    fn is_report_due(&self, error: &Error) -> bool {
        let now = Instant::now();
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let last = reported.get(&discriminant(error));
        let is_due = last.is_none_or(|&last| now >= last + REPORT_INTERVAL);
        if is_due {
            reported.insert(discriminant(error), now);
        }
        is_due
    }
}

impl fmt::Debug for VolumeFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeFiles")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}
