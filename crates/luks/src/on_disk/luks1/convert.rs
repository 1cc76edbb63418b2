//! Conversion from LUKS1 to LUKS2, and back: the LUKS1 side.

use std::ops::Range;

use super::Header;
use super::format::FIRST_AREA;
use super::phdr::{IN_FIRST_SECTOR, KEYSLOTS, Phdr, SECTOR, SECTOR_BYTES, Slot};
use crate::af;
use crate::error::ConvertError;
use crate::keyslot::{self, KdfParameters, Keyslot, KeyslotKind};
use crate::layout::{self, BLOCK, align_to_mib, align_up};
use crate::metadata::Metadata;
use crate::on_disk::restore::slice;
use crate::plan::Step;
use crate::segment::SegmentKind;

impl Header {
    /// Moves the key slots out of the first `reserved` bytes, where LUKS2 has its headers, to before `end`: the
    /// header as it is afterwards, and the steps.
    pub(crate) fn make_way(
        &self,
        reserved: u64,
        end: u64,
        device: &[u8],
    ) -> Result<(Self, Vec<Step>), ConvertError> {
        let cipher = format!("{}-{}", self.phdr.cipher_name, self.phdr.cipher_mode);
        keyslot::keyslot_cipher(&cipher)?;
        for slot in &self.metadata.keyslots {
            if !slot.area.start.is_multiple_of(BLOCK) {
                let why = "lies at no multiple of 4096 bytes";
                return Err(ConvertError::Keyslot { slot: slot.id, why });
            }
        }
        let mut moved = self.clone();
        let mut steps = Vec::new();
        for slot in &self.metadata.keyslots {
            if slot.area.start < reserved {
                steps.extend(moved.move_away(slot.id, reserved..end, device)?);
            }
        }
        Ok((moved, steps))
    }

    /// End of the bytes that key slots may use: the start of the data; in a detached header, the next
    /// MiB, or the end of a device that is shorter.
    pub(crate) fn end_of_room(&self, device_len: u64) -> u64 {
        let payload = u64::from(self.phdr.payload_offset) * SECTOR;
        let end = match payload {
            0 => align_to_mib(self.header_end()).min(device_len),
            payload => payload,
        };
        end - end % BLOCK
    }

    /// Moves a key slot into `free`, behind the place of the LUKS2 headers.
    fn move_away(
        &mut self,
        number: u8,
        free: Range<u64>,
        device: &[u8],
    ) -> Result<Vec<Step>, ConvertError> {
        let index = usize::from(number);
        let len = align_up(af::material_len(self.phdr.key_bytes as usize) as u64, BLOCK);
        let no_room = ConvertError::NoRoom { need: len };
        let Some(from) = self.phdr.slots.get(index).map(|slot| self.area(slot)) else {
            return Err(no_room);
        };
        let first = free.start;
        let gaps = layout::gaps(free, self.phdr.slots.iter().map(|slot| self.area(slot)));
        let gap = gaps.iter().find(|gap| gap.end - gap.start >= len);
        let mut phdr = self.phdr.clone();
        let offset = if let Some(gap) = gap {
            u32::try_from(gap.start / SECTOR).map_err(|_| no_room)?
        } else {
            // The place of a free slot, which takes this one's.
            let own = u32::try_from(from.start / SECTOR).unwrap_or_default();
            let mut others = phdr.slots.iter_mut().take(IN_FIRST_SECTOR);
            let other = others
                .find(|slot| !slot.active && u64::from(slot.offset) * SECTOR >= first)
                .ok_or(no_room)?;
            std::mem::replace(&mut other.offset, own)
        };
        match phdr.slots.get_mut(index) {
            Some(slot) if index < IN_FIRST_SECTOR => slot.offset = offset,
            _ => return Err(ConvertError::NoRoom { need: len }),
        }
        *self = Self::from_phdr(phdr);
        let Some(bytes) = slice(device, &from) else {
            let why = "reaches behind the end of the device";
            return Err(ConvertError::Keyslot { slot: number, why });
        };
        let mut header = self.phdr.to_bytes()?;
        header.truncate(SECTOR_BYTES);
        Ok(vec![
            Step::Write {
                offset: u64::from(offset) * SECTOR,
                bytes,
            },
            Step::Sync,
            Step::Write {
                offset: 0,
                bytes: header,
            },
            Step::Sync,
        ])
    }

    /// Converts the contents of a LUKS2 header, which the caller has checked for that, with areas up to
    /// `end` for the key slots that are free.
    pub(crate) fn from_luks2(luks2: &Metadata, uuid: &str, end: u64) -> Result<Self, ConvertError> {
        let refuse = |why| ConvertError::Header { why };
        let (Some(segment), Some(digest), Some(first)) = (
            luks2.segments.first(),
            luks2.digests.first(),
            luks2.keyslots.first(),
        ) else {
            return Err(refuse("has no segment, digest or key slot"));
        };
        let cipher = match &segment.kind {
            SegmentKind::Crypt(crypt) => crypt.cipher.split_once('-'),
            SegmentKind::Other(_) => None,
        };
        let (name, mode) = cipher.ok_or(refuse("has a cipher without a mode"))?;
        let array = || refuse("has a digest or salt of another length");
        let mut phdr = Phdr {
            cipher_name: name.to_owned(),
            cipher_mode: mode.to_owned(),
            hash_spec: digest.hash.clone(),
            payload_offset: sectors(segment.offset)?,
            key_bytes: first.key_size,
            mk_digest: *digest.value.first_chunk().ok_or_else(array)?,
            mk_digest_salt: *digest.salt.first_chunk().ok_or_else(array)?,
            mk_digest_iterations: digest.iterations,
            uuid: uuid.to_owned(),
            slots: Default::default(),
        };
        let len = align_up(af::material_len(phdr.key_bytes as usize) as u64, BLOCK);
        let mut used: Vec<_> = luks2
            .keyslots
            .iter()
            .map(|slot| slot.area.clone())
            .collect();
        for (number, slot) in (0..KEYSLOTS).zip(&mut phdr.slots) {
            if let Some(keyslot) = luks2.keyslots.iter().find(|one| one.id == number) {
                *slot = active(keyslot).ok_or(ConvertError::Keyslot {
                    slot: number,
                    why: "is of another type",
                })?;
                continue;
            }
            let gaps = layout::gaps(FIRST_AREA..end, used.iter().cloned());
            let mut gaps = gaps.iter();
            let gap = gaps.find(|gap| gap.end - gap.start >= len);
            let start = gap.ok_or(ConvertError::NoRoom { need: len })?.start;
            slot.offset = sectors(start)?;
            used.push(start..start + len);
        }
        // LUKS2 may have its key slots further from the start.
        let misplaced = |_| refuse("has a key slot where LUKS1 can have none");
        phdr.check().map_err(misplaced)?;
        Ok(Self::from_phdr(Box::new(phdr)))
    }
}

fn active(keyslot: &Keyslot) -> Option<Slot> {
    let KeyslotKind::Passphrase(sealed) = &keyslot.kind else {
        return None;
    };
    let KdfParameters::Pbkdf2 { iterations, .. } = sealed.kdf else {
        return None;
    };
    Some(Slot {
        active: true,
        iterations,
        salt: *sealed.salt.first_chunk()?,
        offset: u32::try_from(keyslot.area.start / SECTOR).ok()?,
        ..Slot::default()
    })
}

fn sectors(bytes: u64) -> Result<u32, ConvertError> {
    let why = "has its data, or key slots, beyond what 32 bits of sectors reach";
    u32::try_from(bytes / SECTOR).map_err(|_| ConvertError::Header { why })
}
