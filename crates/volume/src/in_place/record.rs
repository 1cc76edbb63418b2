//! The record at the end of a device, until its header is whole.

use scrim_backend::{Backend, Durability};
use scrim_sys::memory::DataBuffer;

use super::digest::Digest;
use super::error::InPlaceError;
use super::marks::{self, Marks};
use super::pieces::{PIECE, SECTOR, are_zeros, is_zero, pieces};
use super::start::Start;

/// Length of the record at the end of the device, in bytes. A device counts up to the last multiple of it.
pub(super) const LEN: u64 = BYTES as u64;
const BYTES: usize = SECTOR + marks::SECTORS * SECTOR;
/// Opens a record of any version; the version follows.
const MAGIC: &[u8; 15] = b"scrim in place\x00";
const VERSION: u8 = 4;
/// Bytes that the digest at the end covers: with it they are one sector, which a power cut does not tear. So a record
/// that is written over an older one leaves one of the two.
const BODY: usize = SECTOR - 32;
/// Bytes of a UUID as text.
const UUID: usize = 40;
/// Bytes that say all but the stage: four numbers, a digest and a UUID.
const SAID: usize = 32 + 32 + UUID;

/// Progress of a beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// The file has been made longer, and the start is being saved.
    Grown,
    /// The start is saved, and the header is being made, whose sectors have these marks.
    Making(Marks),
    /// The start is saved, and the header made.
    Saved,
}

/// Steps that were taken before there is a header. After magic and version there is the stage in 8 bytes; then
/// the sizes and places in bytes, 8 little endian bytes each, in this order; the digest, the UUID padded
/// with zeros, the seed of the marks, zeros, and the SHA-256 of all that. The other sectors hold the marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) stage: Stage,
    /// The size of the file before anything was done.
    pub(super) original: u64,
    /// Bytes by which everything is to move.
    pub(super) shift: u64,
    pub(super) start: Start,
    /// UUID of the header that is to be written.
    pub(super) uuid: String,
}

impl Record {
    /// Writes the record at the end of the device, durably.
    pub(super) fn write(&self, backend: &dyn Backend) -> Result<(), InPlaceError> {
        let at = place(backend).ok_or(InPlaceError::NoRoom)?;
        // Marks stay until the record that needs none is durable: a power cut may keep one sector and lose the other.
        let written = match self.stage {
            Stage::Saved => self.encode_first_sector(),
            Stage::Grown | Stage::Making(_) => self.encode(),
        };
        backend.write_at(at, &written, Durability::Cached)?;
        backend.flush()?;
        Ok(())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.encode_first_sector();
        if let Stage::Making(marks) = &self.stage {
            bytes.extend(marks.encode());
        }
        bytes.resize(BYTES, 0);
        bytes
    }

    /// Encodes all of it but the marks.
    fn encode_first_sector(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        let stage: u64 = match self.stage {
            Stage::Grown => 0,
            Stage::Saved => 1,
            Stage::Making(_) => 2,
        };
        bytes.extend(stage.to_le_bytes());
        bytes.extend(self.say());
        bytes.extend(match &self.stage {
            Stage::Making(marks) => marks.seed,
            Stage::Grown | Stage::Saved => [0; 32],
        });
        bytes.resize(BODY, 0);
        let mut digest = Digest::default();
        digest.add(&bytes);
        bytes.extend(digest.0);
        bytes
    }

    /// Encodes all of it but the stage.
    pub(super) fn say(&self) -> Vec<u8> {
        let Start { saved, len, digest } = self.start;
        let numbers = [self.original, self.shift, saved, len];
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend(digest.0);
        bytes.extend(self.uuid.bytes().take(UUID));
        bytes.resize(SAID, 0);
        bytes
    }

    /// Reads what [`Record::say`] wrote.
    pub(super) fn said(stage: Stage, bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.split_at_checked(32)?;
        let mut numbers = numbers.as_chunks().0.iter().map(|n| u64::from_le_bytes(*n));
        let mut number = || numbers.next();
        let (original, shift, saved, len) = (number()?, number()?, number()?, number()?);
        let (digest, rest) = rest.split_first_chunk()?;
        let uuid = rest.get(..UUID)?.split(|byte| *byte == 0).next()?;
        Some(Self {
            stage,
            original,
            shift,
            start: Start {
                saved,
                len,
                digest: Digest(*digest),
            },
            uuid: std::str::from_utf8(uuid).ok()?.to_owned(),
        })
    }

    /// Takes a record away durably: from now on nothing can be put back, because what is saved is no
    /// longer what the start of the data would have to be.
    pub(super) fn destroy(backend: &dyn Backend) -> Result<(), InPlaceError> {
        if let Some(at) = place(backend)
            && Self::read(backend)?.is_some()
        {
            backend.write_at(at, &[0; BYTES], Durability::Cached)?;
            backend.flush()?;
        }
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, rest) = bytes.split_at_checked(BODY)?;
        let stored = rest.get(..SECTOR - BODY)?;
        let mut digest = Digest::default();
        digest.add(body);
        let (version, rest) = body.strip_prefix(MAGIC)?.split_first()?;
        if *version != VERSION || digest.0 != stored {
            return None;
        }
        let (stage, rest) = rest.split_first_chunk()?;
        let stage = match u64::from_le_bytes(*stage) {
            0 => Stage::Grown,
            1 => Stage::Saved,
            2 => {
                let seed = rest.get(SAID..)?.first_chunk()?;
                Stage::Making(Marks::decode(*seed, bytes.get(SECTOR..)?))
            }
            _ => return None,
        };
        Self::said(stage, rest)
    }

    /// Reads the record, if the device ends with one whose numbers can be true.
    pub(super) fn read(backend: &dyn Backend) -> Result<Option<Self>, InPlaceError> {
        let Some((at, bytes)) = end_of(backend)? else {
            return Ok(None);
        };
        let size = backend.info().size;
        Ok(Self::decode(&bytes).filter(|record| record.fits(at, size)))
    }

    /// Checks whether the file was made longer for it, and not a device divided.
    pub(super) fn is_of_file(&self) -> bool {
        self.original < self.start.saved
    }

    /// Checks whether its numbers can be those of any device.
    pub(super) fn is_possible(&self) -> bool {
        let Start { saved, len, .. } = self.start;
        let end = saved.checked_add(self.shift);
        let Some(device) = end.and_then(|end| end.checked_add(LEN)) else {
            return false;
        };
        let aligned = [saved, self.shift].iter().all(|n| n.is_multiple_of(LEN));
        // The data in whole blocks; in whole sectors it may be shorter by less than a block.
        let data = saved.saturating_sub(self.shift);
        let overwritten = data.min(self.shift);
        let is_overwritten = match data > self.shift {
            true => len == overwritten,
            false => len <= overwritten && overwritten - len < LEN,
        };
        let whole = len > 0 && len.is_multiple_of(SECTOR as u64) && aligned && is_overwritten;
        let made = saved.checked_sub(len);
        let behind_the_header = made.is_some_and(|made| made >= self.shift);
        let belongs = if self.is_of_file() {
            let length = self.original.checked_next_multiple_of(LEN);
            length.and_then(|length| length.checked_add(self.shift)) == Some(saved)
        } else {
            self.stage == Stage::Saved && self.original >= device
        };
        self.original > 0 && whole && behind_the_header && belongs
    }

    /// Finds the size that a file or device has while this is its record.
    pub(super) fn size(&self) -> u64 {
        match self.is_of_file() {
            true => self.start.saved + self.shift + LEN,
            false => self.original,
        }
    }

    /// Checks whether the bytes at the end of a file of its size are nobody else's: the record, or zeros, and
    /// marks behind either.
    pub(super) fn is_end_unused(&self, backend: &dyn Backend) -> Result<bool, InPlaceError> {
        let Some((_, bytes)) = end_of(backend)? else {
            return Ok(false);
        };
        let (first, rest) = bytes.split_at(SECTOR);
        let mut rest = rest.chunks_exact(SECTOR).enumerate();
        let is_ours = is_zero(first) || first == self.encode_first_sector();
        Ok(is_ours && rest.all(|(place, found)| is_zero(found) || Marks::is_marks(place, found)))
    }

    /// Checks whether its numbers can be those of a device of `size` bytes on which it lies at `place`.
    fn fits(&self, place: u64, size: u64) -> bool {
        let here = match self.is_of_file() {
            true => self.start.saved.checked_add(self.shift) == Some(place),
            false => self.original == size,
        };
        here && self.is_possible()
    }

    /// Checks whether a file that was made longer holds nothing of its user's behind its old end, but
    /// perhaps a part of what is saved there, of a start that has not changed since, and of the header that
    /// is made beside it.
    pub(super) fn is_unused(&self, backend: &dyn Backend) -> Result<bool, InPlaceError> {
        let Start { saved, len, .. } = self.start;
        let made = [(0, saved - len, len), (len, saved + len, self.shift - len)];
        if !are_zeros(backend, self.original, saved - len)? {
            return Ok(false);
        }
        for (offset, at, len) in made {
            if !self.is_made(backend, offset, at, len)? {
                return Ok(false);
            }
        }
        if !self.is_end_unused(backend)? {
            return Ok(false);
        }
        let [mut start, mut copy] = [0; 2].map(|_: u8| DataBuffer::zeroed(PIECE));
        for (at, len) in pieces(len) {
            let (start, copy) = (&mut start[..len], &mut copy[..len]);
            backend.read_at(at, start)?;
            backend.read_at(saved + at, copy)?;
            let mut sectors = start.chunks(SECTOR).zip(copy.chunks(SECTOR));
            if sectors.any(|(start, copy)| copy != start && !is_zero(copy)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks whether `len` bytes at `at` are nobody's, or the header's from `offset` on while it is made.
    fn is_made(
        &self,
        backend: &dyn Backend,
        offset: u64,
        at: u64,
        len: u64,
    ) -> Result<bool, InPlaceError> {
        let Stage::Making(marks) = &self.stage else {
            return are_zeros(backend, at, at + len);
        };
        let mut found = DataBuffer::zeroed(PIECE);
        for (done, len) in pieces(len) {
            let found = &mut found[..len];
            backend.read_at(at + done, found)?;
            let mut sectors = (offset + done..).step_by(SECTOR).zip(found.chunks(SECTOR));
            if !sectors.all(|(offset, found)| marks.is_sector(offset, found)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Checks whether the device ends with the record of another version of this program.
pub(super) fn is_of_other_version(backend: &dyn Backend) -> Result<bool, InPlaceError> {
    let end = end_of(backend)?;
    let version = end.and_then(|(_, bytes)| bytes.strip_prefix(MAGIC)?.first().copied());
    Ok(version.is_some_and(|version| (1..=16).contains(&version) && version != VERSION))
}

/// Reads the last bytes of a device, where a record would lie, and says where that is.
fn end_of(backend: &dyn Backend) -> Result<Option<(u64, Vec<u8>)>, InPlaceError> {
    let Some(at) = place(backend) else {
        return Ok(None);
    };
    let mut bytes = vec![0; BYTES];
    backend.read_at(at, &mut bytes)?;
    Ok(Some((at, bytes)))
}

/// Finds where the record lies.
pub(super) fn place(backend: &dyn Backend) -> Option<u64> {
    let size = backend.info().size;
    (size - size % LEN).checked_sub(LEN)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record of 6 MiB of data whose start of 1 MiB is saved.
    pub(in crate::in_place) fn record() -> Record {
        Record {
            stage: Stage::Saved,
            original: 6 << 20,
            shift: 1 << 20,
            start: Start {
                saved: 7 << 20,
                len: 1 << 20,
                digest: Digest([7; 32]),
            },
            uuid: "9bbcbbf9-cf9b-48eb-95a2-34484ec7a33b".to_owned(),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_never_with_a_bit_flipped() {
        let record = record();
        let mut bytes = record.encode();
        assert_eq!(bytes.len() as u64, LEN);
        assert_eq!(Record::decode(&bytes).unwrap(), record);
        for at in [0, 15, 16, 24, 40, 100, BODY - 1, BODY, SECTOR - 1] {
            bytes[at] ^= 1;
            assert!(Record::decode(&bytes).is_none(), "{at}");
            bytes[at] ^= 1;
        }
        assert!(Record::decode(&bytes[1..]).is_none());
        assert!(Record::decode(&bytes[..SECTOR - 1]).is_none());
        assert!(bytes[SECTOR..].iter().all(|byte| *byte == 0), "one sector");
    }

    #[test]
    fn a_record_whose_numbers_cannot_be_true_is_none() {
        let place = 8 << 20;
        let size = place + LEN;
        assert!(record().fits(place, size));
        let with = |change: fn(&mut Record)| {
            let mut record = record();
            change(&mut record);
            record.fits(place, size)
        };
        assert!(!with(|record| record.original -= LEN), "of another file");
        assert!(!with(|record| record.original = u64::MAX));
        assert!(!with(|record| record.shift = u64::MAX));
        assert!(!with(|record| record.shift = 0));
        assert!(!with(|record| record.start.saved -= LEN));
        assert!(!with(|record| record.start.saved = u64::MAX));
        assert!(!with(|record| record.start.len += 512));
        assert!(!with(|record| record.start.len = u64::MAX));
        assert!(!with(|record| record.start.saved = 0));
        assert!(
            !with(|record| record.start.len -= 512),
            "a header is longer"
        );
        assert!(!with(|record| {
            record.shift -= 512;
            record.start.saved += 512;
            record.start.len = record.shift;
        }));
        assert!(with(|record| record.stage = Stage::Grown), "it only grew");
        assert!(!with(|record| record.start = Start::default()));
        let device = |record: &mut Record| record.original = (8 << 20) + LEN;
        assert!(with(device), "a device, whose end holds no data");
        let grown = |record: &mut Record| {
            record.original = (8 << 20) + LEN;
            record.stage = Stage::Grown;
        };
        assert!(!with(grown), "a device keeps its size");
    }

    /// The header overwrites all of the data that is shorter.
    #[test]
    fn a_record_says_how_much_is_overwritten_and_no_less() {
        let with = |original: u64, len| {
            let saved = original.next_multiple_of(LEN) + (1 << 20);
            let start = Start {
                saved,
                len,
                ..record().start
            };
            Record {
                original,
                start,
                ..record()
            }
            .is_possible()
        };
        for (original, len) in [
            (1, 512),
            (1, 4096),
            (4608, 4608),
            (4608, 8192),
            (1 << 20, 1 << 20),
        ] {
            assert!(with(original, len), "{original} {len}");
        }
        for (original, len) in [
            (1, 0),
            (1, 4608),
            (4608, 4096),
            (4608, 512),
            ((1 << 20) + 1, (1 << 20) - 512),
            (6 << 20, 512),
        ] {
            assert!(!with(original, len), "{original} {len}");
        }
    }

    #[test]
    fn the_record_of_another_version_is_known() {
        use scrim_backend::MemoryBackend;
        let with = |version: u8| {
            let mut bytes = vec![0; 3 * BYTES];
            bytes[2 * BYTES..2 * BYTES + 15].copy_from_slice(MAGIC);
            bytes[2 * BYTES + 15] = version;
            is_of_other_version(&MemoryBackend::new(bytes)).unwrap()
        };
        assert!(with(1) && with(3) && !with(VERSION));
        assert!(!with(0) && !with(b'x'), "no version");
        assert!(!is_of_other_version(&MemoryBackend::new(vec![0; 100])).unwrap());
    }

    #[test]
    fn a_device_without_a_place_for_a_record_takes_none() {
        let small = scrim_backend::MemoryBackend::new(vec![0; BYTES - 1]);
        assert!(matches!(record().write(&small), Err(InPlaceError::NoRoom)));
    }
}
