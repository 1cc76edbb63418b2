//! A volume in a new file, for data of a known size: laid out first, then made, and opened.

use std::sync::Arc;

use scrim_backend::{Backend, FileBackend};
use scrim_crypt::SectorSize;
use scrim_luks::{Formatted, Layout, Placement};
use scrim_sys::memory::SecretBytes;
use scrim_volume::{DataPath, LuksDevice, LuksError, OpenFlags, Unlocked, Volume};

use crate::args::FormatArgs;
use crate::error::CliError;
use crate::luks::new_volume::NewVolume;
use crate::transfer::{Partial, Record};

/// A volume that is to be made in a new file.
pub(crate) struct NewImage {
    pub(crate) formatted: Formatted,
    passphrase: SecretBytes,
    slot: u8,
    /// Size of the file that holds header and data, in bytes.
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
        let key = new.generate_key()?;
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
        let backend = partial.create(self.image_size, full, record)?;
        let make = || -> Result<Volume, CliError> {
            LuksDevice::write(&self.formatted.plan, &backend)?;
            // The volume is opened as usual, so that a fault of its header is found now.
            let luks = LuksDevice::read(&backend)?;
            let unlocked = luks.unlock(&backend, Some(self.slot), &self.passphrase)?;
            start(backend, &luks, unlocked)
        };
        make().inspect_err(|_| drop(partial.abandon()))
    }
}

/// Opens the volume in a file.
pub(crate) fn start(
    backend: FileBackend,
    luks: &LuksDevice,
    unlocked: Unlocked,
) -> Result<Volume, CliError> {
    let path = backend.path().display().to_string();
    let size = backend.info().size;
    let flags = OpenFlags::default();
    let table = luks.table(unlocked.key, &path, size, Placement::Attached, flags)?;
    let backend: Arc<dyn Backend> = Arc::new(backend);
    Ok(Volume::start(table, DataPath::default(), |_| {
        Ok(Arc::clone(&backend))
    })?)
}
