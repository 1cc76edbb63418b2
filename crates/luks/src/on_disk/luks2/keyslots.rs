//! Adding, changing and removing LUKS2 key slots.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Header;
use super::limits::{MAX_DIGESTS, MAX_KEYSLOTS};
use crate::af;
use crate::digest;
use crate::document::{member, object};
use crate::error::{KeyslotError, WriteError};
use crate::kdf::{Argon2Cost, Kdf, KdfError};
use crate::key::VolumeKey;
use crate::keys::{InPlace, KeyslotChange, NewDigest, Seal};
use crate::layout::{self, BLOCK, align_up};
use crate::plan::{Plan, Step};
use crate::random;

impl Header {
    /// Adds a key slot for a key that the caller has checked, which has this digest.
    pub(crate) fn add_keyslot(
        &mut self,
        seal: &Seal<'_>,
        digest: u8,
    ) -> Result<KeyslotChange, KeyslotError> {
        let mut changed = self.clone();
        let (slot, material) = changed.insert_keyslot(seal, digest)?;
        let mut steps = vec![material, Step::Sync];
        steps.extend(changed.update_steps()?);
        *self = changed;
        Ok(KeyslotChange {
            slot,
            in_place: false,
            plan: Plan::new(steps),
        })
    }

    /// Adds a key slot for a key of its own, with a digest of its own.
    pub(crate) fn add_unbound_keyslot(
        &mut self,
        seal: &Seal<'_>,
        new: NewDigest,
    ) -> Result<KeyslotChange, KeyslotError> {
        let digests = &self.metadata.digests;
        let id = (0..MAX_DIGESTS)
            .find(|id| digests.iter().all(|digest| digest.id != *id))
            .ok_or(KeyslotError::NoFreeDigest)?;
        let salt = random::bytes().map_err(WriteError::from)?;
        let digest = digest_json(seal.key, new, &salt, &[]).map_err(KeyslotError::Digest)?;
        let mut changed = self.clone();
        changed.change_document(|document| {
            if let Some(digests) = member(document, "digests") {
                digests.insert(id.to_string(), digest);
            }
        })?;
        let change = changed.add_keyslot(seal, id)?;
        *self = changed;
        Ok(change)
    }

    /// Seals the key of a slot anew, which the caller has checked. Members that are not about the
    /// sealing stay, those that Scrim does not know too.
    pub(crate) fn change_keyslot(
        &mut self,
        slot: u8,
        seal: &Seal<'_>,
        in_place: InPlace,
    ) -> Result<KeyslotChange, KeyslotError> {
        let number = match seal.new.slot {
            Some(other) if other != slot => self.free_slot(Some(other))?,
            _ => slot,
        };
        let old = self.keyslot_area(slot);
        let (area, overwrites) = match self.free_area(area_len(seal.key.len())) {
            Ok(area) => (area, false),
            Err(KeyslotError::NoRoom { .. }) if in_place == InPlace::Allow => (old.clone(), true),
            Err(KeyslotError::NoRoom { .. }) => return Err(KeyslotError::InPlaceOnly { slot }),
            Err(error) => return Err(error),
        };
        let (members, material) = sealed_members(seal, &area)?;
        let mut changed = self.clone();
        changed.change_document(|document| {
            let keyslots = member(document, "keyslots");
            if let Some(Value::Object(keyslot)) =
                keyslots.and_then(|keyslots| keyslots.get_mut(&slot.to_string()))
            {
                keyslot.extend(members);
            }
            if number != slot {
                renumber(document, slot, number);
            }
        })?;
        let mut steps = vec![material, Step::Sync];
        steps.extend(changed.update_steps()?);
        if !overwrites {
            steps.extend([Step::randomise(old), Step::Sync]);
        }
        *self = changed;
        Ok(KeyslotChange {
            slot: number,
            in_place: overwrites,
            plan: Plan::new(steps),
        })
    }

    /// Removes key slots that are in use, and the digests that are then of no key.
    pub(crate) fn remove_keyslots(&mut self, slots: &[u8]) -> Result<Plan, WriteError> {
        let mut steps: Vec<Step> = slots
            .iter()
            .map(|&slot| Step::randomise(self.keyslot_area(slot)))
            .collect();
        steps.push(Step::Sync);
        let mut changed = self.clone();
        changed.change_document(|document| {
            for slot in slots {
                forget(document, *slot);
            }
            let empty = |list: &Value| list.as_array().is_some_and(Vec::is_empty);
            if let Some(digests) = member(document, "digests") {
                digests.retain(|_, digest| {
                    !(empty(&digest["keyslots"]) && empty(&digest["segments"]))
                });
            }
        })?;
        steps.extend(changed.update_steps()?);
        *self = changed;
        Ok(Plan::new(steps))
    }

    /// Puts a key slot into the document and returns its number and key material.
    pub(super) fn insert_keyslot(
        &mut self,
        seal: &Seal<'_>,
        digest: u8,
    ) -> Result<(u8, Step), KeyslotError> {
        let slot = self.free_slot(seal.new.slot)?;
        let area = self.free_area(area_len(seal.key.len()))?;
        let (members, material) = sealed_members(seal, &area)?;
        self.change_document(|document| {
            let mut keyslot = Map::new();
            keyslot.insert("type".to_owned(), json!("luks2"));
            keyslot.extend(members);
            if let Some(keyslots) = member(document, "keyslots") {
                keyslots.insert(slot.to_string(), Value::Object(keyslot));
            }
            let digest =
                member(document, "digests").and_then(|all| all.get_mut(&digest.to_string()));
            if let Some(Value::Array(keyslots)) = digest.and_then(|one| one.get_mut("keyslots")) {
                keyslots.push(Value::String(slot.to_string()));
            }
        })?;
        Ok((slot, material))
    }

    /// The parts of the key slots area that no key slot uses.
    pub(crate) fn unused_areas(&self) -> Vec<Range<u64>> {
        let used = self.metadata.keyslots.iter().map(|slot| slot.area.clone());
        layout::gaps(self.areas.keyslots(), used)
    }

    fn keyslot_area(&self, slot: u8) -> Range<u64> {
        let mut keyslots = self.metadata.keyslots.iter();
        let found = keyslots.find(|keyslot| keyslot.id == slot);
        found.map_or(0..0, |keyslot| keyslot.area.clone())
    }

    fn free_slot(&self, wanted: Option<u8>) -> Result<u8, KeyslotError> {
        let used = |slot: u8| self.metadata.keyslots.iter().any(|used| used.id == slot);
        match wanted {
            Some(slot) if slot >= MAX_KEYSLOTS => Err(KeyslotError::NoSuchSlot {
                slot,
                count: MAX_KEYSLOTS,
            }),
            Some(slot) if used(slot) => Err(KeyslotError::InUse { slot }),
            Some(slot) => Ok(slot),
            None => (0..MAX_KEYSLOTS)
                .find(|&slot| !used(slot))
                .ok_or(KeyslotError::NoFreeSlot),
        }
    }

    /// The first gap of `len` bytes in the key slots area.
    fn free_area(&self, len: u64) -> Result<Range<u64>, KeyslotError> {
        self.unused_areas()
            .into_iter()
            .find(|gap| gap.end - gap.start >= len)
            .map(|gap| gap.start..gap.start + len)
            .ok_or(KeyslotError::NoRoom { need: len })
    }
}

/// Bytes of a key slot area.
pub(super) fn area_len(key_len: usize) -> u64 {
    align_up(af::material_len(key_len) as u64, BLOCK)
}

/// The members of a key slot that are about its key, and the key material in its area.
fn sealed_members(
    seal: &Seal<'_>,
    area: &Range<u64>,
) -> Result<(Map<String, Value>, Step), KeyslotError> {
    let sealed = seal.seal(&seal.cipher, seal.cipher_key_size)?;
    let mut members = json!({
        "key_size": seal.key.len(),
        "af": {
            "type": "luks1",
            "stripes": af::STRIPES,
            "hash": seal.new.af_hash.to_string(),
        },
        "area": {
            "type": "raw",
            "offset": area.start.to_string(),
            "size": (area.end - area.start).to_string(),
            "encryption": seal.cipher,
            "key_size": seal.cipher_key_size,
        },
        "kdf": kdf_json(&seal.new.kdf, &sealed.salt),
    });
    let material = Step::Write {
        offset: area.start,
        bytes: sealed.material,
    };
    Ok((object(&mut members), material))
}

/// A digest of `key`, without key slots.
pub(super) fn digest_json(
    key: &VolumeKey,
    new: NewDigest,
    salt: &[u8; 32],
    segments: &[&str],
) -> Result<Value, KdfError> {
    let NewDigest { hash, iterations } = new;
    let digest = digest::compute(key, hash, iterations, salt, hash.digest_len())?;
    Ok(json!({
        "type": "pbkdf2",
        "keyslots": [],
        "segments": segments,
        "hash": hash.to_string(),
        "iterations": iterations,
        "salt": STANDARD.encode(salt),
        "digest": STANDARD.encode(digest.expose()),
    }))
}

fn kdf_json(kdf: &Kdf, salt: &[u8]) -> Map<String, Value> {
    let argon2 = |kind: &str, cost: &Argon2Cost| {
        json!({
            "type": kind,
            "time": cost.time,
            "memory": cost.memory_kib,
            "cpus": cost.lanes,
        })
    };
    let mut kdf = match kdf {
        Kdf::Pbkdf2 { hash, iterations } => json!({
            "type": "pbkdf2",
            "hash": hash.to_string(),
            "iterations": iterations,
        }),
        Kdf::Argon2i { cost } => argon2("argon2i", cost),
        Kdf::Argon2id { cost } => argon2("argon2id", cost),
    };
    let mut object = object(&mut kdf);
    object.insert("salt".to_owned(), Value::String(STANDARD.encode(salt)));
    object
}

/// Removes a key slot and every mention of it.
fn forget(document: &mut Map<String, Value>, slot: u8) {
    if let Some(keyslots) = member(document, "keyslots") {
        keyslots.shift_remove(&slot.to_string());
    }
    for mentions in mentions(document) {
        mentions.retain(|mention| mention.as_str() != Some(&slot.to_string()));
    }
}

/// Gives a key slot another number wherever it is mentioned.
fn renumber(document: &mut Map<String, Value>, from: u8, to: u8) {
    if let Some(keyslots) = member(document, "keyslots")
        && let Some(keyslot) = keyslots.shift_remove(&from.to_string())
    {
        keyslots.insert(to.to_string(), keyslot);
    }
    for mentions in mentions(document) {
        for mention in mentions {
            if mention.as_str() == Some(&from.to_string()) {
                *mention = Value::String(to.to_string());
            }
        }
    }
}

/// The lists of key slots in digests and tokens.
fn mentions(document: &mut Map<String, Value>) -> impl Iterator<Item = &mut Vec<Value>> {
    document
        .iter_mut()
        .filter(|(name, _)| matches!(name.as_str(), "digests" | "tokens"))
        .filter_map(|(_, members)| members.as_object_mut())
        .flat_map(|members| members.values_mut())
        .filter_map(|member| member.get_mut("keyslots")?.as_array_mut())
}
