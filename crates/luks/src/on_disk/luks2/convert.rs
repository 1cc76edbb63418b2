//! Conversion from LUKS1 to LUKS2, and back: the LUKS2 side.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::binary::{BINARY_SIZE, Binary};
use super::keyslots::area_len;
use super::limits::MAX_KEYSLOTS_SIZE;
use super::{Header, metadata};
use crate::document::object;
use crate::error::{ConvertError, WriteError};
use crate::header_copy::HeaderCopy;
use crate::kdf::Hash;
use crate::keyslot::{KdfParameters, Keyslot, KeyslotKind, PassphraseSlot, Priority};
use crate::layout::BLOCK;
use crate::metadata::Metadata;
use crate::on_disk::luks1;
use crate::plan::Step;
use crate::segment::{CryptSegment, SegmentKind, SegmentLength};

/// Bytes of one copy in a converted header, as in cryptsetup.
const METADATA_SIZE: u64 = 16 << 10;
/// Bytes of both copies together.
pub(crate) const CONVERTED_COPIES: u64 = 2 * METADATA_SIZE;
/// The first sector of a header.
const SECTOR: usize = 512;

impl Header {
    /// Converts the contents of a LUKS1 header, with key slots up to `end`.
    pub(crate) fn from_luks1(luks1: &Metadata, uuid: &str, end: u64) -> Result<Self, WriteError> {
        let keyslots_size = end.saturating_sub(CONVERTED_COPIES).min(MAX_KEYSLOTS_SIZE);
        let keyslots = luks1.keyslots.iter();
        let keyslots: Map<String, Value> = keyslots
            .filter_map(|slot| Some((slot.id.to_string(), keyslot_json(slot)?)))
            .collect();
        let mut document = json!({
            "keyslots": keyslots,
            "tokens": {},
            "segments": segments_json(luks1),
            "digests": digests_json(luks1),
            "config": {
                "json_size": (METADATA_SIZE - BINARY_SIZE as u64).to_string(),
                "keyslots_size": keyslots_size.to_string(),
            },
        });
        let document = object(&mut document);
        let (metadata, areas) =
            metadata::parse(&document, METADATA_SIZE).map_err(WriteError::Refused)?;
        Ok(Self {
            binary: Box::new(Binary {
                hdr_size: METADATA_SIZE,
                seqid: 1,
                label: String::new(),
                checksum: Hash::Sha256.into(),
                uuid: uuid.to_owned(),
                subsystem: String::new(),
            }),
            document,
            metadata,
            areas,
            worse: HeaderCopy::Primary,
        })
    }

    /// Writes the header over a LUKS1 header, whose key slots lie where this one has them.
    pub(crate) fn replace_luks1(&self) -> Result<Vec<Step>, WriteError> {
        let mut first = self.copy_bytes(HeaderCopy::Primary)?;
        let rest = first.split_off(SECTOR);
        let mut steps = vec![self.copy_step(HeaderCopy::Secondary)?, Step::Sync];
        for (offset, bytes) in [(0, first), (SECTOR as u64, rest)] {
            steps.extend([Step::Write { offset, bytes }, Step::Sync]);
        }
        steps.extend(self.unused_areas().into_iter().map(Step::randomise));
        steps.push(Step::Sync);
        Ok(steps)
    }

    /// Converts to the same key slots and digest as LUKS1.
    pub(crate) fn to_luks1(&self) -> Result<(luks1::Header, Vec<Step>), ConvertError> {
        let crypt = self.check_for_luks1()?;
        for slot in &self.metadata.keyslots {
            self.check_keyslot_for_luks1(slot, crypt)
                .map_err(|why| ConvertError::Keyslot { slot: slot.id, why })?;
        }
        let end = match self.metadata.segments.first().map(|segment| segment.offset) {
            None | Some(0) => self.header_end(),
            Some(payload) => payload,
        };
        let header = luks1::Header::from_luks2(&self.metadata, self.uuid().raw(), end)?;
        let mut steps = Vec::new();
        if self.worse == HeaderCopy::Secondary {
            steps.extend([self.copy_step(HeaderCopy::Secondary)?, Step::Sync]);
        }
        steps.extend(header.header_steps()?);
        steps.push(Step::randomise(self.behind_luks1()));
        steps.push(Step::Sync);
        Ok((header, steps))
    }

    /// The bytes of both copies that lie behind the first block.
    fn behind_luks1(&self) -> Range<u64> {
        BLOCK..self.areas.keyslots().start
    }

    fn check_for_luks1(&self) -> Result<&CryptSegment, ConvertError> {
        let metadata = &self.metadata;
        let refuse = |why| Err(ConvertError::Header { why });
        let ([segment], [digest]) = (&metadata.segments[..], &metadata.digests[..]) else {
            return refuse("has several segments or keys");
        };
        let SegmentKind::Crypt(crypt) = &segment.kind else {
            return refuse("has a segment that is not of type crypt");
        };
        if segment.length != SegmentLength::Dynamic || !segment.flags.is_empty() {
            return refuse("has a segment of fixed length or with flags");
        }
        if crypt.sector_size != 512 || crypt.iv_tweak != 0 || crypt.integrity.is_some() {
            return refuse("has encryption sectors other than 512 bytes, an iv_tweak or integrity");
        }
        if !metadata.tokens.is_empty() || !metadata.flags.is_empty() {
            return refuse("has tokens or persistent flags");
        }
        if self.label().is_some() || self.subsystem().is_some() {
            return refuse("has a label or subsystem label");
        }
        if metadata.keyslots.is_empty() {
            return refuse("has no key slot");
        }
        if digest.salt.len() != 32 || digest.value.len() < 20 {
            return refuse("has a digest that is too short or has a salt of other than 32 bytes");
        }
        Ok(crypt)
    }

    fn check_keyslot_for_luks1(
        &self,
        slot: &Keyslot,
        data: &CryptSegment,
    ) -> Result<(), &'static str> {
        let KeyslotKind::Passphrase(sealed) = &slot.kind else {
            return Err("is of another type");
        };
        let digest = self.metadata.digest_of(slot.id).ok_or("has no digest")?;
        if slot.id >= luks1::KEYSLOTS {
            return Err("has a number above 7");
        }
        if slot.priority != Priority::Normal {
            return Err("has a priority");
        }
        let hash = match &sealed.kdf {
            KdfParameters::Pbkdf2 { hash, .. } => hash,
            KdfParameters::Argon2i(_) | KdfParameters::Argon2id(_) => return Err("has Argon2"),
            KdfParameters::Other(_) => return Err("has an unknown key derivation"),
        };
        if *hash != digest.hash || sealed.af_hash != digest.hash {
            return Err("has another hash than the digest");
        }
        if sealed.cipher != data.cipher || sealed.cipher_key_size != slot.key_size {
            return Err("has another cipher than the data");
        }
        let first = self.metadata.keyslots.first();
        if first.is_some_and(|first| first.key_size != slot.key_size) {
            return Err("has a key of another length");
        }
        if sealed.salt.len() != 32 || !slot.area.start.is_multiple_of(BLOCK) {
            return Err("has a salt of other than 32 bytes, or lies at no multiple of 4096");
        }
        Ok(())
    }
}

fn keyslot_json(slot: &Keyslot) -> Option<Value> {
    let KeyslotKind::Passphrase(PassphraseSlot {
        cipher,
        cipher_key_size,
        kdf: KdfParameters::Pbkdf2 { hash, iterations },
        salt,
        af_stripes,
        af_hash,
    }) = &slot.kind
    else {
        return None;
    };
    Some(json!({
        "type": "luks2",
        "key_size": slot.key_size,
        "af": {"type": "luks1", "stripes": af_stripes, "hash": af_hash},
        "area": {
            "type": "raw",
            "offset": slot.area.start.to_string(),
            "size": area_len(slot.key_size as usize).to_string(),
            "encryption": cipher,
            "key_size": cipher_key_size,
        },
        "kdf": {
            "type": "pbkdf2",
            "hash": hash,
            "iterations": iterations,
            "salt": STANDARD.encode(salt),
        },
    }))
}

fn segments_json(luks1: &Metadata) -> Map<String, Value> {
    let crypt = luks1.segments.iter().filter_map(|segment| {
        let SegmentKind::Crypt(crypt) = &segment.kind else {
            return None;
        };
        let value = json!({
            "type": "crypt",
            "offset": segment.offset.to_string(),
            "size": "dynamic",
            "iv_tweak": crypt.iv_tweak.to_string(),
            "encryption": crypt.cipher,
            "sector_size": crypt.sector_size,
        });
        Some((segment.id.to_string(), value))
    });
    crypt.collect()
}

fn digests_json(luks1: &Metadata) -> Map<String, Value> {
    let names = |ids: &[u8]| -> Vec<String> { ids.iter().map(u8::to_string).collect() };
    let digests = luks1.digests.iter().map(|digest| {
        let value = json!({
            "type": "pbkdf2",
            "keyslots": names(&digest.keyslots),
            "segments": names(&digest.segments),
            "hash": digest.hash,
            "iterations": digest.iterations,
            "salt": STANDARD.encode(&digest.salt),
            "digest": STANDARD.encode(&digest.value),
        });
        (digest.id.to_string(), value)
    });
    digests.collect()
}
