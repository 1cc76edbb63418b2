//! Another size for a volume of the kernel.

use scrim_sys::device_mapper::Which;

use super::key::KeyQuestion;
use super::table::KernelTable;
use super::volume::KernelVolume;
use crate::error::{CliError, Exit};
use crate::storage::device_names::path_of;

impl KernelVolume {
    /// Exchanges the table for one of this many 512-byte sectors.
    pub(crate) fn resize(&self, sectors: u64, question: &KeyQuestion<'_>) -> Result<(), CliError> {
        let most = self.sectors_now()?;
        if sectors == 0 || sectors > most {
            return Err(CliError::usage(format!(
                "{}: {sectors} sectors do not fit its device; give a size from 1 to {most}",
                self.name.as_str()
            )));
        }
        self.exchange_crypt(question, |crypt, _| KernelTable::of_crypt(sectors, &crypt))
    }

    /// Sectors of 512 bytes that the volume has now.
    pub(crate) fn sectors(&self) -> Result<u64, CliError> {
        Ok(self.table(Which::Active)?.sectors())
    }

    /// Sectors of 512 bytes that its device, as large as that is now, allows.
    pub(crate) fn sectors_now(&self) -> Result<u64, CliError> {
        let table = self.table(Which::Active)?;
        let crypt = table.crypt().ok_or_else(|| self.is_no_crypt())?;
        let size = device_sectors(crypt.device)
            .map_err(|error| self.failed("read the size of its device", &error))?;
        let unit = u64::from(crypt.sector_size() / 512).max(1);
        let fits = size.saturating_sub(crypt.offset) / unit * unit;
        match fits {
            0 => Err(CliError::new(
                Exit::WrongDevice,
                format!(
                    "{}: its device {} has become too small",
                    self.name.as_str(),
                    path_of(crypt.device).display()
                ),
            )),
            fits => Ok(fits),
        }
    }
}

/// Size of a block device in 512-byte sectors. A loop device is told of its file's present size first.
fn device_sectors(device: &str) -> std::io::Result<u64> {
    if super::status::backing_file(device).is_some() {
        scrim_sys::loop_device::take_size_of_file(&path_of(device))?;
    }
    let size = std::fs::read_to_string(format!("/sys/dev/block/{device}/size"))?;
    size.trim().parse().map_err(std::io::Error::other)
}
