//! Writing a LUKS2 header from a backup.

use std::ops::Range;

use serde_json::json;

use super::Header;
use crate::document::member;
use crate::error::WriteError;
use crate::header_copy::HeaderCopy;
use crate::keyslot::Keyslot;
use crate::layout;
use crate::on_disk::restore::{Steps, slice};
use crate::plan::Step;

impl Header {
    /// Returns whether both say the same.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.binary == other.binary && self.document == other.document
    }

    /// Writes the header and its key slots from `bytes`, where there is no header: key material,
    /// then the secondary, which without a primary is found only when it is whole.
    pub(crate) fn write_anew(&self, bytes: &[u8]) -> Result<Vec<Step>, WriteError> {
        let mut steps = self.material_steps(bytes, self);
        steps.push(Step::Sync);
        for copy in [HeaderCopy::Secondary, HeaderCopy::Primary] {
            steps.extend([self.copy_step(copy)?, Step::Sync]);
        }
        steps.extend(self.wipe_steps());
        Ok(steps)
    }

    /// Writes the header and its key slots from `bytes` over a header of the same size.
    ///
    /// Key material goes where no slot of the current header has other key material. What belongs
    /// there waits in a gap, and a header that says so is written, until the current header is gone.
    pub(crate) fn replace(
        &self,
        bytes: &[u8],
        current: &Self,
        device: &[u8],
    ) -> Result<Steps<Self>, WriteError> {
        let (moved, at_risk) = self.make_way(bytes, current, device)?;
        let mut next = self.clone();
        next.binary.seqid = self.binary.seqid.max(current.binary.seqid);
        next.worse = current.worse;
        let mut steps = moved.as_ref().unwrap_or(self).material_steps(bytes, self);
        steps.push(Step::Sync);
        if let Some(mut moved) = moved {
            moved.binary.seqid = next.binary.seqid;
            moved.worse = next.worse;
            steps.extend(moved.update_steps()?);
            steps.extend(self.material_steps(bytes, self));
            steps.push(Step::Sync);
            next.binary.seqid = moved.binary.seqid;
            next.worse = moved.worse;
        }
        steps.extend(next.update_steps()?);
        steps.extend(next.wipe_steps());
        Ok(Steps {
            header: next,
            steps,
            at_risk,
        })
    }

    /// The header with key slots moved out of the way of the current header's, if any have to be,
    /// and the current header's slots for which there is no room.
    fn make_way(
        &self,
        bytes: &[u8],
        current: &Self,
        device: &[u8],
    ) -> Result<(Option<Self>, Vec<u8>), WriteError> {
        let (ours, theirs) = (&self.metadata.keyslots, &current.metadata.keyslots);
        let areas = ours.iter().chain(theirs).map(|slot| slot.area.clone());
        let mut used: Vec<Range<u64>> = areas.collect();
        let mut moved = self.clone();
        let mut at_risk = Vec::new();
        for slot in ours {
            if slice(bytes, &slot.area) == slice(device, &slot.area) {
                continue;
            }
            let overlaps = |other: &&Keyslot| {
                other.area.start < slot.area.end && slot.area.start < other.area.end
            };
            let in_the_way: Vec<u8> = theirs.iter().filter(overlaps).map(|slot| slot.id).collect();
            if in_the_way.is_empty() {
                continue;
            }
            let len = slot.area.end - slot.area.start;
            let gaps = layout::gaps(self.areas.keyslots(), used.iter().cloned());
            let Some(gap) = gaps.iter().find(|gap| gap.end - gap.start >= len) else {
                at_risk.extend(in_the_way);
                continue;
            };
            let area = gap.start..gap.start + len;
            moved.move_keyslot(slot.id, area.start)?;
            used.push(area);
        }
        at_risk.sort_unstable();
        at_risk.dedup();
        let has_moved = moved.document != self.document;
        Ok((has_moved.then_some(moved), at_risk))
    }

    /// Says that a key slot lies elsewhere.
    pub(super) fn move_keyslot(&mut self, slot: u8, start: u64) -> Result<(), WriteError> {
        self.change_document(|document| {
            let keyslot =
                member(document, "keyslots").and_then(|all| member(all, &slot.to_string()));
            if let Some(area) = keyslot.and_then(|keyslot| member(keyslot, "area")) {
                area.insert("offset".to_owned(), json!(start.to_string()));
            }
        })
    }

    /// Writes the key slots that `from` has in `bytes` to where this header has them.
    fn material_steps(&self, bytes: &[u8], from: &Self) -> Vec<Step> {
        let slots = self.metadata.keyslots.iter().zip(&from.metadata.keyslots);
        slots
            .filter_map(|(to, from)| {
                Some(Step::Write {
                    offset: to.area.start,
                    bytes: slice(bytes, &from.area)?,
                })
            })
            .collect()
    }

    fn wipe_steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = self
            .unused_areas()
            .into_iter()
            .map(Step::randomise)
            .collect();
        steps.push(Step::Sync);
        steps
    }
}
