//! Reading in two steps: what is stored first, and plaintext of it later, piece by piece.
//!
//! Who hands plaintext on at once, encrypted under another key, wants each piece decrypted just before: then
//! it is in the first cache for both, and never in memory.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use scrim_backend::Cached;

use crate::Volume;
use crate::mapping::Mapping;
use crate::path::{Direction, Route};
use crate::segment::Runner;
use crate::stats::Stage;

/// What turns sectors that were fetched into plaintext: the table that was at work when they were, and where they
/// are if they were left there.
#[must_use = "nothing of it may be handed on before Stored::check"]
pub struct Stored {
    mapping: Arc<Mapping>,
    segment: usize,
    /// Where the volume's first byte would be in the segment's count.
    start: u64,
    /// Where they are in the page cache, and which byte of the volume is the first of them.
    cached: Option<(u64, Cached)>,
}

impl Volume {
    /// Fetches what is stored for the bytes from `offset` on, as far as that is in the page cache: it stays there
    /// where it can be used there, and else fills `pieces` one after the other. Tells how many bytes these are,
    /// whole sectors, and what makes plaintext of them in the same pieces.
    ///
    /// Nothing where this cannot be done without waiting, or not in this way: where the storage is no file in the
    /// page cache, reads go through the queues, the range touches two targets or parts of sectors, requests
    /// are held, or part of a sector there is being changed. [`Volume::read`] does it then, and says what is wrong
    /// if something is. A read is counted here, its decryption is in no figure.
    ///
    /// It stays in the page cache only where the storage is read-only: what others write to would have to be looked
    /// at again after it was decrypted.
    #[must_use]
    pub fn fetch_now(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> Option<(usize, Stored)> {
        let pass = self.try_enter()?;
        let mapping = Arc::clone(&pass);
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let (segment, within) = mapping.segment_of(offset, len)?;
        let Runner::Crypt(crypt) = &mapping.segments().get(segment)?.runner else {
            return None;
        };
        let sector = crypt.runner.sector_size;
        let is_whole = |len: usize| len.is_multiple_of(sector);
        if crypt.route(Direction::Read) == Route::Queued
            || !within.is_multiple_of(sector as u64)
            || !pieces.iter().all(|piece| is_whole(piece.len()))
        {
            return None;
        }
        let mut record = self.counters().begin(Direction::Read);
        let (medium, at) = (crypt.runner.backend.medium(), crypt.runner.start + within);
        let is_fixed = crypt.runner.backend.info().read_only;
        let cached = is_fixed.then(|| medium.cached_now(at, len)).flatten();
        let read = match &cached {
            Some(cached) => Some(Ok(cached.len())),
            None => {
                (crypt.runner.locks).undisturbed(within, len as u64, || medium.read_now(at, pieces))
            }
        };
        let read = read.and_then(Result::ok);
        record.trace.mark(Stage::Backend);
        // Who exchanges the table waits for what is fetched by it. What stays in the page cache is read where it
        // lies when it is decrypted.
        drop(pass);
        let whole = read.unwrap_or(0) / sector * sector;
        if whole == 0 {
            self.counters().take_back(Direction::Read);
            return None;
        }
        self.counters().end(Direction::Read, Some(whole), &record);
        let start = offset - within;
        let stored = Stored {
            segment,
            start,
            mapping,
            cached: cached.map(|cached| (offset, cached)),
        };
        Some((whole, stored))
    }
}

impl Stored {
    /// Makes plaintext of whole sectors that were fetched, once, in the piece that is theirs. `offset` is that of
    /// their first byte in the volume. It counts after [`Stored::check`] only.
    ///
    /// # Panics
    /// When these are not among the sectors that were fetched.
    pub fn decrypt(&self, offset: u64, sectors: &mut [u8]) {
        let segment = self.mapping.segments().get(self.segment);
        let Some(Runner::Crypt(crypt)) = segment.map(|segment| &segment.runner) else {
            return;
        };
        let runner = &crypt.runner;
        let iv = runner.iv(offset - self.start);
        let Some((first, cached)) = &self.cached else {
            runner.cipher.decrypt_in_place(iv, sectors);
            return;
        };
        let at = offset.checked_sub(*first).map(usize::try_from);
        let at = at.and_then(Result::ok).unwrap_or(usize::MAX);
        let source = cached.bytes(at, sectors.len()).into();
        runner.cipher.decrypt_from_shared(iv, source, sectors);
    }

    /// Checks whether all that was decrypted so far was what is stored: asked once, before any of it is handed on.
    ///
    /// # Errors
    /// When the storage failed since it was fetched, or was cut short; then what was decrypted is anything.
    pub fn check(self) -> io::Result<()> {
        match self.cached {
            Some((_, cached)) => cached.check(),
            None => Ok(()),
        }
    }
}
