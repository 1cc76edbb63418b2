//! Adding, changing and removing LUKS1 key slots.
//!
//! A key slot's fields may lie across two sectors, which a cut can tear: they are written while the
//! slot is marked as free. The marker lies in one sector.

use std::ops::Range;

use super::Header;
use super::format::FIRST_AREA;
use super::phdr::{KEYSLOTS, SECTOR};
use crate::error::{KeyslotError, WriteError};
use crate::kdf::Kdf;
use crate::keys::{InPlace, KeyslotChange, Seal};
use crate::layout;
use crate::plan::{Plan, Step};

/// Contents of a key slot: a sealed key.
pub(super) struct Content {
    iterations: u32,
    salt: [u8; 32],
    material: Vec<u8>,
}

impl Header {
    /// Adds a key slot for a key that the caller has checked.
    pub(crate) fn add_keyslot(&mut self, seal: &Seal<'_>) -> Result<KeyslotChange, KeyslotError> {
        let slot = self.free_slot(seal.new.slot)?;
        let content = self.seal(seal)?;
        let mut changed = self.clone();
        let steps = changed.place(slot, &content)?;
        *self = changed;
        Ok(change(slot, false, steps))
    }

    /// Seals the key of a slot anew, which the caller has checked: in a free slot, which the key
    /// keeps, or which shelters it while its own slot is overwritten; or in place.
    pub(crate) fn change_keyslot(
        &mut self,
        slot: u8,
        seal: &Seal<'_>,
        in_place: InPlace,
    ) -> Result<KeyslotChange, KeyslotError> {
        let wanted = seal.new.slot.filter(|&wanted| wanted != slot);
        let keep = seal.new.slot == Some(slot);
        let other = match self.free_slot(wanted) {
            Ok(other) => Some(other),
            Err(KeyslotError::NoFreeSlot) => None,
            Err(error) => return Err(error),
        };
        if other.is_none() && in_place == InPlace::Refuse {
            return Err(KeyslotError::InPlaceOnly { slot });
        }
        let content = self.seal(seal)?;
        let mut changed = self.clone();
        let mut steps = Vec::new();
        if let Some(other) = other {
            steps.extend(changed.place(other, &content)?);
            steps.extend(changed.remove(&[slot])?);
            if keep {
                steps.extend(changed.place(slot, &content)?);
                steps.extend(changed.remove(&[other])?);
            }
        } else {
            steps.extend([changed.fill(slot, &content), Step::Sync]);
            changed.activate(slot);
            steps.extend([changed.write_step()?, Step::Sync]);
        }
        *self = changed;
        let number = other.filter(|_| !keep).unwrap_or(slot);
        Ok(change(number, other.is_none(), steps))
    }

    /// Removes key slots that are in use.
    pub(crate) fn remove_keyslots(&mut self, slots: &[u8]) -> Result<Plan, WriteError> {
        let mut changed = self.clone();
        let steps = changed.remove(slots)?;
        *self = changed;
        Ok(Plan::new(steps))
    }

    /// The areas of free slots, and what lies between the areas.
    pub(crate) fn unused_areas(&self) -> Vec<Range<u64>> {
        let starts = self.phdr.slots.iter().map(|slot| self.area(slot).start);
        let start = starts.min().unwrap_or_default().max(FIRST_AREA);
        let used = self.metadata.keyslots.iter().map(|slot| slot.area.clone());
        layout::gaps(start..self.header_end(), used)
    }

    /// Seals the key as the header wants it.
    pub(super) fn seal(&self, seal: &Seal<'_>) -> Result<Content, KeyslotError> {
        let Kdf::Pbkdf2 { hash, iterations } = seal.new.kdf else {
            return Err(KeyslotError::KdfLuks1);
        };
        let of_header = self.phdr.hash_spec.parse();
        if of_header != Ok(hash) || of_header != Ok(seal.new.af_hash) {
            let hash = self.phdr.hash_spec.clone();
            return Err(KeyslotError::HashLuks1 { hash });
        }
        let cipher = format!("{}-{}", self.phdr.cipher_name, self.phdr.cipher_mode);
        let size = seal.key.len();
        if seal.new.cipher.is_some() && (&seal.cipher, seal.cipher_key_size) != (&cipher, size) {
            return Err(KeyslotError::CipherLuks1);
        }
        let sealed = seal.seal(&cipher, size)?;
        Ok(Content {
            iterations,
            salt: sealed.salt,
            material: sealed.material,
        })
    }

    /// Makes a sealed key the content of a free slot.
    fn place(&mut self, slot: u8, content: &Content) -> Result<Vec<Step>, WriteError> {
        let mut steps = vec![self.fill(slot, content), Step::Sync];
        steps.extend([self.write_step()?, Step::Sync]);
        self.activate(slot);
        steps.extend([self.write_step()?, Step::Sync]);
        Ok(steps)
    }

    fn remove(&mut self, slots: &[u8]) -> Result<Vec<Step>, WriteError> {
        let mut phdr = self.phdr.clone();
        let mut steps = Vec::new();
        for (_, slot) in (0..KEYSLOTS)
            .zip(&mut phdr.slots)
            .filter(|(number, _)| slots.contains(number))
        {
            steps.push(Step::randomise(self.area(slot)));
            slot.active = false;
            slot.iterations = 0;
            slot.salt = [0; 32];
        }
        *self = Self::from_phdr(phdr);
        steps.extend([Step::Sync, self.write_step()?, Step::Sync]);
        Ok(steps)
    }

    /// Fills in a key slot, without marking it as in use, and returns its key material.
    pub(super) fn fill(&mut self, number: u8, content: &Content) -> Step {
        let mut offset = 0;
        if let Some(slot) = self.phdr.slots.get_mut(usize::from(number)) {
            slot.iterations = content.iterations;
            slot.salt = content.salt;
            offset = u64::from(slot.offset) * SECTOR;
        }
        Step::Write {
            offset,
            bytes: content.material.clone(),
        }
    }

    pub(super) fn activate(&mut self, slot: u8) {
        let mut phdr = self.phdr.clone();
        if let Some(slot) = phdr.slots.get_mut(usize::from(slot)) {
            slot.active = true;
        }
        *self = Self::from_phdr(phdr);
    }

    pub(super) fn free_slot(&self, wanted: Option<u8>) -> Result<u8, KeyslotError> {
        let used = |slot: &u8| self.metadata.keyslots.iter().any(|used| used.id == *slot);
        match wanted {
            Some(slot) if slot >= KEYSLOTS => Err(KeyslotError::NoSuchSlot {
                slot,
                count: KEYSLOTS,
            }),
            Some(slot) if used(&slot) => Err(KeyslotError::InUse { slot }),
            Some(slot) => Ok(slot),
            None => (0..KEYSLOTS)
                .find(|slot| !used(slot))
                .ok_or(KeyslotError::NoFreeSlot),
        }
    }

    /// The header's 592 bytes; what follows them up to the first key slot area stays.
    pub(crate) fn write_step(&self) -> Result<Step, WriteError> {
        Ok(Step::Write {
            offset: 0,
            bytes: self.phdr.to_bytes()?,
        })
    }
}

fn change(slot: u8, in_place: bool, steps: Vec<Step>) -> KeyslotChange {
    KeyslotChange {
        slot,
        in_place,
        plan: Plan::new(steps),
    }
}
