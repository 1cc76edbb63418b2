//! A LUKS1 header: 592 bytes, then eight key slot areas.

mod convert;
mod format;
mod keyslots;
mod phdr;
mod repair;
mod restore;

use std::ops::Range;

use scrim_foreign::Foreign;

pub use format::FormatSpec;
pub(crate) use format::make;
pub(crate) use phdr::KEYSLOTS;
use phdr::{Phdr, SECTOR, Slot, area};
pub use repair::Fix;

use crate::digest::Digest;
use crate::error::Fault;
use crate::keyslot::{KdfParameters, Keyslot, KeyslotKind, PassphraseSlot, Priority};
use crate::metadata::Metadata;
use crate::segment::{CryptSegment, Segment, SegmentKind, SegmentLength};

/// A checked LUKS1 header.
#[derive(Debug, Clone)]
pub struct Header {
    // Boxed, or else a header of either version would take the size of this one.
    phdr: Box<Phdr>,
    metadata: Metadata,
}

impl Header {
    /// Reads and checks the header at the start of `area`.
    pub(crate) fn parse(area: &[u8]) -> Result<Self, Fault> {
        Ok(Self::from_phdr(Box::new(Phdr::read(area)?)))
    }

    fn from_phdr(phdr: Box<Phdr>) -> Self {
        let metadata = metadata(&phdr);
        Self { phdr, metadata }
    }

    /// The UUID as stored.
    #[must_use]
    pub fn uuid(&self) -> Foreign<&str> {
        Foreign::new(&self.phdr.uuid)
    }

    /// The cipher's name as stored, such as `aes`: a printable word.
    #[must_use]
    pub fn cipher_name(&self) -> &str {
        &self.phdr.cipher_name
    }

    /// The cipher's mode as stored, such as `xts-plain64`: a printable word.
    #[must_use]
    pub fn cipher_mode(&self) -> &str {
        &self.phdr.cipher_mode
    }

    /// The hash of everything in the header, as stored: a printable word.
    #[must_use]
    pub fn hash_spec(&self) -> &str {
        &self.phdr.hash_spec
    }

    /// Start of the data, in 512-byte sectors; 0 in a detached header.
    #[must_use]
    pub fn payload_offset(&self) -> u32 {
        self.phdr.payload_offset
    }

    /// Length of the volume key in bytes.
    #[must_use]
    pub fn key_bytes(&self) -> u32 {
        self.phdr.key_bytes
    }

    /// The first byte behind the last key slot area.
    #[must_use]
    pub fn header_end(&self) -> u64 {
        let ends = self.phdr.slots.iter().map(|slot| self.area(slot).end);
        ends.max().unwrap_or_default()
    }

    /// The key slots as stored, in use or not.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.phdr.slots
    }

    pub(crate) fn digest(&self) -> &[u8; 20] {
        &self.phdr.mk_digest
    }

    pub(crate) fn digest_salt(&self) -> &[u8; 32] {
        &self.phdr.mk_digest_salt
    }

    pub(crate) fn digest_iterations(&self) -> u32 {
        self.phdr.mk_digest_iterations
    }

    pub(crate) fn set_uuid(&mut self, uuid: String) {
        self.phdr.uuid = uuid;
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn area(&self, slot: &Slot) -> Range<u64> {
        area(slot, self.phdr.key_bytes)
    }
}

/// Contents of the header, in the terms of both versions.
fn metadata(phdr: &Phdr) -> Metadata {
    let cipher = format!("{}-{}", phdr.cipher_name, phdr.cipher_mode);
    let keyslots: Vec<Keyslot> = (0..KEYSLOTS)
        .zip(&phdr.slots)
        .filter(|(_, slot)| slot.active)
        .map(|(id, slot)| Keyslot {
            id,
            key_size: phdr.key_bytes,
            priority: Priority::Normal,
            area: area(slot, phdr.key_bytes),
            kind: KeyslotKind::Passphrase(PassphraseSlot {
                cipher: cipher.clone(),
                cipher_key_size: phdr.key_bytes,
                kdf: KdfParameters::Pbkdf2 {
                    hash: phdr.hash_spec.clone(),
                    iterations: slot.iterations,
                },
                salt: slot.salt.to_vec(),
                af_stripes: slot.stripes,
                af_hash: phdr.hash_spec.clone(),
            }),
        })
        .collect();
    let digest = Digest {
        id: 0,
        hash: phdr.hash_spec.clone(),
        iterations: phdr.mk_digest_iterations,
        salt: phdr.mk_digest_salt.to_vec(),
        value: phdr.mk_digest.to_vec(),
        keyslots: keyslots.iter().map(|slot| slot.id).collect(),
        segments: vec![0],
    };
    let segment = Segment {
        id: 0,
        offset: u64::from(phdr.payload_offset) * SECTOR,
        length: SegmentLength::Dynamic,
        flags: Vec::new(),
        kind: SegmentKind::Crypt(CryptSegment {
            cipher,
            iv_tweak: 0,
            sector_size: 512,
            integrity: None,
        }),
    };
    Metadata {
        keyslots,
        digests: vec![digest],
        segments: vec![segment],
        tokens: Vec::new(),
        flags: Vec::new(),
        requirements: Vec::new(),
    }
}
