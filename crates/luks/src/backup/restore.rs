//! Putting a header backup back on a device.

use std::fmt;

use scrim_foreign::Foreign;

use super::{Backup, RestoreError};
use crate::error::slots_named;
use crate::finding::Repair;
use crate::header::{HEADER_AREA_MAX, Header, Parsed};
use crate::header_copy::HeaderCopy;
use crate::keyslot::Keyslot;
use crate::on_disk::restore::slice;
use crate::plan::{Plan, Step};
use crate::segment::{Placement, Segment};
use crate::signature::Signature;

/// A backup ready to be restored: its effects and the plan that writes it.
#[derive(Debug)]
#[must_use = "a restored header has yet to be written"]
pub struct Restore {
    /// The header as it will be read.
    pub header: Header,
    /// Notes to show, and to ask about, before it is restored.
    pub notes: Vec<RestoreNote>,
    /// The plan that writes it.
    pub plan: Plan,
}

/// Something to know before a backup is restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreNote {
    /// There is no LUKS header on the device that could be trusted: what is there is overwritten.
    NoHeader,
    /// One copy of the LUKS2 header on the device is damaged, and the device may have become something else.
    Overwritten {
        /// The copy that is damaged.
        copy: HeaderCopy,
        /// Signature of the other use; it may be overwritten.
        by: Signature,
    },
    /// The header on the device is of another version.
    Version {
        /// Value on the device.
        device: u16,
        /// Value in the backup.
        backup: u16,
    },
    /// The header on the device is of another volume, or its UUID was changed.
    Uuid {
        /// Value on the device.
        device: Foreign<String>,
        /// Value in the backup.
        backup: Foreign<String>,
    },
    /// The backup has another volume key, or the same one with another digest. If another, what was
    /// written by the header on the device can no longer be read.
    VolumeKey,
    /// The data has another cipher, sector size or length in the backup, and would be read
    /// differently.
    Segment,
    /// Key slots on the device that are lost: the backup does not have them, or has others in their place.
    Lost { slots: Vec<u8> },
    /// Key slots that come back: passphrases that have since been changed or removed are valid
    /// again.
    Revived { slots: Vec<u8> },
    /// Until the restored header is written as a whole, a power cut may leave these key slots of the
    /// old one unusable. Restoring again finishes it.
    AtRisk {
        /// Their numbers on the device.
        slots: Vec<u8>,
    },
}

impl Backup {
    /// Number of bytes of the device that [`Backup::restore`] looks at.
    #[must_use]
    pub fn restore_len(&self) -> usize {
        self.bytes.len().max(HEADER_AREA_MAX)
    }

    /// Compares the backup with what is on a header device of `device_len` bytes, and says how to
    /// write it. `device` is the first [`Backup::restore_len`] bytes of it, or all of them if there
    /// are fewer. For a file that grows, `device_len` is the length up to which it may.
    ///
    /// Where a header that can be trusted is there, a cut at any point leaves that one or the
    /// restored one, with its keys: what would be overwritten too early is first put into a gap of
    /// the key slots area. Where that cannot be, [`RestoreNote::AtRisk`] names the keys. Where there
    /// is no such header, a cut leaves none or the restored one.
    ///
    /// A restored LUKS2 header has a higher sequence number than both had. What lies between the
    /// key slots is not restored but overwritten, so that no key survives there.
    ///
    /// # Errors
    /// [`RestoreError`]; nothing has been written.
    pub fn restore(
        &self,
        device: &[u8],
        device_len: u64,
        placement: Placement,
    ) -> Result<Restore, RestoreError> {
        self.check_room(device_len, placement)?;
        // What is left of a header counts here even where the device has become something else.
        let found = Parsed::of(device).ok();
        let current = found.as_ref().map(|found| &found.header);
        if let Some(current) = current {
            check_same_volume(current, &self.header)?;
        }
        let (header, steps, at_risk) = match (&self.header, current) {
            (Header::Luks1(backup), Some(Header::Luks1(current))) => {
                let restored = backup.replace(&self.bytes, current, device)?;
                (
                    Header::Luks1(restored.header),
                    restored.steps,
                    restored.at_risk,
                )
            }
            (Header::Luks2(backup), Some(Header::Luks2(current)))
                if backup.metadata_size() == current.metadata_size() =>
            {
                let restored = backup.replace(&self.bytes, current, device)?;
                (
                    Header::Luks2(restored.header),
                    restored.steps,
                    restored.at_risk,
                )
            }
            (_, current) => self.write_anew(current)?,
        };
        let mut notes = current.map_or(vec![RestoreNote::NoHeader], |current| {
            self.compare(current, device)
        });
        let repair = found.as_ref().and_then(|found| found.repair);
        if let Some(Repair {
            copy,
            overwritten_by: Some(by),
            ..
        }) = repair
        {
            notes.push(RestoreNote::Overwritten { copy, by });
        }
        if !at_risk.is_empty() {
            notes.push(RestoreNote::AtRisk { slots: at_risk });
        }
        let plan = Plan::new(steps);
        Ok(Restore {
            header,
            notes,
            plan,
        })
    }

    fn check_room(&self, device_len: u64, placement: Placement) -> Result<(), RestoreError> {
        let len = self.bytes.len() as u64;
        if len > device_len {
            return Err(RestoreError::NoRoom {
                need: len,
                have: device_len,
            });
        }
        let in_use = self.header.metadata().segments_in_use();
        match in_use.map(|segment| segment.offset).min() {
            Some(data_offset)
                if placement == Placement::Attached && data_offset < self.header.header_end() =>
            {
                Err(RestoreError::OverData { len, data_offset })
            }
            _ => Ok(()),
        }
    }

    /// Writes the backup where there is no header, or one that is laid out otherwise and that is
    /// taken away first.
    fn write_anew(
        &self,
        current: Option<&Header>,
    ) -> Result<(Header, Vec<Step>, Vec<u8>), RestoreError> {
        let mut steps = Vec::new();
        let mut at_risk = Vec::new();
        if let Some(current) = current {
            at_risk.extend(current.keyslots().iter().map(|slot| slot.id));
            steps.extend(forget(current));
        }
        match &self.header {
            Header::Luks1(header) => steps.extend(header.write_anew(&self.bytes)?),
            Header::Luks2(header) => steps.extend(header.write_anew(&self.bytes)?),
        }
        Ok((self.header.clone(), steps, at_risk))
    }

    fn compare(&self, current: &Header, device: &[u8]) -> Vec<RestoreNote> {
        let mut notes = Vec::new();
        let (old, new) = (current.version(), self.header.version());
        if old != new {
            notes.push(RestoreNote::Version {
                device: old,
                backup: new,
            });
        }
        if current.uuid() != self.header.uuid() {
            notes.push(RestoreNote::Uuid {
                device: current.uuid().to_owned(),
                backup: self.header.uuid().to_owned(),
            });
        }
        if key_digests(current) != key_digests(&self.header) {
            notes.push(RestoreNote::VolumeKey);
        }
        if data(current) != data(&self.header) {
            notes.push(RestoreNote::Segment);
        }
        let lost = missing(current, device, &self.header, &self.bytes);
        if !lost.is_empty() {
            notes.push(RestoreNote::Lost { slots: lost });
        }
        let revived = missing(&self.header, &self.bytes, current, device);
        if !revived.is_empty() {
            notes.push(RestoreNote::Revived { slots: revived });
        }
        notes
    }
}

/// Takes a header away: its magic, in every copy.
fn forget(header: &Header) -> Vec<Step> {
    let secondary = match header {
        Header::Luks1(_) => None,
        Header::Luks2(header) => Some(header.metadata_size()),
    };
    let places = std::iter::once(0).chain(secondary);
    let gone = |offset| {
        let bytes = vec![0; 512];
        [Step::Write { offset, bytes }, Step::Sync]
    };
    places.flat_map(gone).collect()
}

fn check_same_volume(current: &Header, backup: &Header) -> Result<(), RestoreError> {
    for (header, in_backup) in [(current, false), (backup, true)] {
        if let Some(name) = header.requirements().first().cloned() {
            return Err(RestoreError::Requirement { name, in_backup });
        }
    }
    let offset = |header: &Header| {
        let in_use = header.metadata().segments_in_use();
        in_use.map(|segment| segment.offset).min()
    };
    if let (Some(device), Some(backup)) = (offset(current), offset(backup))
        && device != backup
    {
        return Err(RestoreError::DataOffset { device, backup });
    }
    let key_size = |header: &Header| match header {
        Header::Luks1(header) => Some(header.key_bytes()),
        Header::Luks2(_) => {
            let slots = header.removal(&[]).left;
            let first = slots.first().and_then(|slot| header.keyslot(*slot).ok());
            first.map(|slot| slot.key_size)
        }
    };
    match (key_size(current), key_size(backup)) {
        (Some(device), Some(backup)) if device != backup => {
            Err(RestoreError::KeySize { device, backup })
        }
        _ => Ok(()),
    }
}

/// The digests of the data's keys.
fn key_digests(header: &Header) -> Vec<(&[u8], &[u8])> {
    let bound = |digest: &&crate::Digest| !digest.segments.is_empty();
    let digests = header.digests().iter().filter(bound);
    digests
        .map(|digest| (&digest.salt[..], &digest.value[..]))
        .collect()
}

fn data(header: &Header) -> Vec<&Segment> {
    header.metadata().segments_in_use().collect()
}

/// The key slots of a header that the other header does not have, or has with other content.
fn missing(header: &Header, bytes: &[u8], other: &Header, other_bytes: &[u8]) -> Vec<u8> {
    let content = |slot: &Keyslot, bytes: &[u8]| slice(bytes, &slot.material());
    let same = |slot: &Keyslot| {
        let mut others = other.keyslots().iter();
        others.any(|other| {
            other.kind == slot.kind && content(other, other_bytes) == content(slot, bytes)
        })
    };
    let slots = header.keyslots().iter();
    slots
        .filter(|slot| !same(slot))
        .map(|slot| slot.id)
        .collect()
}

impl fmt::Display for RestoreNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHeader => f.write_str(
                "no LUKS header that can be trusted is on the device: what lies at its start is \
                 overwritten",
            ),
            Self::Overwritten { copy, by } => write!(
                f,
                "the {copy} header on the device is damaged, and the device also has the signature of {by}, \
                 which may be overwritten"
            ),
            Self::Version { device, backup } => write!(
                f,
                "the header on the device is LUKS{device}, the backup LUKS{backup}: the layout \
                 changes"
            ),
            Self::Uuid { device, backup } => write!(
                f,
                "the header on the device has UUID {device}, the backup {backup}: make sure that \
                 it is of this volume"
            ),
            Self::VolumeKey => f.write_str(
                "the backup does not have the volume key of the header on the device: data written \
                 with that header may be lost",
            ),
            Self::Segment => f.write_str(
                "the backup describes the data otherwise than the header on the device: it would be \
                 read otherwise",
            ),
            Self::Lost { slots } => write!(
                f,
                "the backup does not have {} of the header on the device: what opens it now no \
                 longer will",
                slots_named(slots)
            ),
            Self::Revived { slots } => write!(
                f,
                "the device no longer has {} of the backup: what opened it becomes valid again",
                slots_named(slots)
            ),
            Self::AtRisk { slots } => write!(
                f,
                "if the restoration is cut short, the header on the device loses {}: keep this \
                 backup until it is done",
                slots_named(slots)
            ),
        }
    }
}
