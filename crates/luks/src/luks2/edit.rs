//! Adding a key slot.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use scrim_sys::memory::SecretBytes;
use serde_json::{Map, Value, json};

use super::{Header, MAX_KEYSLOTS};
use crate::af;
use crate::format::{KeyslotError, NewKeyslot};
use crate::kdf::{Argon2Cost, Kdf};
use crate::key::VolumeKey;
use crate::keyslot::{self, SealSpec};
use crate::layout::{BLOCK, align_up};
use crate::plan::{Plan, Step};

impl Header {
    /// Adds a key slot for `key`, which the caller has checked, and says how to write it: the key
    /// material, which nothing refers to yet, then the header as every change is written.
    pub(crate) fn add_keyslot(
        &mut self,
        key: &VolumeKey,
        passphrase: &SecretBytes,
        new: &NewKeyslot,
        digest: u8,
        cipher: &str,
    ) -> Result<Plan, KeyslotError> {
        let mut changed = self.clone();
        let material = changed.insert_keyslot(key, passphrase, new, digest, cipher)?;
        let mut steps = vec![material, Step::Sync];
        steps.extend(changed.update_steps()?);
        *self = changed;
        Ok(Plan::new(steps))
    }

    /// Puts the key slot into the document and returns its key material. `cipher` is the data's.
    pub(super) fn insert_keyslot(
        &mut self,
        key: &VolumeKey,
        passphrase: &SecretBytes,
        new: &NewKeyslot,
        digest: u8,
        cipher: &str,
    ) -> Result<Step, KeyslotError> {
        let slot = self.free_slot(new.slot)?;
        let area = self.free_area(area_len(key.len()))?;
        let (cipher, cipher_key_size) = keyslot::cipher_for_new(cipher, key.len());
        let spec = SealSpec {
            cipher,
            cipher_key_size,
            kdf: &new.kdf,
            af_hash: new.af_hash,
        };
        let sealed = keyslot::seal(key, passphrase, &spec).map_err(KeyslotError::Seal)?;

        let mut document = self.document.clone();
        let keyslot = json!({
            "type": "luks2",
            "key_size": key.len(),
            "af": {
                "type": "luks1",
                "stripes": af::STRIPES,
                "hash": new.af_hash.to_string(),
            },
            "area": {
                "type": "raw",
                "offset": area.start.to_string(),
                "size": (area.end - area.start).to_string(),
                "encryption": cipher,
                "key_size": cipher_key_size,
            },
            "kdf": kdf_json(&new.kdf, &sealed.salt),
        });
        if let Some(Value::Object(keyslots)) = document.get_mut("keyslots") {
            keyslots.insert(slot.to_string(), keyslot);
        }
        let digest_keyslots = document
            .get_mut("digests")
            .and_then(|digests| digests.get_mut(digest.to_string()))
            .and_then(|digest| digest.get_mut("keyslots"));
        if let Some(Value::Array(keyslots)) = digest_keyslots {
            keyslots.push(Value::String(slot.to_string()));
        }
        self.set_document(document)?;
        Ok(Step::Write {
            offset: area.start,
            bytes: sealed.material,
        })
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

    /// The first gap of `len` bytes in the key slots area, between all that is in it.
    fn free_area(&self, len: u64) -> Result<Range<u64>, KeyslotError> {
        let whole = self.areas.keyslots();
        let mut used: Vec<_> = self
            .metadata
            .keyslots
            .iter()
            .map(|slot| &slot.area)
            .collect();
        used.sort_by_key(|area| area.start);
        let mut start = whole.start;
        for area in used {
            if area.start >= start && area.start - start >= len {
                break;
            }
            start = start.max(align_up(area.end, BLOCK));
        }
        let end = start.saturating_add(len);
        if end > whole.end {
            return Err(KeyslotError::NoRoom { need: len });
        }
        Ok(start..end)
    }
}

/// Bytes of a key slot area.
pub(super) fn area_len(key_len: usize) -> u64 {
    align_up(af::material_len(key_len) as u64, BLOCK)
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
    let mut object = kdf.as_object_mut().map(std::mem::take).unwrap_or_default();
    object.insert("salt".to_owned(), Value::String(STANDARD.encode(salt)));
    object
}
