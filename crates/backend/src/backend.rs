//! The trait of all storage.

use std::ops::Range;

use crate::error::BackendError;
use crate::header_lock::{HeaderLock, LockKind};
use crate::medium::Medium;

/// Moment at which a write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Done when later reads see it; [`Backend::flush`] makes it durable.
    Cached,
    /// Done when it survives a power cut (`FUA`).
    Durable,
}

/// Size and mode of a backend as of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Size in bytes. A file can grow or shrink under us: this is the size when it was opened, or when
    /// [`Backend::measure`] last looked.
    pub size: u64,
    /// True if writes are refused.
    pub read_only: bool,
}

/// A store of bytes, addressed in bytes, shared between threads.
///
/// Every method may be called from any thread at any time; a method returns when its work is done.
/// Overlapping concurrent writes leave one of their results, sector by sector, as disks do.
pub trait Backend: Send + Sync {
    /// Returns the backend's size, and whether it refuses writes.
    fn info(&self) -> Info;

    /// Returns the medium of the storage, for a caller that chooses how to make requests.
    fn medium(&self) -> Medium<'_> {
        Medium::Memory
    }

    /// Measures the storage again. [`Backend::info`] reports that size from now on.
    ///
    /// # Errors
    /// When the storage does not say; the size stays as it was.
    fn measure(&self) -> Result<Info, BackendError> {
        Ok(self.info())
    }

    /// Fills `buffer` from `offset` (bytes).
    ///
    /// # Errors
    /// When the range passes the end, or the storage fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError>;

    /// Writes all of `data` at `offset` (bytes).
    ///
    /// # Errors
    /// When the range passes the end, the backend is read-only or full, or the storage fails.
    fn write_at(
        &self,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), BackendError>;

    /// Makes every write that has returned durable. Once it has failed it fails for good: the
    /// kernel forgets which pages it could not write, so a later success would be wrong.
    ///
    /// # Errors
    /// When this or an earlier flush failed.
    fn flush(&self) -> Result<(), BackendError>;

    /// Discards a range (bytes), which is no longer needed. What it reads as afterwards is undefined.
    ///
    /// # Errors
    /// When the storage fails. Storage that cannot discard does nothing, successfully.
    fn discard(&self, range: Range<u64>) -> Result<(), BackendError>;

    /// Makes a range (bytes) read as zeros.
    ///
    /// # Errors
    /// As for [`Backend::write_at`].
    fn write_zeroes(&self, range: Range<u64>, durability: Durability) -> Result<(), BackendError>;

    /// Takes the lock under which LUKS headers are read and written, waiting a few seconds for
    /// it, and holds it until the result is dropped.
    ///
    /// # Errors
    /// When another program keeps the lock.
    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError>;
}
