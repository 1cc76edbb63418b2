//! The record at the end of a device, until its header is whole.

use scrim_backend::{Backend, Durability};
use scrim_luks::kdf::Hash;
use scrim_sys::memory::DataBuffer;

use super::error::InPlaceError;
use super::start::Start;
use super::{PIECE, pieces};

/// Bytes that the record takes at the end of the device, of which what is no multiple does not count.
pub(super) const LEN: u64 = BYTES as u64;
const BYTES: usize = 4096;
const MAGIC: &[u8; 16] = b"scrim in place\x00\x02";
/// Bytes that say something. They are one sector, which a power cut does not tear: a record that is
/// written over an older one leaves one of the two.
const SECTOR: usize = 512;
/// Bytes that the digest at the end covers.
const BODY: usize = SECTOR - 32;
/// Bytes of a UUID as text.
const UUID: usize = 40;

/// What was done before there is a header. Numbers are bytes, 8 little endian bytes each after the
/// magic, in this order; then the digest, the UUID padded with zeros, zeros, and the SHA-256 of all that.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The size of the file before anything was done.
    pub(super) original: u64,
    /// By how much everything is to move.
    pub(super) shift: u64,
    /// What is saved, and where.
    pub(super) start: Start,
    /// UUID of the header that is to be written.
    pub(super) uuid: String,
}

/// Digest of bytes in pieces: the SHA-256 of the digest before and the piece, for each piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Digest(pub(super) [u8; 32]);

impl Digest {
    pub(super) fn add(&mut self, piece: &[u8]) {
        let before = self.0;
        Hash::Sha256.digest(&[&before, piece], &mut self.0);
    }

    /// Digests a range of a device.
    pub(super) fn of(backend: &dyn Backend, from: u64, len: u64) -> Result<Self, InPlaceError> {
        let mut buffer = DataBuffer::zeroed(PIECE);
        let mut digest = Self::default();
        for (at, len) in pieces(len) {
            let piece = &mut buffer[..len];
            backend.read_at(from + at, piece)?;
            digest.add(piece);
        }
        Ok(digest)
    }
}

impl Record {
    /// Writes it durably.
    pub(super) fn write(&self, backend: &dyn Backend) -> Result<(), InPlaceError> {
        let Some(at) = place(backend) else {
            return Ok(());
        };
        backend.write_at(at, &self.encode(), Durability::Cached)?;
        backend.flush()?;
        Ok(())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let Start { saved, len, digest } = self.start;
        for number in [self.original, self.shift, saved, len] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(digest.0);
        bytes.extend(self.uuid.bytes().take(UUID));
        bytes.resize(BODY, 0);
        let mut digest = Digest::default();
        digest.add(&bytes);
        bytes.extend(digest.0);
        bytes.resize(BYTES, 0);
        bytes
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
        let rest = body.strip_prefix(MAGIC)?;
        if digest.0 != stored {
            return None;
        }
        let (numbers, rest) = rest.split_at_checked(32)?;
        let mut numbers = numbers.as_chunks().0.iter().map(|n| u64::from_le_bytes(*n));
        let mut number = || numbers.next();
        let (original, shift, saved, len) = (number()?, number()?, number()?, number()?);
        let (digest, rest) = rest.split_first_chunk()?;
        let uuid = rest.get(..UUID)?.split(|byte| *byte == 0).next()?;
        Some(Self {
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

    /// Reads the record, if the device ends with one whose numbers can be true.
    pub(super) fn read(backend: &dyn Backend) -> Result<Option<Self>, InPlaceError> {
        let Some(at) = place(backend) else {
            return Ok(None);
        };
        let mut bytes = vec![0; BYTES];
        backend.read_at(at, &mut bytes)?;
        let size = backend.info().size;
        Ok(Self::decode(&bytes).filter(|record| record.fits(at, size)))
    }

    /// Checks whether its numbers can be those of a device of `size` bytes on which it lies at `place`.
    fn fits(&self, place: u64, size: u64) -> bool {
        let grown = self.original < place;
        let saved = self.original.checked_next_multiple_of(LEN);
        let saved = saved.and_then(|length| length.checked_add(self.shift));
        let end = saved.and_then(|saved| saved.checked_add(self.shift));
        let has_grown_so = end == Some(place);
        if self.start.saved == 0 {
            return grown && has_grown_so && (1..=self.shift).contains(&self.start.len);
        }
        let of_this_file = has_grown_so && saved == Some(self.start.saved);
        (if grown {
            of_this_file
        } else {
            self.original == size
        }) && self.start.fits(self.shift, place)
    }

    /// Checks whether a range behind the end that the file had is all zeros, so that nobody uses it.
    pub(super) fn is_unused(
        backend: &dyn Backend,
        from: u64,
        end: u64,
    ) -> Result<bool, InPlaceError> {
        let mut buffer = DataBuffer::zeroed(PIECE);
        for (at, len) in pieces(end.saturating_sub(from)) {
            let piece = &mut buffer[..len];
            backend.read_at(from + at, piece)?;
            if piece.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Finds where the record lies.
pub(super) fn place(backend: &dyn Backend) -> Option<u64> {
    let size = backend.info().size;
    (size - size % LEN).checked_sub(LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
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
        for at in [0, 15, 16, 40, 100, BODY - 1, BODY, SECTOR - 1] {
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
        assert!(with(|record| record.start.saved = 0), "it only grew");
        assert!(!with(|record| record.start = Start::default()));
        let device = |record: &mut Record| record.original = (8 << 20) + LEN;
        assert!(with(device), "a device, whose end holds no data");
    }
}
