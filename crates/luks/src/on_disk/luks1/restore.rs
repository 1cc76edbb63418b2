//! Writing a LUKS1 header from a backup.

use std::ops::Range;

use super::Header;
use super::phdr::{IN_FIRST_SECTOR, PHDR_SIZE, SECTOR_BYTES};
use crate::error::WriteError;
use crate::keyslot::Keyslot;
use crate::layout::BLOCK;
use crate::on_disk::restore::{Steps, slice};
use crate::plan::Step;

impl Header {
    /// Returns whether both say the same.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.phdr == other.phdr
    }

    /// Bytes from the end of the header to the end of the first block, where the key slots lie behind
    /// that block; empty where they do not.
    pub(crate) fn between_header_and_keyslots(&self) -> Range<usize> {
        let starts = self.phdr.slots.iter().map(|slot| self.area(slot).start);
        let first = starts.min().unwrap_or_default();
        if first >= BLOCK {
            PHDR_SIZE..usize::try_from(BLOCK).unwrap_or(PHDR_SIZE)
        } else {
            0..0
        }
    }

    /// Writes the header and its key slots from `bytes`, where there is no header: the magic comes
    /// last, in one sector.
    pub(crate) fn write_anew(&self, bytes: &[u8]) -> Result<Vec<Step>, WriteError> {
        let mut steps = self.material_steps(bytes);
        steps.push(Step::Sync);
        steps.extend(self.header_steps()?);
        steps.extend(self.wipe_steps());
        Ok(steps)
    }

    /// Writes the header and its key slots from `bytes` over another one.
    ///
    /// A key slot of the current header whose area holds other key material than the backup's slot
    /// there is at risk: LUKS1 has no room beside. So is one that differs and has fields in the
    /// header's second sector, which is written before the first.
    pub(crate) fn replace(
        &self,
        bytes: &[u8],
        current: &Self,
        device: &[u8],
    ) -> Result<Steps<Self>, WriteError> {
        let overwritten = |slot: &&Keyslot| {
            self.metadata.keyslots.iter().any(|new| {
                new.area.start < slot.area.end
                    && slot.area.start < new.area.end
                    && slice(bytes, &new.area) != slice(device, &new.area)
            })
        };
        let torn = |slot: &&Keyslot| {
            let index = usize::from(slot.id);
            index >= IN_FIRST_SECTOR && self.phdr.slots.get(index) != current.phdr.slots.get(index)
        };
        let theirs = current.metadata.keyslots.iter();
        let at_risk = theirs.filter(|slot| overwritten(slot) || torn(slot));
        Ok(Steps {
            header: self.clone(),
            steps: self.write_anew(bytes)?,
            at_risk: at_risk.map(|slot| slot.id).collect(),
        })
    }

    /// The header's second sector, with zeros to the end of the block where no key slot lies there,
    /// then its first, which has the magic.
    pub(crate) fn header_steps(&self) -> Result<[Step; 4], WriteError> {
        let mut first = self.phdr.to_bytes()?;
        let mut second = first.split_off(SECTOR_BYTES);
        let between = self.between_header_and_keyslots();
        second.resize(second.len() + between.len(), 0);
        let write = |offset, bytes| Step::Write { offset, bytes };
        Ok([
            write(SECTOR_BYTES as u64, second),
            Step::Sync,
            write(0, first),
            Step::Sync,
        ])
    }

    fn material_steps(&self, bytes: &[u8]) -> Vec<Step> {
        let slots = self.metadata.keyslots.iter();
        let write = slots.filter_map(|slot| {
            Some(Step::Write {
                offset: slot.area.start,
                bytes: slice(bytes, &slot.area)?,
            })
        });
        write.collect()
    }

    fn wipe_steps(&self) -> Vec<Step> {
        let unused = self.unused_areas().into_iter();
        let mut steps: Vec<Step> = unused.map(Step::randomise).collect();
        steps.push(Step::Sync);
        steps
    }
}
