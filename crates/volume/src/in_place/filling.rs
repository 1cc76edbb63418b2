//! The filling of the start of the data between the data and its header: sectors that no other program
//! writes, each of which says what was done, so that it can be undone wherever the device ends by now.

use scrim_backend::Backend;
use scrim_luks::kdf::Hash;
use scrim_sys::memory::DataBuffer;

use super::error::InPlaceError;
use super::pieces::{PIECE, SECTOR, pieces};
use super::record::{Record, Stage};

const MAGIC: &[u8; 16] = b"scrim overwrites";
/// Bytes of a filling that can be told from anybody's.
pub(super) const PART: usize = 32;
/// Bytes of a sector that say something: the magic, the sector's offset, and what the record says.
/// The rest repeats their SHA-256.
const HEAD: usize = 4 * PART;
/// Length of the start of a device in which a filled sector is looked for, in bytes.
const LOOK: u64 = 16 << 20;
/// Bytes that a user writes over the magic of a filled sector to keep what lies between such sectors,
/// although it cannot all be put back.
pub(super) const KEEP: &[u8; 4] = b"keep";

/// A filled sector that was found, and what it says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) record: Record,
    /// Place of the sector, in bytes.
    pub(super) offset: u64,
    /// Tells that its user has decided to keep what is there.
    pub(super) keep: bool,
}

/// The sectors of a filling.
pub(super) struct Filling {
    said: Vec<u8>,
}

impl Filling {
    pub(super) fn of(record: &Record) -> Self {
        Self { said: record.say() }
    }

    /// Returns the sector at `offset`.
    pub(super) fn sector(&self, offset: u64) -> [u8; SECTOR] {
        let mut head = [0; HEAD];
        let said = MAGIC.iter().copied().chain(offset.to_le_bytes());
        let said = said.chain(self.said.iter().copied());
        for (to, from) in head.iter_mut().zip(said) {
            *to = from;
        }
        let mut digest = [0; PART];
        Hash::Sha256.digest(&[&head], &mut digest);
        let mut sector = [0; SECTOR];
        for part in sector.as_chunks_mut().0 {
            *part = digest;
        }
        sector[..HEAD].copy_from_slice(&head);
        sector
    }

    /// Checks whether a sector is the one at `offset`, perhaps with its user's decision on it.
    pub(super) fn is_sector(found: &[u8], filling: &[u8]) -> bool {
        found == filling || (found.starts_with(KEEP) && found.get(4..) == filling.get(4..))
    }

    /// Reads what the sector at `offset` says, where it is a filled one of a device of any size.
    fn read(found: &[u8], offset: u64) -> Option<Filled> {
        let keep = found.starts_with(KEEP);
        if !(keep || found.starts_with(&MAGIC[..4])) || found.get(4..16)? != &MAGIC[4..] {
            return None;
        }
        let record = Record::said(Stage::Saved, found.get(24..HEAD)?)?;
        let filling = Self::of(&record).sector(offset);
        let is_within = offset < record.start.len;
        let whole = is_within && Self::is_sector(found, &filling) && record.is_possible();
        whole.then_some(Filled {
            record,
            offset,
            keep,
        })
    }

    /// Reads the first sector of a device, where it is a filled one. Unlike any other sector it is not a
    /// part of a file in the data.
    pub(super) fn first(backend: &dyn Backend) -> Result<Option<Filled>, InPlaceError> {
        if backend.info().size < SECTOR as u64 {
            return Ok(None);
        }
        let mut sector = [0; SECTOR];
        backend.read_at(0, &mut sector)?;
        Ok(Self::read(&sector, 0))
    }

    /// Finds the first filled sector of a device. Its contents cannot be trusted: anyone who can write to
    /// the device, or to a file in it, may have written them.
    pub(super) fn find(backend: &dyn Backend) -> Result<Option<Filled>, InPlaceError> {
        let mut buffer = DataBuffer::zeroed(PIECE);
        for (at, len) in pieces(backend.info().size.min(LOOK)) {
            let piece = &mut buffer[..len];
            backend.read_at(at, piece)?;
            let mut sectors = piece.chunks_exact(SECTOR).zip((at..).step_by(SECTOR));
            let found = sectors.find_map(|(sector, offset)| Self::read(sector, offset));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_place::record::tests::record;
    use scrim_backend::MemoryBackend;

    #[test]
    fn a_filled_sector_says_what_was_done_and_only_at_its_place() {
        let filling = Filling::of(&record());
        let mut sector = filling.sector(1024);
        let read = Filling::read(&sector, 1024).unwrap();
        assert_eq!(
            (&read.record, read.offset, read.keep),
            (&record(), 1024, false)
        );
        assert_eq!(Filling::read(&sector, 512), None, "a copy of one");
        for at in [0, 4, 16, 40, 100, HEAD, SECTOR - 1] {
            sector[at] ^= 1;
            assert_eq!(Filling::read(&sector, 1024), None, "{at}");
            sector[at] ^= 1;
        }
        let behind = record().start.len;
        assert_eq!(Filling::read(&filling.sector(behind), behind), None);
        sector[..4].copy_from_slice(KEEP);
        assert!(Filling::read(&sector, 1024).unwrap().keep);
        let mut bytes = vec![0; 10_000];
        bytes[1024..1536].copy_from_slice(&sector);
        let found = Filling::find(&MemoryBackend::new(bytes)).unwrap();
        assert_eq!(found.unwrap().offset, 1024);
    }

    #[test]
    fn numbers_that_cannot_be_true_are_nobodys() {
        for change in [
            (|record| record.original = 0) as fn(&mut Record),
            |record| record.original = 1,
            |record| record.shift = 0,
            |record| record.shift = u64::MAX,
            |record| record.start.saved = u64::MAX,
            |record| record.start.saved = 0,
            |record| record.start.len = u64::MAX,
            |record| record.start.len = 0,
            |record| record.start.len += 1,
            |record| record.start.len -= 512,
            |record| {
                record.start.saved += 512;
                record.original += 512;
            },
        ] {
            let mut record = record();
            change(&mut record);
            let sector = Filling::of(&record).sector(0);
            assert_eq!(Filling::read(&sector, 0), None, "{record:?}");
        }
    }
}
