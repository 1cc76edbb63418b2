//! Unlocking: the volume key from a passphrase.

use scrim_sys::memory::SecretBytes;

use super::Header;
use crate::digest::Digest;
use crate::error::UnlockError;
use crate::kdf::{KdfGuard, Unguarded};
use crate::key::VolumeKey;
use crate::keyslot::{self, Keyslot, KeyslotKind, Priority};

impl Header {
    /// The key slots to try, in order: the `given` one, or else those that hold the volume key and
    /// do not ask to be ignored, preferred ones first.
    ///
    /// # Errors
    /// [`UnlockError`]: the given slot is not in use or does not hold the volume key, no slot is
    /// left to try, or the header asks for something [`Unsupported`](crate::Unsupported).
    pub fn keyslots_to_try(&self, given: Option<u8>) -> Result<Vec<u8>, UnlockError> {
        let (_, digest) = self.data_segment_and_digest()?;
        if let Some(slot) = given {
            return self.bound_keyslot(slot, digest).map(|slot| vec![slot.id]);
        }
        let mut slots: Vec<&Keyslot> = self
            .keyslots()
            .iter()
            .filter(|slot| digest.keyslots.contains(&slot.id))
            .filter(|slot| slot.priority != Priority::Ignore)
            .filter(|slot| matches!(slot.kind, KeyslotKind::Passphrase(_)))
            .collect();
        // A stable sort: slots of one priority stay in the order of their numbers.
        slots.sort_by_key(|slot| std::cmp::Reverse(slot.priority));
        if slots.is_empty() {
            return Err(UnlockError::NoKeyslot);
        }
        Ok(slots.into_iter().map(|slot| slot.id).collect())
    }

    /// Opens one key slot. `material` is the content of the header device in the slot's
    /// [`Keyslot::material`].
    ///
    /// The key that comes out has the right length for the data segment and its digest.
    ///
    /// # Errors
    /// [`UnlockError`], above all [`UnlockError::WrongPassphrase`].
    pub fn unlock(
        &self,
        slot: u8,
        material: &[u8],
        passphrase: &SecretBytes,
    ) -> Result<VolumeKey, UnlockError> {
        self.unlock_guarded(slot, material, passphrase, &Unguarded)
    }

    /// Like [`Header::unlock`], until `guard` stops it.
    ///
    /// # Errors
    /// As for [`Header::unlock`]; what the guard says is in [`UnlockError::Kdf`] or
    /// [`UnlockError::Digest`].
    pub fn unlock_guarded(
        &self,
        slot: u8,
        material: &[u8],
        passphrase: &SecretBytes,
        guard: &dyn KdfGuard,
    ) -> Result<VolumeKey, UnlockError> {
        // What no key would open is refused before any time is spent on the passphrase.
        let (_, digest) = self.data_segment_and_digest()?;
        let keyslot = self.bound_keyslot(slot, digest)?;
        open(keyslot, digest, material, passphrase, guard)
    }

    /// Opens one key slot, whichever key it holds, including an unbound slot, whose key is not the
    /// volume's.
    ///
    /// # Errors
    /// [`UnlockError`], above all [`UnlockError::WrongPassphrase`].
    pub fn unlock_keyslot(
        &self,
        slot: u8,
        material: &[u8],
        passphrase: &SecretBytes,
    ) -> Result<VolumeKey, UnlockError> {
        self.unlock_keyslot_guarded(slot, material, passphrase, &Unguarded)
    }

    /// Like [`Header::unlock_keyslot`], until `guard` stops it.
    ///
    /// # Errors
    /// As for [`Header::unlock_guarded`].
    pub fn unlock_keyslot_guarded(
        &self,
        slot: u8,
        material: &[u8],
        passphrase: &SecretBytes,
        guard: &dyn KdfGuard,
    ) -> Result<VolumeKey, UnlockError> {
        let keyslot = self.keyslot(slot)?;
        let digest = self.metadata().digest_of(slot);
        let digest = digest.ok_or(UnlockError::UnboundKeyslot { slot })?;
        open(keyslot, digest, material, passphrase, guard)
    }

    /// Checks that `key` is the volume key: first its length, which a digest by PBKDF2 does not
    /// always notice, then its digest.
    ///
    /// # Errors
    /// [`UnlockError`], above all [`UnlockError::WrongVolumeKey`].
    pub fn verify_volume_key(&self, key: &VolumeKey) -> Result<(), UnlockError> {
        self.verify_volume_key_guarded(key, &Unguarded)
    }

    /// Like [`Header::verify_volume_key`], until `guard` stops it.
    ///
    /// # Errors
    /// As for [`Header::verify_volume_key`], and what the guard says.
    pub fn verify_volume_key_guarded(
        &self,
        key: &VolumeKey,
        guard: &dyn KdfGuard,
    ) -> Result<(), UnlockError> {
        let (segment, digest) = self.data_segment_and_digest()?;
        if segment.key_size.is_some_and(|size| size != key.len()) {
            return Err(UnlockError::WrongVolumeKey);
        }
        keyslot::check_key_size(&segment.cipher, key.len())?;
        let hash = keyslot::parse_hash(&digest.hash)?;
        match digest.matches(key, hash, guard) {
            Ok(true) => Ok(()),
            Ok(false) => Err(UnlockError::WrongVolumeKey),
            Err(source) => Err(UnlockError::Digest(source)),
        }
    }

    fn bound_keyslot(&self, slot: u8, digest: &Digest) -> Result<&Keyslot, UnlockError> {
        let keyslot = self.keyslot(slot)?;
        if digest.keyslots.contains(&slot) {
            Ok(keyslot)
        } else {
            Err(UnlockError::UnboundKeyslot { slot })
        }
    }
}

/// The key in a slot, if the digest knows it.
fn open(
    keyslot: &Keyslot,
    digest: &Digest,
    material: &[u8],
    passphrase: &SecretBytes,
    guard: &dyn KdfGuard,
) -> Result<VolumeKey, UnlockError> {
    let hash = keyslot::parse_hash(&digest.hash)?;
    let key = VolumeKey::new(keyslot.open(material, passphrase, guard)?);
    match digest.matches(&key, hash, guard) {
        Ok(true) => Ok(key),
        Ok(false) => Err(UnlockError::WrongPassphrase { slot: keyslot.id }),
        Err(source) => Err(UnlockError::Digest(source)),
    }
}
