//! Files of a file system in a volume, which nobody has mounted.
//!
//! | module | is |
//! |---|---|
//! | [`device`] | the volume, as the file system sees it |
//! | [`tree`] | the way from a path to a file, and what it may not leave |
//! | [`mod@file`] | a file's bytes: what is stored of them, and plaintext |

mod device;
mod file;
mod tree;

use std::collections::HashMap;
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use http::StatusCode;
use scrim_ext4::{Error, FileSystem};
use scrim_volume::Volume;

use device::VolumeDevice;
pub(crate) use file::{Lies, VolumeFile};
pub(super) use tree::{Found, VolumeTree};

/// Time after a fault of a volume in which no other fault of its kind is reported.
const QUIET: Duration = Duration::from_secs(10);

/// Callback that is told of faults of a volume's file system.
pub type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// Facts about a volume besides its content.
#[derive(Debug)]
pub struct VolumeIdentity {
    /// Name of the volume in messages.
    pub name: String,
    /// Its header's UUID; empty where that is not known. Files are tagged by it too: file systems that are made
    /// reproducibly have the same numbers for other content.
    pub uuid: String,
    /// True if others may write to it meanwhile.
    pub is_shared: bool,
}

/// A volume whose files are served, by any number of sites.
pub struct VolumeFiles {
    identity: VolumeIdentity,
    volume: Arc<Volume>,
    /// The file system as it was found last.
    fs: RwLock<Arc<FileSystem>>,
    tell: Tell,
    /// Time of the last report of each kind of fault.
    told: Mutex<HashMap<Discriminant<Error>, Instant>>,
}

impl VolumeFiles {
    /// Looks for a file system in a volume. Where it is shared, each walk looks whether somebody has mounted it for
    /// writing.
    ///
    /// # Errors
    /// When there is no file system that can be read.
    pub fn open(volume: Volume, identity: VolumeIdentity, tell: Tell) -> Result<Self, Error> {
        let volume = Arc::new(volume);
        let fs = FileSystem::open(Box::new(VolumeDevice::new(Arc::clone(&volume))))?;
        Ok(Self {
            identity,
            volume,
            fs: RwLock::new(Arc::new(fs)),
            tell,
            told: Mutex::default(),
        })
    }

    /// The volume, which counts what it has done for its files so far.
    #[must_use]
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The file system as it is now. If it was mounted for writing since, and unmounted, it is opened again: nothing
    /// that was known of it counts.
    fn now(&self) -> Result<Arc<FileSystem>, Error> {
        let known = Arc::clone(&self.fs.read().unwrap_or_else(PoisonError::into_inner));
        if self.is_unchanged(&known)? {
            return Ok(known);
        }
        let device = VolumeDevice::new(Arc::clone(&self.volume));
        let fresh = Arc::new(FileSystem::open(Box::new(device))?);
        *self.fs.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&fresh);
        Ok(fresh)
    }

    fn is_unchanged(&self, fs: &FileSystem) -> Result<bool, Error> {
        match self.identity.is_shared {
            true => fs.is_as_it_was(),
            false => Ok(true),
        }
    }

    /// Status that a client is given for a fault. Its details are told to the owner alone, now and then.
    fn status(&self, error: &Error) -> StatusCode {
        if self.is_news(error) {
            (self.tell)(&format!("{}: {error}", self.identity.name));
        }
        match error {
            Error::Encrypted { .. } => StatusCode::FORBIDDEN,
            Error::NotUnmounted => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns whether no fault of this kind was reported just now.
    fn is_news(&self, error: &Error) -> bool {
        let now = Instant::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let last = told.get(&discriminant(error));
        let is_news = last.is_none_or(|&last| now >= last + QUIET);
        if is_news {
            told.insert(discriminant(error), now);
        }
        is_news
    }
}

impl fmt::Debug for VolumeFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeFiles")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}
