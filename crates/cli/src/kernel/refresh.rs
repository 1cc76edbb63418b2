//! Other flags for a volume of the kernel.

use std::path::PathBuf;

use scrim_sys::device_mapper::Which;
use scrim_volume::OpenFlags;

use super::key::KeyQuestion;
use super::table::{CryptArguments, KernelTable};
use super::volume::KernelVolume;
use crate::error::{CliError, Exit};

impl KernelVolume {
    /// Exchanges the table for one with these flags, and no others. Requests go on.
    pub(crate) fn set_flags(
        &self,
        flags: OpenFlags,
        question: &KeyQuestion<'_>,
    ) -> Result<(), CliError> {
        self.exchange_crypt(question, |crypt, sectors| {
            KernelTable::of_crypt(sectors, &crypt.with_flags(flags))
        })
    }

    /// Exchanges the table for one that `change` makes of the arguments and the length of its only target, unless another
    /// one is loaded.
    pub(super) fn exchange_crypt(
        &self,
        question: &KeyQuestion<'_>,
        change: impl FnOnce(CryptArguments<'_>, u64) -> KernelTable,
    ) -> Result<(), CliError> {
        self.refuse_loaded()?;
        self.replace_crypt(question, change)
    }

    /// As [`exchange_crypt`](Self::exchange_crypt); a table that is loaded is lost.
    pub(super) fn replace_crypt(
        &self,
        question: &KeyQuestion<'_>,
        change: impl FnOnce(CryptArguments<'_>, u64) -> KernelTable,
    ) -> Result<(), CliError> {
        let table = self.table(Which::Active)?;
        let crypt = table.crypt().ok_or_else(|| self.is_no_crypt())?;
        let key = self.key_for(&crypt, question)?;
        self.exchange(&change(crypt, table.sectors()))?;
        drop(key);
        Ok(())
    }

    /// Refuses a volume with a table that somebody has loaded, and that a change would drop.
    pub(super) fn refuse_loaded(&self) -> Result<(), CliError> {
        if !self.state.inactive_table {
            return Ok(());
        }
        Err(CliError::new(
            Exit::Busy,
            format!(
                "{0}: a table is loaded already; put it to work (scrim resume {0}) or drop it (scrim clear {0}) first",
                self.name.as_str()
            ),
        ))
    }

    /// Device of the only target, where its header is if that is not detached.
    pub(crate) fn header_device(&self) -> Result<PathBuf, CliError> {
        let table = self.table(Which::Active)?;
        let crypt = table.crypt().ok_or_else(|| self.is_no_crypt())?;
        Ok(self.header_path(&crypt))
    }

    pub(super) fn is_no_crypt(&self) -> CliError {
        CliError::usage(format!(
            "{}: its table is not one crypt target; exchange it with `scrim reload`",
            self.name.as_str()
        ))
    }
}
