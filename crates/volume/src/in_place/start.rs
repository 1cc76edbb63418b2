//! The start of the data, over which the header is written: saved, filled, and put back.
//!
//! The sectors found there must prove which program wrote them, since an image whose encryption has not
//! got beyond its beginning may be used before the same command is given again. So the header is made
//! somewhere else first, and the start is overwritten twice, with everything durable in between:
//!
//! 1. with a [`Filling`] that no other program writes, each sector by the digest of the saved start and
//!    the made header;
//! 2. with the header, as it was made.
//!
//! In the first step each sector is as it was saved, or filled; in the second it is filled, or the
//! header's. A sector that is neither was written by another program, and stays.

use scrim_backend::{Backend, BackendError, Durability};
use scrim_luks::{Header, Plan, Target};
use scrim_sys::memory::DataBuffer;

use super::error::InPlaceError;
use super::filling::{Filling, KEEP};
use super::record::{Digest, are_zeros, is_zero};
use super::room::Room;
use super::{PIECE, copy, pieces};
use crate::header_session::apply_to;

/// Bytes that a power cut does not tear.
pub(super) const SECTOR: usize = 512;
/// Bytes of a filling that can be told from anybody's.
pub(super) const PART: usize = 32;

/// The start of the data that a header overwrites, with the place where it is saved and the header is made.
///
/// ```text
///   saved - len             saved          saved + len            saved + shift
///   | start of the header   | saved start  | rest of the header   |
/// ```
///
/// The header is `shift` bytes long, and its rest is empty unless there is less data than that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// Offset at which it is or will be saved.
    pub(super) saved: u64,
    /// Length of the data that the header overwrites, in bytes.
    pub(super) len: u64,
    /// Digest of all that is saved and made, or of the start itself while nothing is.
    pub(super) digest: Digest,
}

/// State of the start of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Sectors that are all as they were saved.
    Saved,
    /// Something else, and nothing that the header's writing leaves: it was used since.
    Data,
    /// Sectors as they were saved, and filled ones.
    Filled,
    /// Filled sectors, and those of the header.
    Header,
    /// Filled sectors, and whole ones that another program has written.
    Mixed,
    /// Remains of these, and something else that cannot be told from them.
    Used,
}

/// Classes of sectors that were found.
struct Sectors {
    all_saved: bool,
    only_saved_or_filled: bool,
    only_header_or_filled: bool,
    /// Each sector is as it was saved, filled, or wholly written by another program.
    all_told: bool,
    traces: bool,
}

impl Sectors {
    fn none() -> Self {
        Self {
            all_saved: true,
            only_saved_or_filled: true,
            only_header_or_filled: true,
            all_told: true,
            traces: false,
        }
    }

    /// Takes a sector in. `expected` is what is saved and what was made of it, where both are intact.
    fn add(&mut self, found: &[u8], filling: &[u8], expected: Option<(&[u8], &[u8])>) {
        let is_filling = Filling::is_sector(found, filling);
        let is_saved = expected.is_some_and(|(saved, _)| found == saved);
        let is_made = expected.is_some_and(|(_, made)| found == made);
        let has_made = expected.is_some_and(|(_, made)| has_part(found, made));
        let trace = has_part(found, filling) || (has_made && !is_saved);
        self.all_saved &= is_saved;
        self.only_saved_or_filled &= is_saved || is_filling;
        self.only_header_or_filled &= is_made || is_filling;
        self.all_told &= is_saved || is_filling || !(trace || is_made);
        self.traces |= trace;
    }

    fn found(&self) -> Found {
        match self.traces {
            false if self.all_saved => Found::Saved,
            false => Found::Data,
            true if self.only_header_or_filled => Found::Header,
            true if self.only_saved_or_filled => Found::Filled,
            true if self.all_told => Found::Mixed,
            true => Found::Used,
        }
    }
}

impl Start {
    /// Looks at the start before anything is done.
    pub(super) fn unsaved(backend: &dyn Backend, room: Room) -> Result<Self, InPlaceError> {
        let len = room.length.min(room.shift);
        Ok(Self {
            saved: room.saved(),
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

    /// Checks whether what was saved and made is still there, on a device of any size.
    pub(super) fn is_intact(
        &self,
        backend: &dyn Backend,
        shift: u64,
    ) -> Result<bool, InPlaceError> {
        let is_there = self.saved + shift <= backend.info().size;
        Ok(is_there && self.digest_of(backend, shift)? == self.digest)
    }

    fn digest_of(&self, backend: &dyn Backend, shift: u64) -> Result<Digest, InPlaceError> {
        Digest::of(backend, self.saved - self.len, self.len + shift)
    }

    /// Overwrites it durably with sectors that no other program writes. The first sector comes first, so that the
    /// filled ones are known by it.
    pub(super) fn fill(
        &self,
        backend: &dyn Backend,
        filling: &Filling,
    ) -> Result<(), InPlaceError> {
        backend.write_at(0, &filling.sector(0), Durability::Durable)?;
        let mut buffer = DataBuffer::zeroed(PIECE);
        for (at, len) in pieces(self.len) {
            let piece = &mut buffer[..len];
            for (sector, offset) in piece.chunks_mut(SECTOR).zip((at..).step_by(SECTOR)) {
                sector.copy_from_slice(&filling.sector(offset));
            }
            backend.write_at(at, piece, Durability::Cached)?;
        }
        backend.flush()?;
        Ok(())
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

    /// Looks at what is there. Sectors that were saved or made are told only where these are `intact`.
    pub(super) fn look(
        &self,
        backend: &dyn Backend,
        filling: &Filling,
        intact: bool,
    ) -> Result<Found, InPlaceError> {
        let [mut found, mut saved, mut made] = [0; 3].map(|_: u8| DataBuffer::zeroed(PIECE));
        let mut seen = Sectors::none();
        for (at, len) in pieces(self.len.min(backend.info().size)) {
            let (found, saved, made) = (&mut found[..len], &mut saved[..len], &mut made[..len]);
            backend.read_at(at, found)?;
            if intact {
                backend.read_at(self.saved + at, saved)?;
                backend.read_at(self.made(at), made)?;
            }
            let sectors = found.chunks(SECTOR).zip((at..).step_by(SECTOR));
            let expected = saved.chunks(SECTOR).zip(made.chunks(SECTOR));
            for ((found, offset), expected) in sectors.zip(expected) {
                let filling = filling.sector(offset);
                seen.add(found, &filling, intact.then_some(expected));
            }
        }
        Ok(seen.found())
    }

    /// Checks whether all between `from` and what was made is nobody's: zeros, or in the first `shift`
    /// bytes of the device, behind the data, the header's.
    pub(super) fn is_unused(
        &self,
        backend: &dyn Backend,
        from: u64,
        shift: u64,
    ) -> Result<bool, InPlaceError> {
        let behind = self.len.max(from);
        let end = self.saved - self.len;
        if !(are_zeros(backend, from, behind)? && are_zeros(backend, behind.max(shift), end)?) {
            return Ok(false);
        }
        let [mut found, mut made] = [0; 2].map(|_: u8| DataBuffer::zeroed(PIECE));
        for (at, len) in pieces(shift.saturating_sub(behind)) {
            let (found, made) = (&mut found[..len], &mut made[..len]);
            backend.read_at(behind + at, found)?;
            backend.read_at(self.made(behind + at), made)?;
            let mut sectors = found.chunks(SECTOR).zip(made.chunks(SECTOR));
            if sectors.any(|(found, made)| found != made && !is_zero(found)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts back the sectors that nobody but this program has written, and keeps all others. A cut
    /// meanwhile leaves what [`Start::look`] knows, too: while anything is left to do a filled sector says
    /// so, and the first one is put back last.
    pub(super) fn put_back(
        &self,
        backend: &dyn Backend,
        filling: &Filling,
        found: Found,
        shift: u64,
    ) -> Result<(), InPlaceError> {
        // Only over a filling that begins with the first sector is a header written.
        if found != Found::Filled && Filling::first(backend)?.is_some() {
            self.clear_rest(backend, shift)?;
        }
        match found {
            Found::Header => self.fill(backend, filling)?,
            Found::Used => self.fill_made(backend, filling)?,
            _ => {}
        }
        self.replace_filled(backend, filling, true)
    }

    /// Clears durably what the header's writing has left behind the data, where there is less of that
    /// than the header is long.
    fn clear_rest(&self, backend: &dyn Backend, shift: u64) -> Result<(), InPlaceError> {
        if self.len == shift {
            return Ok(());
        }
        let [mut found, mut made] = [0; 2].map(|_: u8| DataBuffer::zeroed(PIECE));
        for (at, len) in pieces(shift - self.len) {
            let (found, made) = (&mut found[..len], &mut made[..len]);
            backend.read_at(self.len + at, found)?;
            backend.read_at(self.made(self.len + at), made)?;
            for (found, made) in found.chunks_mut(SECTOR).zip(made.chunks(SECTOR)) {
                if found == made {
                    found.fill(0);
                }
            }
            backend.write_at(self.len + at, found, Durability::Cached)?;
        }
        backend.flush()?;
        Ok(())
    }

    /// Fills the sectors durably that the header's writing has left, and marks that the others are kept.
    fn fill_made(&self, backend: &dyn Backend, filling: &Filling) -> Result<(), InPlaceError> {
        let [mut found, mut made] = [0; 2].map(|_: u8| DataBuffer::zeroed(PIECE));
        for (at, len) in pieces(self.len) {
            let (found, made) = (&mut found[..len], &mut made[..len]);
            backend.read_at(at, found)?;
            backend.read_at(self.made(at), made)?;
            let sectors = found.chunks_mut(SECTOR).zip((at..).step_by(SECTOR));
            for ((found, offset), made) in sectors.zip(made.chunks(SECTOR)) {
                if found == made && !is_zero(made) {
                    found.copy_from_slice(&filling.sector(offset));
                    found[..KEEP.len()].copy_from_slice(KEEP);
                }
            }
            backend.write_at(at, found, Durability::Cached)?;
        }
        backend.flush()?;
        Ok(())
    }

    /// Puts back the filled sectors durably, the first one after all others. Where what was saved is not
    /// `intact` they are cleared.
    pub(super) fn replace_filled(
        &self,
        backend: &dyn Backend,
        filling: &Filling,
        intact: bool,
    ) -> Result<(), InPlaceError> {
        let [mut found, mut saved] = [0; 2].map(|_: u8| DataBuffer::zeroed(PIECE));
        let mut first = None;
        for (at, len) in pieces(self.len.min(backend.info().size)) {
            let (found, saved) = (&mut found[..len], &mut saved[..len]);
            backend.read_at(at, found)?;
            if intact {
                backend.read_at(self.saved + at, saved)?;
            }
            let sectors = found.chunks_mut(SECTOR).zip((at..).step_by(SECTOR));
            for ((found, offset), saved) in sectors.zip(saved.chunks(SECTOR)) {
                if !Filling::is_sector(found, &filling.sector(offset)) {
                    continue;
                }
                if first.is_none() {
                    first = Some((offset, saved.to_vec()));
                    continue;
                }
                found.copy_from_slice(saved);
            }
            backend.write_at(at, found, Durability::Cached)?;
        }
        backend.flush()?;
        if let Some((offset, saved)) = first {
            backend.write_at(offset, &saved, Durability::Cached)?;
            backend.flush()?;
        }
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

/// The place where the header is made, which need not be durable before all of it is there.
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
