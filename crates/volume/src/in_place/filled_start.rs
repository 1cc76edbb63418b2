//! The start of the data while the header is written over it: saved, filled, and put back.
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

use scrim_backend::{Backend, Durability};
use scrim_sys::memory::DataBuffer;

use super::error::InPlaceError;
use super::filling::{Filling, KEEP, PART};
use super::pieces::{PIECE, SECTOR, is_zero, pieces};
use super::start::Start;

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
