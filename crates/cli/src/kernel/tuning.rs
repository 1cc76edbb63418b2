//! Flags of a volume of the kernel that change again and again while it is measured.
//!
//! Each change is one load of a table and one exchange, in which the kernel itself holds requests. Between changes the
//! original table is loaded beside the one at work, so that `resume` alone goes back, without the key. If this process is
//! killed, requests go on; the record that the caller keeps says which flags the volume had.

use rustix::mm::{MlockAllFlags, mlockall};
use scrim_sys::device_mapper::{Pending, Which};
use scrim_sys::keyring::LogonKey;
use scrim_volume::OpenFlags;

use super::key::KeyQuestion;
use super::table::{KernelTable, flags_of};
use super::volume::KernelVolume;
use crate::error::CliError;

/// A volume whose flags change; it goes back to those that it had when this is dropped.
pub(crate) struct Tuning<'a> {
    volume: &'a KernelVolume,
    original: KernelTable,
    /// The tables to choose from.
    tables: Vec<KernelTable>,
    /// Index of the table at work; `None` for the original.
    at_work: Option<usize>,
    /// In this thread's keyring, for the kernel to find whenever a table is loaded.
    _key: Option<LogonKey>,
}

impl KernelVolume {
    /// Flags of the table at work.
    pub(crate) fn flags(&self) -> Result<OpenFlags, CliError> {
        let table = self.table(Which::Active)?;
        let crypt = table.crypt().ok_or_else(|| self.is_no_crypt())?;
        Ok(flags_of(&crypt))
    }

    /// Version of the kernel's crypt target.
    pub(crate) fn crypt_version(&self) -> Result<[u32; 3], CliError> {
        let targets = self.mapper.control().targets();
        let targets =
            targets.map_err(|error| self.failed("read the versions of targets", &error))?;
        let crypt = targets.into_iter().find(|target| target.name == "crypt");
        Ok(crypt.map_or([0; 3], |crypt| crypt.version))
    }

    /// Goes back to `original` flags after a change was cut short.
    pub(crate) fn restore_flags(
        &self,
        original: OpenFlags,
        question: &KeyQuestion<'_>,
    ) -> Result<(), CliError> {
        let is_loaded = self.state.inactive_table
            && self
                .table(Which::Inactive)?
                .crypt()
                .is_some_and(|crypt| flags_of(&crypt) == original);
        if self.flags()? == original {
            return if self.state.inactive_table {
                self.clear()
            } else {
                Ok(())
            };
        }
        if is_loaded {
            return self.mapper.resume(&self.name, Pending::Held);
        }
        if self.state.inactive_table {
            self.clear()?;
        }
        self.replace_crypt(question, |crypt, sectors| {
            KernelTable::of_crypt(sectors, &crypt.with_flags(original))
        })
    }

    /// Prepares to change between these flags.
    pub(crate) fn tuning(
        &self,
        flags: &[OpenFlags],
        question: &KeyQuestion<'_>,
    ) -> Result<Tuning<'_>, CliError> {
        self.refuse_loaded()?;
        stay_in_memory()?;
        let original = self.table(Which::Active)?;
        let crypt = original.crypt().ok_or_else(|| self.is_no_crypt())?;
        let key = self.key_for(&crypt, question)?;
        let sectors = original.sectors();
        let table =
            |flags: &OpenFlags| KernelTable::of_crypt(sectors, &crypt.clone().with_flags(*flags));
        let tables = flags.iter().map(table).collect();
        Ok(Tuning {
            volume: self,
            tables,
            at_work: None,
            _key: key,
            original,
        })
    }
}

/// Locks this process's memory: a page that it needs between a load and the exchange could be on this very device.
fn stay_in_memory() -> Result<(), CliError> {
    let locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE);
    locked.map_err(|error| CliError::io("lock the memory of this process", &error.into()))
}

impl Tuning<'_> {
    /// Puts flags to work, by their index.
    pub(crate) fn apply(&mut self, index: usize) -> Result<(), CliError> {
        if self.at_work == Some(index) {
            return Ok(());
        }
        self.volume.exchange(&self.tables[index])?;
        self.at_work = Some(index);
        self.volume.load(&self.original.targets())
    }

    /// Puts other flags to work for good.
    pub(crate) fn keep(&mut self, flags: OpenFlags) -> Result<(), CliError> {
        let crypt = self
            .original
            .crypt()
            .ok_or_else(|| self.volume.is_no_crypt())?;
        let table = KernelTable::of_crypt(self.original.sectors(), &crypt.with_flags(flags));
        self.volume.exchange(&table)?;
        self.at_work = None;
        Ok(())
    }

    /// Goes back to the original table.
    pub(crate) fn restore(&mut self) -> Result<(), CliError> {
        if self.at_work.take().is_none() {
            return Ok(());
        }
        // It is loaded, unless that failed.
        self.volume.exchange(&self.original)
    }
}

impl Drop for Tuning<'_> {
    fn drop(&mut self) {
        // An error is on its way, or `restore` has reported this one.
        let _ = self.restore();
    }
}
