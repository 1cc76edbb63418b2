//! A mapping whose key is forgotten: it keeps the devices and says what the table was.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::event::{EventfdFlags, eventfd};
use scrim_luks::VolumeKey;

use super::Mapping;
use super::forgotten_key::ForgottenKey;
use crate::error::OpenError;
use crate::table::{CryptTable, SECTOR, TargetSpec};
use crate::target::Target;

impl Mapping {
    /// Makes the same mapping without the key of its only crypt target: a request that comes through fails. `None`
    /// where the number of keys is not one.
    pub(crate) fn without_key(&self) -> Option<Result<Self, OpenError>> {
        let (index, key) = self.only_key()?;
        let forgotten = ForgottenKey::of(&self.targets, index, key, self.size(), &self.alive)?;
        let retired = eventfd(0, EventfdFlags::CLOEXEC);
        Some(match retired {
            Err(error) => Err(OpenError::Queues(error.into())),
            Ok(retired) => Ok(Self {
                table: self.table_with(None),
                path: self.path,
                targets: self.targets.iter().map(Target::failing).collect(),
                backends: self.backends.clone(),
                size: AtomicU64::new(self.size()),
                block_size: self.block_size,
                read_only: self.read_only,
                allow_discards: self.allow_discards,
                retired,
                forgotten: Some(forgotten),
                alive: Arc::new(()),
            }),
        })
    }

    /// Tells whether this mapping, which has the same table but for its key, has the key that is forgotten.
    pub(crate) fn has_key(&self, forgotten: &ForgottenKey) -> bool {
        forgotten.is_of(&self.targets)
    }

    /// Returns the recogniser of the key, if it is forgotten.
    pub(crate) fn forgotten(&self) -> Option<&ForgottenKey> {
        self.forgotten.as_ref()
    }

    /// Returns the table, as long as the volume is, with `key` in place of each of its own, or with zeros.
    pub(crate) fn table_with(&self, key: Option<&VolumeKey>) -> CryptTable {
        self.table.with_key_until(self.size() / SECTOR, key)
    }

    /// Returns the index of the target that has a key, and the key, if there is exactly one.
    fn only_key(&self) -> Option<(usize, &VolumeKey)> {
        let lines = self.table.lines().iter().enumerate();
        let mut keys = lines.filter_map(|(index, line)| match &line.target {
            TargetSpec::Crypt(crypt) => Some((index, &crypt.key)),
            TargetSpec::Linear(_) | TargetSpec::Zero | TargetSpec::Error => None,
        });
        let only = keys.next().filter(|(_, key)| key.len() > 0)?;
        keys.next().is_none().then_some(only)
    }
}
