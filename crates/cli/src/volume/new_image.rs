//! A new volume for data of a known size, in a new file or in storage that exists: laid out first, then made, and opened.

use std::sync::Arc;

use scrim_backend::Backend;
use scrim_crypt::SectorSize;
use scrim_luks::{Formatted, Layout, Placement, VolumeKey};
use scrim_sys::memory::SecretBytes;
use scrim_volume::{DataPath, LuksDevice, LuksError, OpenFlags, Unlocked, Volume};

use crate::args::FormatArgs;
use crate::error::{CliError, Exit};
use crate::luks::new_volume::NewVolume;
use crate::storage::Storage;
use crate::transfer::{Existing, Partial, Record};

/// A volume that is to be made.
pub(crate) struct NewImage {
    pub(crate) formatted: Formatted,
    key: VolumeKey,
    passphrase: SecretBytes,
    slot: u8,
    /// Size of the storage that holds header and data, in bytes.
    pub(crate) image_size: u64,
    /// Size of the data in whole sectors, in bytes.
    pub(crate) data_size: u64,
}

/// Size of a volume that is to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ImageSize {
    /// As large as this many bytes of data need.
    OfData(u64),
    /// This many bytes, of which the header takes its part.
    OfImage(u64),
}

impl NewImage {
    /// Asks for the passphrase and lays out the volume.
    pub(crate) fn lay_out(
        new: &NewVolume,
        args: &FormatArgs,
        size: ImageSize,
        sector_size: SectorSize,
    ) -> Result<Self, CliError> {
        let too_large = || CliError::usage("the data is larger than any volume can be");
        let device_len = match size {
            // More than any header takes: how much that is, is what is asked.
            ImageSize::OfData(bytes) => bytes
                .checked_next_multiple_of(sector_size.bytes() as u64)
                .and_then(|bytes| bytes.checked_add(1 << 62))
                .ok_or_else(too_large)?,
            ImageSize::OfImage(bytes) => bytes,
        };
        let layout = Layout {
            placement: Placement::Attached,
            device_len,
            grows: false,
            data_offset: new.data_offset,
        };
        let passphrase = new.ask()?.secret;
        let key = new.key()?;
        let formatted = new.make(&args.image, layout, sector_size, &key, &passphrase)?;
        let extent = formatted
            .header
            .data_segment()
            .map_err(LuksError::from)?
            .extent(Placement::Attached, layout.device_len)
            .map_err(LuksError::from)?;
        let data_size = match size {
            ImageSize::OfData(bytes) => bytes
                .checked_next_multiple_of(sector_size.bytes() as u64)
                .ok_or_else(too_large)?,
            ImageSize::OfImage(bytes) => bytes.saturating_sub(extent.start),
        };
        let image_size = extent.start.checked_add(data_size);
        Ok(Self {
            formatted,
            key,
            passphrase,
            slot: args.key_slot,
            image_size: image_size.ok_or_else(too_large)?,
            data_size,
        })
    }

    /// Makes the file, with space for all of it if it is to be `full`, and the volume in it. A failure leaves nothing.
    pub(crate) fn create(
        &self,
        partial: &Partial,
        full: bool,
        record: &Record,
    ) -> Result<Volume, CliError> {
        let storage = Storage::Local(partial.create(self.image_size, full, record)?);
        let make = || -> Result<Volume, CliError> {
            LuksDevice::write(&self.formatted.plan, &storage)?;
            // The volume is opened as usual, so that a fault of its header is found now.
            let luks = LuksDevice::read(&storage)?;
            let unlocked = luks.unlock(&storage, Some(self.slot), &self.passphrase)?;
            start(Arc::new(storage), &luks, unlocked)
        };
        make().inspect_err(|_| drop(partial.abandon()))
    }

    /// Makes the volume in storage that exists. Its header is written by [`Existing`] when all data is there.
    pub(crate) fn create_in(self, storage: Storage) -> Result<(Volume, Existing), CliError> {
        self.check_fits(&storage)?;
        let data_offset = self.image_size - self.data_size;
        let (storage, slot) = (Arc::new(storage), self.slot);
        let luks = LuksDevice::of(self.formatted.header.clone());
        let key = self.key;
        let volume = start(Arc::clone(&storage), &luks, Unlocked { slot, key })?;
        let (formatted, passphrase) = (self.formatted, self.passphrase);
        let existing = Existing::erase(storage, formatted, data_offset, slot, passphrase)?;
        Ok((volume, existing))
    }

    fn check_fits(&self, storage: &Storage) -> Result<(), CliError> {
        let found = storage.info().size;
        if self.image_size <= found {
            return Ok(());
        }
        Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{} has {found} bytes; the data takes {} and the header {} before it",
                storage.path().display(),
                self.data_size,
                self.image_size - self.data_size
            ),
        ))
    }
}

/// Opens the volume in its storage.
pub(crate) fn start(
    storage: Arc<Storage>,
    luks: &LuksDevice,
    unlocked: Unlocked,
) -> Result<Volume, CliError> {
    let path = storage.path().display().to_string();
    let size = storage.info().size;
    let flags = OpenFlags::default();
    let table = luks.table(unlocked.key, &path, size, Placement::Attached, flags)?;
    let backend: Arc<dyn Backend> = storage;
    Ok(Volume::start(table, DataPath::default(), |_| {
        Ok(Arc::clone(&backend))
    })?)
}
