//! Requests to add, change and remove key slots, and their results.

use scrim_crypt::CipherSpec;
use scrim_sys::memory::SecretBytes;

use crate::error::SealError;
use crate::kdf::{Hash, Kdf};
use crate::key::VolumeKey;
use crate::keyslot::{self, SealSpec, Sealed};
use crate::plan::Plan;

/// Parameters of a new key slot.
#[derive(Debug)]
pub struct NewKeyslot {
    /// Its number; `None` is the first free one, or, when a slot is changed, what cryptsetup takes:
    /// in LUKS2 the same number, in LUKS1 a free one if there is one.
    pub slot: Option<u8>,
    /// The key derivation. LUKS1 has only PBKDF2, with the hash of its header.
    pub kdf: Kdf,
    /// The hash of the anti-forensic splitter. LUKS1 has only the hash of its header.
    pub af_hash: Hash,
    /// The cipher of the key slot area; `None` is that of the slot that is changed, or that of the
    /// data, or aes-xts-plain64 where that may not protect a key slot. LUKS1 has only the data's.
    pub cipher: Option<KeyslotCipher>,
}

/// A cipher for a key slot area.
#[derive(Debug, Clone)]
pub struct KeyslotCipher {
    pub spec: CipherSpec,
    /// Bytes of its key, which is derived from the passphrase.
    pub key_size: usize,
}

/// The digest of a new unbound key.
#[derive(Debug, Clone, Copy)]
pub struct NewDigest {
    pub hash: Hash,
    pub iterations: u32,
}

/// Permission to overwrite a key slot where it lies, if there is no other way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InPlace {
    /// Returns [`KeyslotError::InPlaceOnly`](crate::KeyslotError::InPlaceOnly) where there is no other way.
    Refuse,
    /// Yes, though a cut may lose the key slot.
    Allow,
}

/// Permission to remove the last key slots that hold the volume key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastKey {
    /// Returns [`KeyslotError::LastKey`](crate::KeyslotError::LastKey) where no other slot holds the key.
    Keep,
    /// Yes, though all data is lost with them.
    Lose,
}

/// A key slot that was made, and how to write it.
#[derive(Debug)]
#[must_use = "a key slot that is made has yet to be written"]
pub struct KeyslotChange {
    pub slot: u8,
    /// True if the plan overwrites the only copy of a key.
    pub in_place: bool,
    /// The plan that writes it.
    pub plan: Plan,
}

/// Consequences of removing some key slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The slots to remove that hold the volume key.
    pub lost: Vec<u8>,
    /// The slots that still hold the volume key afterwards. A passphrase opens each, if it is
    /// still known.
    pub left: Vec<u8>,
    /// The tokens that would name no key slot any more.
    pub tokens: Vec<u8>,
}

impl Removal {
    /// Returns whether the data would be lost, as nothing would be left that opens the volume.
    #[must_use]
    pub fn loses_volume(&self) -> bool {
        !self.lost.is_empty() && self.left.is_empty()
    }
}

/// A key that is to be sealed into a slot, and how.
pub(crate) struct Seal<'a> {
    pub(crate) key: &'a VolumeKey,
    passphrase: &'a SecretBytes,
    pub(crate) new: &'a NewKeyslot,
    pub(crate) cipher: String,
    pub(crate) cipher_key_size: usize,
}

impl<'a> Seal<'a> {
    /// `default` is the cipher that is taken if none is asked for, with the length of its key.
    pub(crate) fn new(
        key: &'a VolumeKey,
        passphrase: &'a SecretBytes,
        new: &'a NewKeyslot,
        default: (&str, usize),
    ) -> Self {
        let (cipher, cipher_key_size) = match &new.cipher {
            Some(cipher) => (keyslot::stored_name(&cipher.spec), cipher.key_size),
            None => keyslot::cipher_for_new(default),
        };
        Self {
            key,
            passphrase,
            new,
            cipher,
            cipher_key_size,
        }
    }

    /// Seals the key with this cipher, and as asked for otherwise.
    pub(crate) fn seal(&self, cipher: &str, cipher_key_size: usize) -> Result<Sealed, SealError> {
        let spec = SealSpec {
            cipher,
            cipher_key_size,
            kdf: &self.new.kdf,
            af_hash: self.new.af_hash,
        };
        keyslot::seal(self.key, self.passphrase, &spec)
    }
}
