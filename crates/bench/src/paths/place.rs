//! Storage below the volumes of this process.

use std::sync::Arc;

use scrim_backend::{Backend, MemoryBackend};
use scrim_seeded::Random;
use scrim_volume::{DataPath, Volume};

use super::error::PathsError;
use super::plan::{Plan, Storage};
use super::setup::Contender;

/// Storage below the volumes of this process, and its size.
pub(super) struct Place {
    backend: Arc<dyn Backend>,
    /// Bytes that are used of it, a multiple of the block.
    pub(super) size: u64,
}

impl Place {
    /// Finds storage with room for at least one request of `longest` bytes.
    pub(super) fn find(plan: &Plan, longest: usize) -> Result<Self, PathsError> {
        let (backend, bytes): (Arc<dyn Backend>, u64) = match &plan.storage {
            Storage::Ram { bytes } => {
                let len = usize::try_from(*bytes).unwrap_or(usize::MAX);
                (Arc::new(MemoryBackend::new(noise(len))), *bytes)
            }
            Storage::Users(users) => (Arc::clone(&users.backend), users.backend.info().size),
        };
        let size = whole_blocks(bytes, longest)?;
        Ok(Self { backend, size })
    }

    /// A volume on it.
    pub(super) fn start(&self, contender: Contender) -> Result<Volume, PathsError> {
        self.start_by(contender, contender.set_up.path())
    }

    /// Starts a volume in the same way, on another data path.
    pub(super) fn start_by(
        &self,
        contender: Contender,
        path: DataPath,
    ) -> Result<Volume, PathsError> {
        let table = contender.table(self.size)?;
        Ok(Volume::start(table, path, |_| {
            Ok(Arc::clone(&self.backend))
        })?)
    }

    pub(super) fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.backend)
    }
}

/// The part of `bytes` that whole blocks fill, in bytes.
pub(super) fn whole_blocks(bytes: u64, block: usize) -> Result<u64, PathsError> {
    let block = block as u64;
    match bytes / block * block {
        0 => Err(PathsError::Short {
            bytes,
            needed: block,
        }),
        size => Ok(size),
    }
}

/// Bytes that no file system and no memory can compress; one piece of them is repeated.
pub(super) fn noise(len: usize) -> Vec<u8> {
    const UNIT: usize = 1 << 16;
    let unit = Random::new(1).bytes(UNIT);
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let more = UNIT.min(len - bytes.len());
        bytes.extend_from_slice(&unit[..more]);
    }
    bytes
}
