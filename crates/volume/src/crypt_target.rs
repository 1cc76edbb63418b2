//! The crypt target: sectors of ciphertext on a backend. It has the inline path, in which the thread that asks also
//! encrypts and does the I/O, piece by piece, and nothing is handed over; and the steps that it and the other paths
//! are made of.

mod mapped;
mod parts;

use std::ops::Range;
use std::sync::Arc;

use scrim_backend::{Backend, Durability, Medium};
use scrim_crypt::{Geometry, IvSector, SectorCipher, SectorIndex};

pub(crate) use mapped::Cold;
pub(crate) use parts::Part;
use parts::Parts;

use crate::error::VolumeError;
use crate::range_lock::{RangeLock, STRIPE};
use crate::stats::{Record, Stage};
use crate::sync::thread;

/// Most bytes that are encrypted or decrypted at once: they stay in the L1/L2 cache between the
/// cipher and the copy to or from the kernel. A power of two that divides
/// [`STRIPE`].
const PIECE: usize = 32 << 10;

/// The same where each call to the backend waits for an answer from elsewhere: as many as one lock covers, since the wait
/// costs more than the cache.
#[allow(clippy::cast_possible_truncation, reason = "1 MiB")]
const REMOTE_PIECE: usize = STRIPE as usize;

/// Number of bytes left from which a request yields the processor between pieces.
const LONG: usize = 128 << 10;

/// The largest sector of any cipher, in bytes.
const SECTOR_MAX: usize = 4096;

/// A crypt target at work. Offsets are in bytes from its start.
pub(crate) struct CryptTarget {
    pub(crate) cipher: SectorCipher,
    pub(crate) backend: Arc<dyn Backend>,
    /// Start of the target on the backend, in bytes.
    pub(crate) start: u64,
    /// The first IV of the target (`iv_offset`), in 512-byte units.
    pub(crate) first_iv: u64,
    pub(crate) geometry: Geometry,
    /// Sector size of the geometry, in bytes.
    pub(crate) sector_size: usize,
    pub(crate) locks: RangeLock,
    pub(crate) cold: Cold,
    /// True if the queued path has a queue for the cipher alone, `cryptd`.
    pub(crate) asynchronous: bool,
}

impl CryptTarget {
    pub(crate) fn read_inline(
        &self,
        offset: u64,
        buffer: &mut [u8],
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let mut buffer = buffer;
        let piece = self.piece().max(mapped::PIECE);
        for part in self.parts(offset, buffer.len(), piece) {
            let (now, rest) = buffer.split_at_mut(part.len);
            yield_if_long(rest.len());
            let left = rest.len();
            buffer = rest;
            if !part.whole {
                self.read_part(&part, now, record)?;
            } else if !self.decrypt_mapped(part.offset, now, record) {
                self.read_sectors(part.offset, now, left, record)?;
            }
        }
        Ok(())
    }

    /// Decrypts whole sectors out of the page cache, without a copy. Returns whether it could: the storage must be a file
    /// all of whose pages there are in memory, and nothing may have changed a part of a sector meanwhile.
    fn decrypt_mapped(&self, offset: u64, sectors: &mut [u8], record: &mut Record) -> bool {
        let (at, len) = (self.start + offset, sectors.len());
        let Some(cached) = self.cold.pages(self.backend.medium(), at, len) else {
            return false;
        };
        let iv = self.iv(offset);
        let decrypted = self.locks.undisturbed(offset, len as u64, || {
            let source = cached.bytes(0, len).into();
            self.cipher.decrypt_from_shared(iv, source, sectors);
            // Otherwise the storage is read by a call, which returns the error.
            cached.check().is_ok()
        });
        record.trace.mark(Stage::Cipher);
        decrypted == Some(true)
    }

    /// Reads whole sectors, and decrypts each piece while it is in the processor's cache. The request goes on for `left`
    /// bytes after them.
    fn read_sectors(
        &self,
        offset: u64,
        sectors: &mut [u8],
        left: usize,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let mut at = 0;
        let len = sectors.len();
        for piece in sectors.chunks_mut(self.piece()) {
            if at > 0 {
                yield_if_long(left + len - at - piece.len());
            }
            self.fetch_sectors(offset + at as u64, piece, record)?;
            self.decrypt_sectors(offset + at as u64, piece, record);
            at += piece.len();
        }
        Ok(())
    }

    pub(crate) fn write_inline(
        &self,
        offset: u64,
        data: &mut [u8],
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let mut data = data;
        let parts = self.parts(offset, data.len(), self.piece());
        let each = piecewise(&parts, durability);
        for part in parts {
            let (now, rest) = data.split_at_mut(part.len);
            yield_if_long(rest.len());
            data = rest;
            if part.whole {
                self.encrypt_sectors(part.offset, now, record);
                self.store_sectors(part.offset, now, each, record)?;
            } else {
                self.modify_sector(&part, now, each, record)?;
            }
        }
        self.flush_once(each, durability)
    }

    /// Reads whole sectors as they are stored, each as it was before a change of a part of it or after that;
    /// they lie within one stripe.
    pub(crate) fn fetch_sectors(
        &self,
        offset: u64,
        sectors: &mut [u8],
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let at = self.start + offset;
        let len = sectors.len() as u64;
        let mut read = || self.backend.read_at(at, sectors);
        let result = self
            .locks
            .undisturbed(offset, len, &mut read)
            .unwrap_or_else(|| {
                let _held_off = self.locks.hold_off(offset);
                read()
            });
        record.trace.mark(Stage::Backend);
        Ok(result?)
    }

    /// Writes whole sectors of ciphertext; they lie within one stripe.
    pub(crate) fn store_sectors(
        &self,
        offset: u64,
        sectors: &[u8],
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let _shared = self.locks.share(offset);
        let at = self.start + offset;
        let result = self.backend.write_at(at, sectors, durability);
        record.trace.mark(Stage::Backend);
        Ok(result?)
    }

    pub(crate) fn encrypt_sectors(&self, offset: u64, sectors: &mut [u8], record: &mut Record) {
        self.cipher.encrypt_in_place(self.iv(offset), sectors);
        record.trace.mark(Stage::Cipher);
    }

    pub(crate) fn decrypt_sectors(&self, offset: u64, sectors: &mut [u8], record: &mut Record) {
        self.cipher.decrypt_in_place(self.iv(offset), sectors);
        record.trace.mark(Stage::Cipher);
    }

    /// Writes zeros, encrypted like any other data: a hole would decrypt to noise.
    pub(crate) fn write_encrypted_zeros(
        &self,
        range: Range<u64>,
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let most = self.piece();
        let whole = usize::try_from(range.end.saturating_sub(range.start));
        let mut zeros = vec![0u8; whole.map_or(most, |len| len.min(most))];
        let mut offset = range.start;
        while offset < range.end {
            // Cut where sectors end: one that is written in two parts can be torn within.
            #[allow(
                clippy::cast_possible_truncation,
                reason = "below the length of a piece"
            )]
            let most = most - (offset % most as u64) as usize;
            let len = usize::try_from(range.end - offset).map_or(most, |len| len.min(most));
            let piece = &mut zeros[..len];
            piece.fill(0);
            self.write_inline(offset, piece, Durability::Cached, record)?;
            offset += len as u64;
        }
        self.flush_once(Durability::Cached, durability)
    }

    /// Flushes once for a durable write that went out in several cached pieces.
    pub(crate) fn flush_once(
        &self,
        written: Durability,
        wanted: Durability,
    ) -> Result<(), VolumeError> {
        if wanted == Durability::Durable && written == Durability::Cached {
            self.backend.flush()?;
        }
        Ok(())
    }

    /// Reads part of a sector.
    pub(crate) fn read_part(
        &self,
        part: &Part,
        into: &mut [u8],
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let mut buffer = [0u8; SECTOR_MAX];
        let (sector, within) = self.read_sector(&mut buffer, part, record)?;
        into.copy_from_slice(&sector[within]);
        record.copied_bytes += part.len;
        Ok(())
    }

    /// Reads, modifies and writes part of a sector.
    pub(crate) fn modify_sector(
        &self,
        part: &Part,
        data: &[u8],
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let alone = self.locks.take(part.offset);
        record.trace.mark(Stage::Waiting);
        let mut buffer = [0u8; SECTOR_MAX];
        let (sector, within) = self.read_sector(&mut buffer, part, record)?;
        sector[within].copy_from_slice(data);
        record.copied_bytes += part.len;
        let first = self.sector_start(part.offset);
        self.encrypt_sectors(first, sector, record);
        let at = self.start + first;
        let store = alone.begin_store();
        let result = self.backend.write_at(at, sector, Durability::Cached);
        drop(store);
        drop(alone);
        // Readers wait for the store, and need not for the flush.
        let result = match result {
            Ok(()) => self.flush_once(Durability::Cached, durability),
            Err(error) => Err(error.into()),
        };
        record.trace.mark(Stage::Backend);
        result
    }

    /// Reads and decrypts the sector that `part` lies in. Returns the part's place in the sector.
    fn read_sector<'a>(
        &self,
        buffer: &'a mut [u8; SECTOR_MAX],
        part: &Part,
        record: &mut Record,
    ) -> Result<(&'a mut [u8], Range<usize>), VolumeError> {
        let first = self.sector_start(part.offset);
        let sector = &mut buffer[..self.sector_size];
        self.fetch_sectors(first, sector, record)?;
        self.decrypt_sectors(first, sector, record);
        #[allow(clippy::cast_possible_truncation, reason = "less than SECTOR_MAX")]
        let skip = (part.offset - first) as usize;
        Ok((sector, skip..skip + part.len))
    }

    /// Returns whether each call to the backend waits for another program or machine.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.backend.medium(), Medium::Remote { .. })
    }

    /// Most bytes of a call to the backend on the inline path.
    fn piece(&self) -> usize {
        match self.is_remote() {
            true => REMOTE_PIECE,
            false => PIECE,
        }
    }

    fn sector_start(&self, offset: u64) -> u64 {
        offset / self.sector_size as u64 * self.sector_size as u64
    }

    /// Returns the IV of the sector that starts at `offset`.
    pub(crate) fn iv(&self, offset: u64) -> IvSector {
        let sector = SectorIndex(offset >> self.sector_size.trailing_zeros());
        self.geometry.iv_sector(sector, self.first_iv)
    }

    pub(crate) fn parts(&self, offset: u64, len: usize, most: usize) -> Parts {
        Parts {
            offset,
            left: len,
            sector_size: self.sector_size,
            most,
        }
    }
}

/// Yields the processor, if the request goes on for longer: another thread with a short request may have waited
/// for it. If none has, this costs about a fiftieth of a piece.
fn yield_if_long(left: usize) {
    if left >= LONG {
        thread::yield_now();
    }
}

/// Returns the durability of each part: a request of one part is made durable by that write itself, one
/// of more parts by one flush at the end.
pub(crate) fn piecewise(parts: &Parts, durability: Durability) -> Durability {
    if parts.clone().nth(1).is_some() {
        Durability::Cached
    } else {
        durability
    }
}
