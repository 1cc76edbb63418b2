//! Targets of a transfer: how each becomes whole, and what is left of one that does not.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::fs::{Advice, fadvise};
use scrim_backend::{Access, Backend, Durability, own_file};
use scrim_luks::{Formatted, Plan};
use scrim_sys::memory::SecretBytes;
use scrim_volume::{LuksDevice, LuksError};

use super::partial::Partial;
use super::record::Record;
use crate::error::CliError;
use crate::storage::Storage;

/// Most bytes at the start of existing storage that are erased: both copies of any LUKS header lie in them.
const ERASED: u64 = 16 << 20;

/// A target that is not whole yet.
pub(crate) enum Target {
    /// A new file, which gets its name at the end.
    File(Partial),
    /// Storage that is there already.
    Existing(Existing),
}

/// A device, a part of one or an export that becomes a volume: it gets its header at the end. Until then it holds no
/// volume, neither the new one nor an old one.
pub(crate) struct Existing {
    storage: Arc<Storage>,
    header: Plan,
    /// Writes the noise of areas without a key, while the data is written.
    noise: JoinHandle<Result<(), LuksError>>,
    /// Key slot of the header, and its passphrase.
    slot: u8,
    passphrase: SecretBytes,
}

impl Existing {
    /// Erases what lies before the data of a new volume, durably.
    pub(crate) fn erase(
        storage: Arc<Storage>,
        formatted: Formatted,
        data_offset: u64,
        slot: u8,
        passphrase: SecretBytes,
    ) -> Result<Self, CliError> {
        let erased = 0..data_offset.min(ERASED);
        storage.write_zeroes(erased, Durability::Durable)?;
        let (noise, header) = formatted.plan.apart();
        let noisy = Arc::clone(&storage);
        let noise = thread::Builder::new()
            .name("noise".to_owned())
            .spawn(move || LuksDevice::write(&noise, &*noisy))
            .map_err(|error| CliError::io("start a thread", &error))?;
        Ok(Self {
            storage,
            header,
            noise,
            slot,
            passphrase,
        })
    }

    /// Writes the header, and unlocks it as usual.
    fn finish(self) -> Result<(), CliError> {
        match self.noise.join() {
            Ok(done) => done?,
            Err(panic) => resume_unwind(panic),
        }
        LuksDevice::write(&self.header, &*self.storage)?;
        let luks = LuksDevice::read(&*self.storage)?;
        luks.unlock(&*self.storage, Some(self.slot), &self.passphrase)?;
        Ok(())
    }
}

impl Target {
    /// The storage that takes the bytes.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(partial) => partial.path(),
            Self::Existing(existing) => existing.storage.path(),
        }
    }

    /// Returns whether an interrupted transfer can be taken up again.
    pub(super) fn is_resumable(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Records a position, durably, if an interrupted transfer can be taken up again there.
    pub(super) fn save(&self, record: &Record) -> Result<(), CliError> {
        match self {
            Self::File(partial) => partial.save(record),
            Self::Existing(_) => Ok(()),
        }
    }

    /// Makes it whole; all data is on the disk.
    pub(super) fn finish(self, record: Record) -> Result<(), CliError> {
        match self {
            Self::File(partial) => partial.finish(record),
            Self::Existing(existing) => existing.finish(),
        }
    }

    /// Drops what is on the disk from the kernel's page cache, so that the next read comes from the disk. If that fails,
    /// the kernel's copy is read.
    pub(super) fn drop_cache(&self) {
        if let Ok(file) = own_file::open(self.path(), Access::ReadOnly) {
            let _ = fadvise(&file, 0, None, Advice::DontNeed);
        }
    }
}
