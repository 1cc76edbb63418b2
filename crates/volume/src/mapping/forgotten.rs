//! A mapping whose key is forgotten: it keeps the devices and says what the table was.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use rustix::event::{EventfdFlags, eventfd};
use scrim_luks::VolumeKey;
use scrim_luks::kdf::{Hash, Kdf};

use super::{Mapping, OpenError, SECTOR, Segment};
use crate::segment::Runner;
use crate::{CryptTable, Target};

/// What is left of a key that is forgotten.
pub(crate) struct ForgottenKey {
    digest: [u8; 32],
    /// Alive while anything is left of the mapping that had the key.
    remains: Weak<()>,
}

impl ForgottenKey {
    /// By what a key is known again. Volume keys are random and as long as this, so that it helps nobody to
    /// guess one. `None` where it cannot be computed.
    fn digest(key: &VolumeKey) -> Option<[u8; 32]> {
        let derivation = Kdf::Pbkdf2 {
            hash: Hash::Sha256,
            iterations: 1000,
        };
        let mut digest = [0; 32];
        derivation
            .derive(key.expose(), b"scrim forgotten key", &mut digest)
            .ok()?;
        Some(digest)
    }

    /// Whether this is the key.
    pub(crate) fn is(&self, key: &VolumeKey) -> bool {
        Self::digest(key) == Some(self.digest)
    }

    /// Whether somebody still has it in memory.
    pub(crate) fn remains(&self) -> bool {
        self.remains.strong_count() > 0
    }
}

impl Mapping {
    /// The same without the key of its only crypt target: a request that comes through fails. `None` where
    /// there is not exactly one key.
    pub(crate) fn without_key(&self) -> Option<Result<Self, OpenError>> {
        let forgotten = ForgottenKey {
            digest: ForgottenKey::digest(self.only_key()?)?,
            remains: Arc::downgrade(&self.alive),
        };
        let retired = eventfd(0, EventfdFlags::CLOEXEC);
        Some(match retired {
            Err(error) => Err(OpenError::Queues(error.into())),
            Ok(retired) => Ok(Self {
                table: self.table_with(None),
                path: self.path,
                segments: self.failing_segments(),
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

    /// What is left of the key, if it is forgotten.
    pub(crate) fn forgotten(&self) -> Option<&ForgottenKey> {
        self.forgotten.as_ref()
    }

    /// The table, as long as the volume is, with `key` in place of each of its own, or with zeros.
    pub(crate) fn table_with(&self, key: Option<&VolumeKey>) -> CryptTable {
        self.table.with_key_until(self.size() / SECTOR, key)
    }

    fn failing_segments(&self) -> Vec<Segment> {
        let segments = self.segments.iter().map(|segment| Segment {
            range: segment.range.clone(),
            runner: Runner::Error,
        });
        segments.collect()
    }

    fn only_key(&self) -> Option<&VolumeKey> {
        let mut keys = self
            .table
            .lines()
            .iter()
            .filter_map(|line| match &line.target {
                Target::Crypt(crypt) => Some(&crypt.key),
                Target::Linear(_) | Target::Zero | Target::Error => None,
            });
        let only = keys.next().filter(|key| key.len() > 0)?;
        keys.next().is_none().then_some(only)
    }
}
