//! Reading in two steps: the stored sectors first, and their plaintext later, piece by piece.
//!
//! A caller that encrypts plaintext under another key at once wants each piece decrypted just before: then the
//! piece is in the first cache for both steps, and never in memory.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use scrim_backend::Cached;

use crate::data_path::{Direction, Route};
use crate::mapping::Mapping;
use crate::stats::Stage;
use crate::target::Target;
use crate::volume::Volume;

/// Fetched sectors that can be decrypted: the table that was at work when they were fetched, and their place if
/// they were left in the page cache.
#[must_use = "nothing of it may be handed on before FetchedCiphertext::check"]
pub struct FetchedCiphertext {
    mapping: Arc<Mapping>,
    target: usize,
    /// Offset of the target's start in the volume, in bytes.
    start: u64,
    /// Offset of the first of the sectors in the volume, and their place in the page cache.
    cached: Option<(u64, Cached)>,
}

impl Volume {
    /// Fetches the stored sectors of the bytes from `offset` on, as far as they are in the page cache: they stay
    /// there where they can be used there, and else fill `pieces` one after the other. Returns the number of these
    /// bytes, whole sectors, and the [`FetchedCiphertext`] that decrypts them in the same pieces.
    ///
    /// Returns `None` where this cannot be done without waiting, or not in this way: where the storage is not a
    /// file in the page cache, reads go through the queues, the range touches two targets or parts of sectors,
    /// requests are held, or part of a sector there is being changed. [`Volume::read`] does it then, and returns
    /// the error if there is one. The read is counted here; its decryption is not measured.
    ///
    /// Sectors stay in the page cache only where the storage is read-only: those that other threads write to would
    /// have to be checked again after they were decrypted.
    #[must_use]
    pub fn fetch_now(
        &self,
        offset: u64,
        pieces: &mut [IoSliceMut<'_>],
    ) -> Option<(usize, FetchedCiphertext)> {
        let pass = self.try_enter()?;
        let mapping = Arc::clone(&pass);
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let (target, within) = mapping.target_of(offset, len)?;
        let crypt = mapping.targets().get(target)?.crypt()?;
        let sector = crypt.target.sector_size;
        let is_whole = |len: usize| len.is_multiple_of(sector);
        if crypt.route(Direction::Read) == Route::Queued
            || !within.is_multiple_of(sector as u64)
            || !pieces.iter().all(|piece| is_whole(piece.len()))
        {
            return None;
        }
        let mut record = self.counters().begin(Direction::Read);
        let (medium, at) = (crypt.target.backend.medium(), crypt.target.start + within);
        let is_fixed = crypt.target.backend.info().read_only;
        let cached = is_fixed.then(|| medium.cached_now(at, len)).flatten();
        let read = match &cached {
            Some(cached) => Some(Ok(cached.len())),
            None => {
                (crypt.target.locks).undisturbed(within, len as u64, || medium.read_now(at, pieces))
            }
        };
        let read = read.and_then(Result::ok);
        record.trace.mark(Stage::Backend);
        // A thread that exchanges the table waits until this fetch is done. Sectors that stay in the page cache
        // are read when they are decrypted.
        drop(pass);
        let whole = read.unwrap_or(0) / sector * sector;
        if whole == 0 {
            self.counters().take_back(Direction::Read);
            return None;
        }
        self.counters().end(Direction::Read, Some(whole), &record);
        let start = offset - within;
        let stored = FetchedCiphertext {
            target,
            start,
            mapping,
            cached: cached.map(|cached| (offset, cached)),
        };
        Some((whole, stored))
    }
}

impl FetchedCiphertext {
    /// Makes plaintext of whole sectors that were fetched, once, in the piece that is theirs. `offset` is that of
    /// their first byte in the volume. It counts after [`FetchedCiphertext::check`] only.
    ///
    /// # Panics
    /// When these are not among the sectors that were fetched.
    pub fn decrypt(&self, offset: u64, sectors: &mut [u8]) {
        let target = self.mapping.targets().get(self.target);
        let Some(crypt) = target.and_then(Target::crypt) else {
            return;
        };
        let target = &crypt.target;
        let iv = target.iv(offset - self.start);
        let Some((first, cached)) = &self.cached else {
            target.cipher.decrypt_in_place(iv, sectors);
            return;
        };
        let at = offset.checked_sub(*first).map(usize::try_from);
        let at = at.and_then(Result::ok).unwrap_or(usize::MAX);
        let source = cached.bytes(at, sectors.len()).into();
        target.cipher.decrypt_from_shared(iv, source, sectors);
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
