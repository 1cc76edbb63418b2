//! A mapping whose key is forgotten: it keeps the devices and says what the table was.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use rustix::event::{EventfdFlags, eventfd};
use scrim_luks::VolumeKey;
use scrim_luks::kdf::{Hash, Kdf};
use scrim_sys::memory::SecretBytes;

use super::Mapping;
use crate::error::OpenError;
use crate::table::{CryptTable, SECTOR, TargetSpec};
use crate::target::Target;

/// Recogniser of a key that is forgotten, by the ciphertext that it makes.
///
/// The cipher, which keeps its keys in memory for secrets, encrypts a sector of zeros behind the volume's end, and the
/// digest of that is kept. No hash ever sees the key itself, of which it would leave a copy on the stack.
pub(crate) struct ForgottenKey {
    /// Index of the target whose key it is.
    target: usize,
    /// Offset from the target's start, in bytes, at which the volume has no data.
    offset: u64,
    key_len: usize,
    digest: [u8; 32],
    /// Alive while any part is left of the mapping that had the key.
    remains: Weak<()>,
}

impl ForgottenKey {
    /// `None` where `mapping` does not have exactly one key, or its digest cannot be computed.
    fn of(mapping: &Mapping) -> Option<Self> {
        let (target, key) = mapping.only_key()?;
        let sealed = mapping.targets.get(target)?;
        let end = mapping.size().saturating_sub(sealed.range.start);
        let offset = end.checked_next_multiple_of(sealed.unit() as u64)?;
        Some(Self {
            target,
            offset,
            key_len: key.len(),
            digest: digest(sealed, offset)?,
            remains: Arc::downgrade(&mapping.alive),
        })
    }

    /// Tells whether `key` may be the one: it has the same length.
    pub(crate) fn fits(&self, key: &VolumeKey) -> bool {
        key.len() == self.key_len
    }

    /// Tells whether `mapping`, which has the same table but for its key, has this key.
    pub(crate) fn is_of(&self, mapping: &Mapping) -> bool {
        let sealed = mapping.targets.get(self.target);
        sealed.and_then(|sealed| digest(sealed, self.offset)) == Some(self.digest)
    }

    /// Tells whether any thread still has the key in memory.
    pub(crate) fn remains(&self) -> bool {
        self.remains.strong_count() > 0
    }
}

/// Returns a digest of zeros that are encrypted for `offset`. With a stream cipher such a sector, were it kept
/// itself, would reveal every sector with the same IV to its reader.
fn digest(target: &Target, offset: u64) -> Option<[u8; 32]> {
    let len = target.unit();
    let mut sealed = SecretBytes::zeroed(len);
    target.encrypt(offset, &vec![0; len], sealed.expose_mut());
    let derivation = Kdf::Pbkdf2 {
        hash: Hash::Sha256,
        iterations: 1000,
    };
    let mut digest = [0; 32];
    derivation
        .derive(sealed.expose(), b"scrim forgotten key", &mut digest)
        .ok()?;
    Some(digest)
}

impl Mapping {
    /// Makes the same mapping without the key of its only crypt target: a request that comes through fails. `None`
    /// where the number of keys is not one.
    pub(crate) fn without_key(&self) -> Option<Result<Self, OpenError>> {
        let forgotten = ForgottenKey::of(self)?;
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
