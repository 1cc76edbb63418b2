//! The start of the data, over which the header is written: saved, filled, and put back.
//!
//! What is found there must prove whose it is, since an image whose encryption has not got beyond its
//! beginning may be used before the same command is given again. So the header is made somewhere else
//! first, and the start is overwritten twice, with everything durable in between:
//!
//! 1. with a filling that nobody else writes, each sector by the digest of what is saved and made;
//! 2. with the header, as it was made.
//!
//! In the first step each sector is as it was saved, or filled; in the second it is filled, or the
//! header's. What is neither was written by somebody else.

use scrim_backend::{Backend, BackendError, Durability};
use scrim_luks::kdf::Hash;
use scrim_luks::{Header, Plan, Target};
use scrim_sys::memory::DataBuffer;

use super::error::InPlaceError;
use super::record::Digest;
use super::room::Room;
use super::{PIECE, copy, pieces};
use crate::header_session::apply_to;

/// Bytes that a power cut does not tear.
const SECTOR: usize = 512;
/// Bytes of which a filling is made.
const PART: usize = 32;

/// The start of the data that a header overwrites: where it is saved, and where the header is made.
///
/// ```text
///   saved - len             saved          saved + len            saved + shift
///   | start of the header   | saved start  | rest of the header   |
/// ```
///
/// The header is `shift` bytes long, and its rest is empty unless there is less data than that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// Where it is saved; 0 while it is not, and a file has only been made longer.
    pub(super) saved: u64,
    /// How much of the data the header overwrites, in bytes.
    pub(super) len: u64,
    /// Digest of all that is saved and made, or of the start itself while nothing is.
    pub(super) digest: Digest,
}

/// What the start of a device shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// All as it was saved.
    Saved,
    /// Something else, and nothing that the header's writing leaves: it was used since.
    Data,
    /// Sectors as they were saved, and filled ones.
    Filled,
    /// Filled sectors, and those of the header.
    Header,
    /// What is left of these, and something else.
    Used,
}

impl Start {
    /// Looks at the start before anything is done.
    pub(super) fn unsaved(backend: &dyn Backend, room: Room) -> Result<Self, InPlaceError> {
        let len = room.length.min(room.shift);
        Ok(Self {
            saved: 0,
            len,
            digest: Digest::of(backend, 0, len.min(room.original))?,
        })
    }

    /// Saves the start of the data, and makes the header beside it; all of it is durable then.
    pub(super) fn save(
        backend: &dyn Backend,
        room: Room,
        header: &Plan,
    ) -> Result<Self, InPlaceError> {
        let mut start = Self {
            saved: room.saved(),
            len: room.length.min(room.shift),
            digest: Digest::default(),
        };
        copy(backend, 0, start.saved, start.len)?;
        apply_to(header, &mut Aside { backend, start })?;
        backend.flush()?;
        start.digest = start.digest_of(backend, room.shift)?;
        Ok(start)
    }

    /// Checks whether the numbers can be those of a device whose record lies at `place`.
    pub(super) fn fits(&self, shift: u64, place: u64) -> bool {
        let made = self.saved.checked_sub(self.len);
        let end = self.saved.checked_add(shift);
        let whole = self.len.is_multiple_of(SECTOR as u64);
        let behind_the_header = made.is_some_and(|made| made >= shift);
        let before_the_record = end.is_some_and(|end| end <= place);
        whole && (1..=shift).contains(&self.len) && behind_the_header && before_the_record
    }

    /// Checks whether what was saved and made is still there.
    pub(super) fn is_intact(
        &self,
        backend: &dyn Backend,
        shift: u64,
    ) -> Result<bool, InPlaceError> {
        Ok(self.digest_of(backend, shift)? == self.digest)
    }

    fn digest_of(&self, backend: &dyn Backend, shift: u64) -> Result<Digest, InPlaceError> {
        Digest::of(backend, self.saved - self.len, self.len + shift)
    }

    /// Overwrites it durably with what nobody else writes.
    pub(super) fn fill(&self, backend: &dyn Backend) -> Result<(), InPlaceError> {
        let mut buffer = DataBuffer::zeroed(PIECE);
        for (at, len) in pieces(self.len) {
            let piece = &mut buffer[..len];
            for (sector, offset) in piece.chunks_mut(SECTOR).zip((at..).step_by(SECTOR)) {
                sector.copy_from_slice(&self.filling(offset));
            }
            backend.write_at(at, piece, Durability::Cached)?;
        }
        backend.flush()?;
        Ok(())
    }

    /// The filling of the sector at `offset`.
    fn filling(&self, offset: u64) -> [u8; SECTOR] {
        let mut digest = [0; PART];
        Hash::Sha256.digest(&[&self.digest.0, &offset.to_le_bytes()], &mut digest);
        let mut filling = [0; SECTOR];
        for part in filling.as_chunks_mut().0 {
            *part = digest;
        }
        filling
    }

    /// Writes the header that was made over the filling: what it needs, then its secondary copy, then
    /// the primary one, each durably. So a header that is found whole is.
    pub(super) fn overwrite(
        &self,
        backend: &dyn Backend,
        header: &Header,
        shift: u64,
    ) -> Result<(), InPlaceError> {
        let copy_len = match header {
            Header::Luks1(_) => 0,
            Header::Luks2(header) => header.metadata_size(),
        };
        for (from, end) in [
            (2 * copy_len, shift),
            (copy_len, 2 * copy_len),
            (0, copy_len),
        ] {
            let split = self.len.max(from).min(end);
            copy(backend, self.made(from), from, split - from)?;
            copy(backend, self.made(split), split, end - split)?;
            backend.flush()?;
        }
        Ok(())
    }

    /// Finds where the header's byte at `offset` was made.
    fn made(&self, offset: u64) -> u64 {
        if offset < self.len {
            self.saved - self.len + offset
        } else {
            self.saved + offset
        }
    }

    /// Looks at what is there. Sectors of the header are told only where what was made is `intact`.
    pub(super) fn look(&self, backend: &dyn Backend, intact: bool) -> Result<Found, InPlaceError> {
        let [mut found, mut saved, mut made] = [0; 3].map(|_: u8| DataBuffer::zeroed(PIECE));
        let (mut unchanged, mut filled, mut header, mut traces) = (true, true, intact, false);
        for (at, len) in pieces(self.len) {
            let (found, saved, made) = (&mut found[..len], &mut saved[..len], &mut made[..len]);
            backend.read_at(at, found)?;
            backend.read_at(self.saved + at, saved)?;
            backend.read_at(self.made(at), made)?;
            let sectors = found.chunks(SECTOR).zip((at..).step_by(SECTOR));
            let expected = saved.chunks(SECTOR).zip(made.chunks(SECTOR));
            for ((found, offset), (saved, made)) in sectors.zip(expected) {
                let filling = self.filling(offset);
                let is_filling = found == filling;
                let (is_saved, is_made) = (found == saved, intact && found == made);
                unchanged &= is_saved;
                filled &= is_saved || is_filling;
                header &= is_made || is_filling;
                traces |= has_part(found, &filling);
                traces |= intact && !is_saved && has_part(found, made);
            }
        }
        Ok(match (traces, header, filled) {
            (false, ..) if unchanged => Found::Saved,
            (false, ..) => Found::Data,
            (true, true, _) => Found::Header,
            (true, false, true) => Found::Filled,
            (true, false, false) => Found::Used,
        })
    }

    /// Puts back what was saved. A cut meanwhile leaves what [`Start::look`] knows, too.
    pub(super) fn put_back(&self, backend: &dyn Backend, found: Found) -> Result<(), InPlaceError> {
        match found {
            Found::Filled => {}
            Found::Header => self.fill(backend)?,
            Found::Saved | Found::Data | Found::Used => return Ok(()),
        }
        copy(backend, self.saved, 0, self.len)?;
        backend.flush()?;
        Ok(())
    }
}

/// Checks whether a part of a sector is that of another one: a write need not cover a whole one. Zeros
/// are everybody's.
fn has_part(sector: &[u8], of: &[u8]) -> bool {
    let parts = |sector| <[u8]>::as_chunks::<PART>(sector).0.iter();
    let mut parts = parts(sector).zip(parts(of));
    parts.any(|(part, of)| part == of && *part != [0; PART])
}

/// The place where the header is made. Nothing has to be durable before all of it is there.
struct Aside<'a> {
    backend: &'a dyn Backend,
    start: Start,
}

impl Target for Aside<'_> {
    type Error = BackendError;

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
        let before = usize::try_from(self.start.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (start, rest) = bytes.split_at(before.min(bytes.len()));
        let mut offset = offset;
        for part in [start, rest] {
            if !part.is_empty() {
                let at = self.start.made(offset);
                self.backend.write_at(at, part, Durability::Cached)?;
            }
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}
