//! The start of the data, over which the header is written: the place where it is saved, and the header is made.

use scrim_backend::{Backend, BackendError, Durability};
use scrim_luks::{Header, Plan, Target};
use scrim_sys::memory::DataBuffer;

use super::digest::Digest;
use super::error::InPlaceError;
use super::marks::Marks;
use super::pieces::{PIECE, SECTOR, are_zeros, copy, is_zero, pieces};

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

/// Places of a [`Start`] and of the header that overwrites it, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartPlace {
    /// Offset at which the start is saved.
    pub(super) saved: u64,
    /// Length of the data that the header overwrites.
    pub(super) len: u64,
    /// Length of the header.
    pub(super) shift: u64,
}

impl StartPlace {
    /// Copies the start to its place behind everything else.
    pub(super) fn save(&self, backend: &dyn Backend) -> Result<(), InPlaceError> {
        copy(backend, 0, self.saved, self.len)
    }
}

impl Start {
    /// Returns the start before anything is done, in a file of `file_len` bytes. That may be less than the start, which
    /// is filled up to whole encryption sectors.
    pub(super) fn unsaved(
        backend: &dyn Backend,
        place: StartPlace,
        file_len: u64,
    ) -> Result<Self, InPlaceError> {
        Ok(Self {
            saved: place.saved,
            len: place.len,
            digest: Digest::of(backend, 0, place.len.min(file_len))?,
        })
    }

    /// Makes the header beside the start, which is saved; all of it is durable then.
    pub(super) fn make(
        backend: &dyn Backend,
        place: StartPlace,
        header: &Plan,
        marks: &Marks,
    ) -> Result<Self, InPlaceError> {
        let StartPlace { saved, len, shift } = place;
        let mut start = Self {
            saved,
            len,
            digest: Digest::default(),
        };
        marks.make(header, &mut Aside { backend, start })?;
        backend.flush()?;
        start.digest = start.digest_of(backend, shift)?;
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
    pub(super) fn made(&self, offset: u64) -> u64 {
        if offset < self.len {
            self.saved - self.len + offset
        } else {
            self.saved + offset
        }
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
