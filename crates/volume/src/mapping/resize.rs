//! A volume whose device has grown or shrunk.

use std::fmt;
use std::sync::atomic::Ordering;

use scrim_backend::BackendError;
use scrim_sys::memory::SecretBytes;

use super::Mapping;
use crate::table::{Keys, SECTOR};

impl Mapping {
    /// Sets the volume's size to `size` bytes. Requests that have begun keep the size that they began
    /// with. Data behind a new end stays on the device; behind the old end the volume shows the device's
    /// contents, decrypted.
    ///
    /// # Errors
    /// [`ResizeError`]; the size has not changed.
    pub(crate) fn resize(&self, size: u64) -> Result<(), ResizeError> {
        let [target] = &self.targets[..] else {
            return Err(ResizeError::Table);
        };
        let (backend, start) = target.storage().ok_or(ResizeError::Table)?;
        let unit = target.block_size() as u64;
        if size == 0 || !size.is_multiple_of(unit) {
            return Err(ResizeError::Unit { size, unit });
        }
        let room = backend.measure()?.size.saturating_sub(start) / unit * unit;
        if size > room {
            return Err(ResizeError::TooLarge { size, room });
        }
        self.size.store(size, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the table as text, as long as the volume is now; see
    /// [`CryptTable::to_text`](crate::CryptTable::to_text).
    pub(crate) fn table_text(&self, keys: Keys) -> SecretBytes {
        self.table.to_text_until(self.size() / SECTOR, keys)
    }
}

/// Reason why a volume keeps its size.
#[derive(Debug)]
pub enum ResizeError {
    /// The volume is not one target on one device.
    Table,
    /// The size must be a multiple of the encryption sector, and not zero.
    Unit {
        /// The size that was asked for, in bytes.
        size: u64,
        /// The encryption sector, in bytes.
        unit: u64,
    },
    /// The device is shorter than the size that was asked for.
    TooLarge {
        /// The size that was asked for, in bytes.
        size: u64,
        /// The largest size that the device has room for, in bytes.
        room: u64,
    },
    /// Another table is loaded, for the size that the volume has.
    Loaded,
    /// The volume's key is forgotten.
    KeyForgotten,
    /// The device does not tell its size.
    Backend(BackendError),
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table => f.write_str(
                "its table has more than one target, or none on a device: open it with another table",
            ),
            Self::Unit { size, unit } => write!(
                f,
                "{size} bytes are not a size that it can have: use a multiple of its encryption \
                 sector, {unit} bytes"
            ),
            Self::TooLarge { size, room } => write!(
                f,
                "its device has room for {} sectors, and {} were asked for: make the device longer \
                 first",
                room / SECTOR,
                size / SECTOR
            ),
            Self::Loaded => f.write_str(
                "a table is loaded for the size that it has; `scrim resume` puts it to work, `scrim \
                 clear` drops it",
            ),
            Self::KeyForgotten => f.write_str(
                "its key is forgotten: `scrim luksResume` it first",
            ),
            Self::Backend(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ResizeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Backend(error) => Some(error),
            Self::Table
            | Self::Unit { .. }
            | Self::TooLarge { .. }
            | Self::Loaded
            | Self::KeyForgotten => None,
        }
    }
}

impl From<BackendError> for ResizeError {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}
