//! Another table for a volume of the kernel.

use scrim_sys::device_mapper::Which;
use scrim_sys::memory::SecretBytes;
use scrim_volume::{Change, CryptTable, Keys, LoadError};

use super::table::KernelTable;
use super::volume::KernelVolume;
use crate::error::{CliError, Exit};

impl KernelVolume {
    /// Loads a table beside the one at work. One that decrypts to other data must be a `change` of meaning.
    pub(crate) fn load_table(&self, text: &SecretBytes, change: Change) -> Result<(), CliError> {
        let text = std::str::from_utf8(text.expose())
            .map_err(|_| CliError::usage("the table is not text"))?;
        // What Scrim does not understand it cannot judge, and it has the four targets that volumes have.
        let new = CryptTable::parse(text)?;
        if change == Change::OfService {
            self.refuse_other_data(&new)?;
        }
        self.load(&KernelTable::new(new.to_text(Keys::Shown))?.targets())
    }

    fn refuse_other_data(&self, new: &CryptTable) -> Result<(), CliError> {
        let active = self.table(Which::Active)?.printed(Keys::Shown);
        let text = std::str::from_utf8(active.expose()).unwrap_or_default();
        let Ok(active) = CryptTable::parse(text) else {
            return Err(CliError::new(
                Exit::WrongDevice,
                format!(
                    "{}: its table names a key in a keyring, or a target that Scrim does not run, so that the new table \
                     cannot be compared with it; load it with --force if it is the right one",
                    self.name.as_str()
                ),
            ));
        };
        if let Some(line) = active.masked_key(new) {
            return Err(LoadError::MaskedKey { line }.into());
        }
        match active.difference(new) {
            Some(difference) => Err(LoadError::Meaning(difference).into()),
            None => Ok(()),
        }
    }
}
