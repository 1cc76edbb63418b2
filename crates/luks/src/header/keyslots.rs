//! Key slots: adding, changing and removing them.
//!
//! Every operation checks first, then changes the [`Header`] at once and returns the [`Plan`] that
//! makes the disk follow. No other program may write the header in between; a program holds the lock from
//! reading the header to the end of the plan. When a plan is cut short, the header in memory no
//! longer says what is on the disk: read it again.
//!
//! # What a cut leaves
//!
//! A power cut, or a failed write, at any point of a plan leaves a header that is read again, and
//! in which either every old key or every new key opens its slot. In between, both may.
//!
//! * *add*: the key material becomes durable where nothing refers to it, then the header.
//! * *change*: as above; the header trades the old slot for the new one in a single update, and only
//!   then is the old area overwritten. LUKS1, whose header cannot be updated as a whole, has both
//!   slots for a while. Only where there is no room for the new slot beside the old one is the area
//!   overwritten in place: a cut then loses this slot, and its key if it is the last to hold it. It
//!   has to be allowed by [`InPlace::Allow`].
//! * *remove*: the area is overwritten first, the header follows, as in cryptsetup. A cut between
//!   leaves a header that lists a slot which nothing opens; the other slots are untouched, and
//!   removing the slot again finishes the work. The other order would leave key material that the
//!   header no longer lists, and that no second attempt would destroy.

use scrim_sys::memory::SecretBytes;

use super::Header;
use crate::error::{KeyslotError, UnlockError, WriteError};
use crate::kdf::Unguarded;
use crate::key::VolumeKey;
use crate::keys::{InPlace, KeyslotChange, LastKey, NewDigest, NewKeyslot, Removal, Seal};
use crate::keyslot::{self, Keyslot, KeyslotKind};
use crate::plan::Plan;

/// Prefix of the requirement of a volume that is being reencrypted, the same in each version of it.
const REENCRYPTION: &str = "online-reencrypt";

impl Header {
    /// Adds a key slot for the volume key, which is checked first.
    ///
    /// # Errors
    /// [`KeyslotError`]; neither header nor disk has changed.
    pub fn add_keyslot(
        &mut self,
        key: &VolumeKey,
        passphrase: &SecretBytes,
        new: &NewKeyslot,
    ) -> Result<KeyslotChange, KeyslotError> {
        self.verify_volume_key(key)?;
        let (segment, digest) = self.data_segment_and_digest()?;
        let digest = digest.id;
        let cipher = segment.cipher.to_string();
        let seal = Seal::new(key, passphrase, new, (&cipher, key.len()));
        match self {
            Self::Luks1(header) => header.add_keyslot(&seal),
            Self::Luks2(header) => header.add_keyslot(&seal, digest),
        }
    }

    /// Adds a LUKS2 key slot for a key that encrypts no segment, such as a new
    /// [`VolumeKey::generate`] of any length up to 512 bytes.
    ///
    /// # Errors
    /// [`KeyslotError`]; neither header nor disk has changed.
    pub fn add_unbound_keyslot(
        &mut self,
        key: &VolumeKey,
        passphrase: &SecretBytes,
        new: &NewKeyslot,
        digest: NewDigest,
    ) -> Result<KeyslotChange, KeyslotError> {
        let segment = self.data_segment()?;
        let cipher = segment.cipher.to_string();
        let cipher_key_size = segment.key_size.unwrap_or_default();
        let Self::Luks2(header) = self else {
            return Err(KeyslotError::UnboundLuks1);
        };
        let seal = Seal::new(key, passphrase, new, (&cipher, cipher_key_size));
        header.add_unbound_keyslot(&seal, digest)
    }

    /// Seals the key of a slot anew: with another passphrase, or the same one at another cost or
    /// with another cipher. `key` is what [`Header::unlock_keyslot`] gave; it is checked first.
    ///
    /// A LUKS2 slot keeps its number, priority and tokens. LUKS1 takes a free slot unless the new
    /// one is to have the old number.
    ///
    /// # Errors
    /// [`KeyslotError`]; neither header nor disk has changed.
    pub fn change_keyslot(
        &mut self,
        slot: u8,
        key: &VolumeKey,
        passphrase: &SecretBytes,
        new: &NewKeyslot,
        in_place: InPlace,
    ) -> Result<KeyslotChange, KeyslotError> {
        self.check_editable()?;
        let cipher = self.check_key_of(slot, key)?;
        let seal = Seal::new(key, passphrase, new, (&cipher.0, cipher.1));
        match self {
            Self::Luks1(header) => header.change_keyslot(slot, &seal, in_place),
            Self::Luks2(header) => header.change_keyslot(slot, &seal, in_place),
        }
    }

    /// Removes key slots and destroys what is in them; tokens no longer name them.
    ///
    /// # Errors
    /// [`KeyslotError`], above all [`KeyslotError::LastKey`]; neither header nor disk has changed.
    pub fn remove_keyslots(&mut self, slots: &[u8], last: LastKey) -> Result<Plan, KeyslotError> {
        self.check_editable()?;
        for &slot in slots {
            self.keyslot(slot)?;
        }
        let removal = self.removal(slots);
        if removal.loses_volume() && last == LastKey::Keep {
            return Err(KeyslotError::LastKey {
                slots: removal.lost,
            });
        }
        Ok(self.destroy_keyslots(slots)?)
    }

    /// Removes all key slots, unbound ones too, and destroys whatever an interrupted change may have
    /// left between them. All data is lost; the header stays. If a volume is being reencrypted,
    /// this removes the keys, as cryptsetup does, and leaves the record of the progress, which has no
    /// keys.
    ///
    /// # Errors
    /// [`KeyslotError`]; neither header nor disk has changed.
    pub fn erase(&mut self) -> Result<Plan, KeyslotError> {
        let requirements = self.requirements();
        let reencrypted = |name: &String| name.starts_with(REENCRYPTION);
        let all = requirements.is_empty();
        if !requirements.iter().all(reencrypted) {
            self.check_editable()?;
        }
        let unused = self.wipe_unused_areas();
        let has_key = |slot: &&Keyslot| matches!(slot.kind, KeyslotKind::Passphrase(_));
        let slots = self.keyslots().iter();
        let slots = slots.filter(|slot| all || has_key(slot));
        let slots: Vec<u8> = slots.map(|slot| slot.id).collect();
        Ok(self.destroy_keyslots(&slots)?.then(unused))
    }

    fn destroy_keyslots(&mut self, slots: &[u8]) -> Result<Plan, WriteError> {
        match self {
            Self::Luks1(header) => header.remove_keyslots(slots),
            Self::Luks2(header) => header.remove_keyslots(slots),
        }
    }

    /// Overwrites what lies in the key slots area and belongs to no slot, as an interrupted change
    /// may have left it.
    pub fn wipe_unused_areas(&self) -> Plan {
        Plan::randomise(match self {
            Self::Luks1(header) => header.unused_areas(),
            Self::Luks2(header) => header.unused_areas(),
        })
    }

    /// Tells the consequences of removing these key slots: show them, and ask, before it is done.
    #[must_use]
    pub fn removal(&self, slots: &[u8]) -> Removal {
        let metadata = self.metadata();
        let holders = metadata.volume_key_slots();
        let (lost, left) = holders.into_iter().partition(|slot| slots.contains(slot));
        let emptied = metadata.tokens.iter().filter(|token| {
            !token.keyslots.is_empty() && token.keyslots.iter().all(|slot| slots.contains(slot))
        });
        Removal {
            lost,
            left,
            tokens: emptied.map(|token| token.id).collect(),
        }
    }

    /// Checks that `key` is the key in a slot and returns the cipher that protects it there. The slot has been unlocked
    /// before, so the derivation for its digest needs no guard.
    fn check_key_of(&self, slot: u8, key: &VolumeKey) -> Result<(String, usize), KeyslotError> {
        let keyslot = self.keyslot(slot)?;
        let KeyslotKind::Passphrase(sealed) = &keyslot.kind else {
            return Err(keyslot.not_for_passphrases().into());
        };
        let digest = self
            .metadata()
            .digest_of(slot)
            .ok_or(KeyslotError::NoDigest { slot })?;
        let hash = keyslot::parse_hash(&digest.hash)?;
        let of_slot = keyslot.key_size as usize == key.len()
            && digest
                .matches(key, hash, &Unguarded)
                .map_err(UnlockError::Digest)?;
        if !of_slot {
            return Err(UnlockError::WrongVolumeKey.into());
        }
        Ok((sealed.cipher.clone(), sealed.cipher_key_size as usize))
    }
}
