//! Contents of a header, in the terms of both versions.

use crate::digest::Digest;
use crate::keyslot::{Keyslot, KeyslotKind};
use crate::segment::Segment;
use crate::token::Token;

/// Contents of a header, in the terms of both versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) keyslots: Vec<Keyslot>,
    pub(crate) digests: Vec<Digest>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) flags: Vec<String>,
    pub(crate) requirements: Vec<String>,
}

impl Metadata {
    /// Segments that hold data now.
    pub(crate) fn segments_in_use(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| !segment.is_backup())
    }

    /// The digest of the key in a slot.
    pub(crate) fn digest_of(&self, slot: u8) -> Option<&Digest> {
        let mut digests = self.digests.iter();
        digests.find(|digest| digest.keyslots.contains(&slot))
    }

    /// The slots that hold a key of the data, by number.
    pub(crate) fn volume_key_slots(&self) -> Vec<u8> {
        let encrypts = |digest: &Digest| {
            let mut segments = self.segments_in_use();
            segments.any(|segment| digest.segments.contains(&segment.id))
        };
        self.keyslots
            .iter()
            .filter(|slot| matches!(slot.kind, KeyslotKind::Passphrase(_)))
            .map(|slot| slot.id)
            .filter(|&slot| self.digest_of(slot).is_some_and(encrypts))
            .collect()
    }
}
