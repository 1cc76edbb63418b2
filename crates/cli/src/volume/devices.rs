//! The devices of a volume, which stay open as long as one of its tables uses them.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use scrim_backend::{Access, Backend, BackendError};

use crate::error::CliError;
use crate::storage::device_names::path_of;
use crate::storage::{Manner, Storage};
use crate::terminal::note;

/// The devices of a volume, and the options for opening more of them.
pub(crate) struct Devices {
    readonly: bool,
    manner: Manner,
    /// The tables own the devices; one that no table uses any more is closed.
    open: Mutex<Vec<Weak<Storage>>>,
}

impl Devices {
    pub(crate) fn new(readonly: bool, manner: Manner) -> Self {
        Self {
            readonly,
            manner,
            open: Mutex::default(),
        }
    }

    /// Opens the device or file that a table calls `name`.
    pub(crate) fn open(&self, name: &str) -> Result<Arc<dyn Backend>, BackendError> {
        Ok(self.open_storage(&path_of(name))?)
    }

    /// Opens the image with a volume's data.
    pub(crate) fn open_image(&self, image: &Path) -> Result<Arc<Storage>, CliError> {
        self.open_storage(image).map_err(|error| {
            let hint = match () {
                () if error.is_busy() => ", or open both with --readonly",
                () if error.forbids_writing() && !self.readonly => ", or open it with --readonly",
                () => "",
            };
            CliError::from(error).followed_by(hint)
        })
    }

    /// Prints a note if the image's server allows only reads and the user did not ask for that.
    fn open_storage(&self, image: &Path) -> Result<Arc<Storage>, BackendError> {
        let access = match self.readonly {
            true => Access::ReadOnly,
            false => Access::ReadWrite,
        };
        let storage = Arc::new(Storage::open_for_volume(image, access, self.manner)?);
        if storage.info().read_only && !self.readonly {
            note(format_args!(
                "scrim: {}: the server offers it read-only, so the volume is read-only",
                image.display()
            ));
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|storage| storage.strong_count() > 0);
        open.push(Arc::downgrade(&storage));
        Ok(storage)
    }

    /// Devices that are open now.
    pub(crate) fn now(&self) -> Vec<Arc<Storage>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().filter_map(Weak::upgrade).collect()
    }
}
