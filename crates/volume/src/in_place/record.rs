//! What lies at the end of a device until its header is whole.

use scrim_backend::{Backend, Durability};
use scrim_luks::kdf::Hash;
use scrim_sys::memory::DataBuffer;

use super::error::InPlaceError;
use super::{PIECE, copy, pieces};
use crate::luks_device::{LuksDevice, LuksError};

/// Bytes of a record, at the end of the device, of which what is no multiple does not count.
pub(super) const LEN: u64 = BYTES as u64;
const BYTES: usize = 4096;
const MAGIC: &[u8; 16] = b"scrim in place\x00\x01";
/// Bytes that the digest at the end is of.
const BODY: usize = BYTES - 32;
/// Bytes of the first sector, by which a header that was begun is known.
const FIRST: usize = 512;
/// Bytes of a UUID as text.
const UUID: usize = 40;

/// What was done before there is a header. Numbers are bytes, 8 little endian bytes each after the
/// magic, in this order; then the digest, the UUID padded with zeros, zeros, and the SHA-256 of all that.
#[derive(Default)]
pub(super) struct Record {
    /// How much of the start of the data is saved; 0 while nothing is.
    pub(super) shift: u64,
    /// The size of the file before anything was done.
    pub(super) original: u64,
    /// Where it is saved.
    pub(super) saved: u64,
    /// Of what is saved.
    pub(super) digest: Digest,
    /// Of the header that was to be written.
    pub(super) uuid: String,
}

/// Of bytes in pieces: the SHA-256 of the digest before and the piece, as often as there are pieces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    pub(super) fn add(&mut self, piece: &[u8]) {
        let before = self.0;
        Hash::Sha256.digest(&[&before, piece], &mut self.0);
    }
}

impl Record {
    /// Durably.
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
        for number in [self.shift, self.original, self.saved] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.digest.0);
        bytes.extend(self.uuid.bytes().take(UUID));
        bytes.resize(BODY, 0);
        let mut digest = Digest::default();
        digest.add(&bytes);
        bytes.extend(digest.0);
        bytes
    }

    /// Durably takes away what is at its place: from now on nothing can be put back, because what is
    /// saved is no longer what the start of the data would have to be.
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
        let (body, stored) = bytes.split_at_checked(BODY)?;
        let mut digest = Digest::default();
        digest.add(body);
        let rest = body.strip_prefix(MAGIC)?;
        if digest.0 != stored {
            return None;
        }
        let (numbers, rest) = rest.split_at_checked(24)?;
        let mut numbers = numbers.as_chunks().0.iter().map(|n| u64::from_le_bytes(*n));
        let mut number = || numbers.next();
        let (shift, original, saved) = (number()?, number()?, number()?);
        let (digest, rest) = rest.split_first_chunk()?;
        let uuid = rest.get(..UUID)?.split(|byte| *byte == 0).next()?;
        Some(Self {
            shift,
            original,
            saved,
            digest: Digest(*digest),
            uuid: std::str::from_utf8(uuid).ok()?.to_owned(),
        })
    }

    fn read(backend: &dyn Backend) -> Result<Option<Self>, InPlaceError> {
        let Some(at) = place(backend) else {
            return Ok(None);
        };
        let mut bytes = vec![0; BYTES];
        backend.read_at(at, &mut bytes)?;
        let fits = |record: &Self| {
            let end = record.saved.checked_add(record.shift);
            let saved = record.saved >= record.shift && end.is_some_and(|end| end <= at);
            (saved || record.shift == 0) && record.original <= backend.info().size
        };
        Ok(Self::decode(&bytes).filter(fits))
    }

    /// Whether what it says is saved is there.
    fn is_true(&self, backend: &dyn Backend) -> Result<bool, InPlaceError> {
        let mut buffer = DataBuffer::zeroed(PIECE);
        let mut digest = Digest::default();
        for (at, len) in pieces(self.shift) {
            let piece = &mut buffer[..len];
            backend.read_at(self.saved + at, piece)?;
            digest.add(piece);
        }
        Ok(digest == self.digest)
    }
}

/// Whether a header was being written over the start: the first sector is zeroed, durably, before
/// anything else is. What else is there is the user's, and may be newer than what was saved.
fn is_overwritten(backend: &dyn Backend) -> Result<bool, InPlaceError> {
    let mut first = [0; FIRST];
    backend.read_at(0, &mut first)?;
    Ok(first.starts_with(b"LUKS\xba\xbe") || first.iter().all(|byte| *byte == 0))
}

/// Where the record lies.
fn place(backend: &dyn Backend) -> Option<u64> {
    let size = backend.info().size;
    (size - size % LEN).checked_sub(LEN)
}

/// Puts back what an encryption in place has changed that was cut short before its header was whole.
/// Returns the size that the file had, to which it is to be cut: the record, without which nobody knows
/// that size, goes with that. `None` where there is nothing to undo.
///
/// # Errors
/// When the storage fails. It can be tried again.
pub fn undo(backend: &dyn Backend) -> Result<Option<u64>, InPlaceError> {
    let Some(record) = Record::read(backend)? else {
        return Ok(None);
    };
    let begun = match LuksDevice::read(backend) {
        Ok(luks) => luks.header().uuid().raw() == record.uuid,
        // Damaged, or not there: it was being written.
        Err(LuksError::Header(_)) => false,
        Err(error) => return Err(error.into()),
    };
    if begun || !record.is_true(backend)? {
        return Ok(None);
    }
    if is_overwritten(backend)? {
        // The sector by which that is known comes last.
        let first = record.shift.min(FIRST as u64);
        copy(backend, record.saved + first, first, record.shift - first)?;
        backend.flush()?;
        copy(backend, record.saved, 0, first)?;
        backend.flush()?;
    }
    if let Some(at) = place(backend).filter(|at| *at < record.original) {
        backend.write_at(at, &[0; BYTES], Durability::Cached)?;
        backend.flush()?;
    }
    Ok(Some(record.original))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_never_with_a_bit_flipped() {
        let record = Record {
            shift: 1 << 20,
            original: 12345,
            saved: 7 << 20,
            digest: Digest([7; 32]),
            uuid: "9bbcbbf9-cf9b-48eb-95a2-34484ec7a33b".to_owned(),
        };
        let mut bytes = record.encode();
        assert_eq!(bytes.len() as u64, LEN);
        let read = Record::decode(&bytes).unwrap();
        assert_eq!(
            (read.shift, read.original, read.saved, read.digest),
            (record.shift, record.original, record.saved, record.digest)
        );
        assert_eq!(read.uuid, record.uuid);
        for at in [0, 15, 16, 40, 100, BODY - 1, BODY, bytes.len() - 1] {
            bytes[at] ^= 1;
            assert!(Record::decode(&bytes).is_none(), "{at}");
            bytes[at] ^= 1;
        }
        assert!(Record::decode(&bytes[1..]).is_none());
    }
}
