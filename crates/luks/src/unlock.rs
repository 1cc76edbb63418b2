//! Unlocking: the volume key from a passphrase.

use std::error::Error;
use std::fmt;

use scrim_sys::memory::SecretBytes;

use crate::digest::Digest;
use crate::error::Unsupported;
use crate::header::Header;
use crate::kdf::{KdfError, KdfGuard, Unguarded};
use crate::key::VolumeKey;
use crate::keyslot::{self, Keyslot, KeyslotKind, Priority};

impl Header {
    /// The key slots to try, in order: the `given` one, or else those that hold the volume key and
    /// do not ask to be ignored, preferred ones first.
    ///
    /// # Errors
    /// [`UnlockError`]: the given slot is not in use or does not hold the volume key, no slot is
    /// left to try, or the header asks for something [`Unsupported`].
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

/// Why there is no volume key.
#[derive(Debug)]
pub enum UnlockError {
    /// The passphrase does not open this key slot.
    WrongPassphrase {
        /// The key slot.
        slot: u8,
    },
    /// The key is not the volume key.
    WrongVolumeKey,
    /// No key slot is in use, or all ask to be ignored.
    NoKeyslot,
    /// The key slot is not in use.
    UnusedKeyslot {
        /// The key slot.
        slot: u8,
    },
    /// The key slot holds some other key.
    UnboundKeyslot {
        /// The key slot.
        slot: u8,
    },
    /// The key slot has no cipher, so that any passphrase would open it.
    NullCipher {
        /// The key slot.
        slot: u8,
    },
    /// Too little key material: the header device is too short.
    Material {
        /// The key slot.
        slot: u8,
        /// Bytes that it takes.
        need: u64,
        /// Bytes that were given.
        have: u64,
    },
    /// The key derivation refused its parameters or failed.
    Kdf {
        /// The key slot.
        slot: u8,
        /// Why.
        source: KdfError,
    },
    /// The digest could not be computed.
    Digest(KdfError),
    /// The header asks for something that Scrim does not have.
    Unsupported(Unsupported),
}

impl UnlockError {
    /// Returns whether a guard has ended the search for a key: other key slots need not be tried.
    #[must_use]
    pub fn is_the_end(&self) -> bool {
        let (Self::Kdf { source, .. } | Self::Digest(source)) = self else {
            return false;
        };
        matches!(source, KdfError::TimeLimit { .. } | KdfError::Interrupted)
    }
}

impl From<Unsupported> for UnlockError {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error)
    }
}

impl fmt::Display for UnlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongPassphrase { slot } => write!(
                f,
                "the passphrase does not open key slot {slot}: try again, or name another slot"
            ),
            Self::WrongVolumeKey => {
                f.write_str("the key is not this volume's key: use the key of this header")
            }
            Self::NoKeyslot => f.write_str(
                "no key slot is left that a passphrase could open: name one that is ignored, or \
                 restore the header from a backup",
            ),
            Self::UnusedKeyslot { slot } => {
                write!(
                    f,
                    "key slot {slot} is not in use: name another one, or none"
                )
            }
            Self::UnboundKeyslot { slot } => write!(
                f,
                "key slot {slot} does not hold the volume key: name another one, or none"
            ),
            Self::NullCipher { slot } => write!(
                f,
                "key slot {slot} has no cipher and would open with any passphrase: it is refused; \
                 make a new volume and copy the data"
            ),
            Self::Material { slot, need, have } => write!(
                f,
                "key slot {slot} takes {need} bytes, but only {have} are there: the header device \
                 has been truncated, restore it from a backup"
            ),
            Self::Kdf { slot, source } => write!(f, "key slot {slot}: {source}"),
            Self::Digest(source) => write!(f, "the digest of the volume key: {source}"),
            Self::Unsupported(error) => error.fmt(f),
        }
    }
}

impl Error for UnlockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Kdf { source, .. } | Self::Digest(source) => Some(source),
            Self::Unsupported(error) => Some(error),
            _ => None,
        }
    }
}
