//! One target of a table at work: from a range of the target to a range of the backend.
//!
//! This is the inline path: the thread that asks also encrypts and does the I/O, piece by piece,
//! and nothing is handed over.

use std::ops::Range;
use std::sync::{Arc, RwLockReadGuard};

use scrim_backend::{Backend, Durability};
use scrim_crypt::{Geometry, IvSector, SectorCipher, SectorIndex};

use crate::VolumeError;
use crate::range_lock::{RangeLock, STRIPE};

/// Most bytes that are encrypted or decrypted at once: they stay in the L1/L2 cache between the
/// cipher and the copy to or from the kernel. A power of two that divides [`STRIPE`].
pub(crate) const PIECE: usize = 32 << 10;

/// The largest sector of any cipher, in bytes.
const SECTOR_MAX: usize = 4096;

/// What runs a target. Offsets are in bytes from the target's start, and in range: the volume has
/// checked them.
pub(crate) enum Runner {
    Crypt(Box<CryptRunner>),
    Linear {
        backend: Arc<dyn Backend>,
        /// Where the target starts on the backend, in bytes.
        start: u64,
    },
    Zero,
    Error,
}

pub(crate) struct CryptRunner {
    pub(crate) cipher: SectorCipher,
    pub(crate) backend: Arc<dyn Backend>,
    /// Where the target starts on the backend, in bytes.
    pub(crate) start: u64,
    /// The first IV of the target (`iv_offset`), in 512-byte units.
    pub(crate) first_iv: u64,
    pub(crate) geometry: Geometry,
    /// Of the geometry, in bytes.
    pub(crate) sector_size: usize,
    pub(crate) locks: RangeLock,
}

impl Runner {
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), VolumeError> {
        match self {
            Self::Crypt(crypt) => crypt.read(offset, buffer),
            Self::Linear { backend, start } => Ok(backend.read_at(start + offset, buffer)?),
            Self::Zero => {
                buffer.fill(0);
                Ok(())
            }
            Self::Error => Err(VolumeError::ErrorTarget { offset }),
        }
    }

    pub(crate) fn write(
        &self,
        offset: u64,
        data: &mut [u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        match self {
            Self::Crypt(crypt) => crypt.write(offset, data, durability),
            Self::Linear { backend, start } => {
                Ok(backend.write_at(start + offset, data, durability)?)
            }
            Self::Zero => Ok(()),
            Self::Error => Err(VolumeError::ErrorTarget { offset }),
        }
    }

    pub(crate) fn write_zeroes(
        &self,
        range: Range<u64>,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        match self {
            Self::Crypt(crypt) => crypt.write_zeroes(range, durability),
            Self::Linear { backend, start } => {
                Ok(backend.write_zeroes(start + range.start..start + range.end, durability)?)
            }
            Self::Zero => Ok(()),
            Self::Error => Err(VolumeError::ErrorTarget {
                offset: range.start,
            }),
        }
    }

    /// Discards the whole sectors within `range`.
    pub(crate) fn discard(&self, range: Range<u64>) -> Result<(), VolumeError> {
        let (backend, start, unit) = match self {
            Self::Crypt(crypt) => (&crypt.backend, crypt.start, crypt.sector_size as u64),
            Self::Linear { backend, start } => (backend, *start, 1),
            Self::Zero => return Ok(()),
            Self::Error => {
                return Err(VolumeError::ErrorTarget {
                    offset: range.start,
                });
            }
        };
        let first = range.start.next_multiple_of(unit);
        let end = range.end / unit * unit;
        if first < end {
            backend.discard(start + first..start + end)?;
        }
        Ok(())
    }

    /// Its storage, and where it starts there, in bytes.
    pub(crate) fn storage(&self) -> Option<(&dyn Backend, u64)> {
        match self {
            Self::Crypt(crypt) => Some((&*crypt.backend, crypt.start)),
            Self::Linear { backend, start } => Some((&**backend, *start)),
            Self::Zero | Self::Error => None,
        }
    }

    /// What a range must be made of for [`seal`](Self::seal) and [`open`](Self::open), in bytes.
    pub(crate) fn unit(&self) -> usize {
        match self {
            Self::Crypt(crypt) => crypt.sector_size,
            _ => 1,
        }
    }

    /// Makes of plaintext at `offset` what is stored.
    pub(crate) fn seal(&self, offset: u64, from: &[u8], to: &mut [u8]) {
        match self {
            Self::Crypt(crypt) => crypt.cipher.encrypt(crypt.iv(offset), from, to),
            _ => to.copy_from_slice(from),
        }
    }

    /// Makes plaintext of what is stored at `offset`.
    pub(crate) fn open(&self, offset: u64, from: &[u8], to: &mut [u8]) {
        match self {
            Self::Crypt(crypt) => crypt.cipher.decrypt(crypt.iv(offset), from, to),
            _ => to.copy_from_slice(from),
        }
    }

    /// What keeps a read-modify-write away from whole sectors while they are written, where there is
    /// such a thing; `None` if it is to be waited for.
    #[allow(
        clippy::option_option,
        reason = "whether it is free, and whether there is one"
    )]
    pub(crate) fn try_share(
        &self,
        offset: u64,
        len: usize,
    ) -> Option<Option<RwLockReadGuard<'_, ()>>> {
        match self {
            Self::Crypt(crypt) => crypt.locks.try_share(offset, len as u64).map(Some),
            _ => Some(None),
        }
    }

    /// The cipher's driver.
    pub(crate) fn driver(&self) -> Option<&'static str> {
        match self {
            Self::Crypt(crypt) => Some(crypt.cipher.implementation().driver),
            _ => None,
        }
    }

    /// The unit that a write should be a multiple of, in bytes.
    pub(crate) fn block_size(&self) -> usize {
        match self {
            Self::Crypt(crypt) => crypt.sector_size,
            _ => 512,
        }
    }
}

impl CryptRunner {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), VolumeError> {
        let mut buffer = buffer;
        for part in self.parts(offset, buffer.len()) {
            let (now, rest) = buffer.split_at_mut(part.len);
            buffer = rest;
            if part.whole {
                self.backend.read_at(self.start + part.offset, now)?;
                self.cipher.decrypt_in_place(self.iv(part.offset), now);
            } else {
                let mut room = [0u8; SECTOR_MAX];
                let (sector, within) = self.read_sector(&mut room, &part)?;
                now.copy_from_slice(&sector[within]);
            }
        }
        Ok(())
    }

    fn write(
        &self,
        offset: u64,
        data: &mut [u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        let mut data = data;
        let parts = self.parts(offset, data.len());
        let each = piecewise(&parts, durability);
        for part in parts {
            let (now, rest) = data.split_at_mut(part.len);
            data = rest;
            if part.whole {
                self.cipher.encrypt_in_place(self.iv(part.offset), now);
                let _shared = self.locks.share(part.offset);
                self.backend.write_at(self.start + part.offset, now, each)?;
            } else {
                self.modify_sector(&part, each, |bytes| bytes.copy_from_slice(now))?;
            }
        }
        self.settle(each, durability)
    }

    /// Zeros are encrypted like any other data: a hole would decrypt to noise.
    fn write_zeroes(&self, range: Range<u64>, durability: Durability) -> Result<(), VolumeError> {
        let mut room = [0u8; PIECE];
        let mut offset = range.start;
        while offset < range.end {
            // Cut where sectors end: one that is written in two parts can be torn within.
            #[allow(clippy::cast_possible_truncation, reason = "below PIECE")]
            let most = PIECE - (offset % PIECE as u64) as usize;
            let len = usize::try_from(range.end - offset).map_or(most, |len| len.min(most));
            let piece = &mut room[..len];
            piece.fill(0);
            self.write(offset, piece, Durability::Cached)?;
            offset += len as u64;
        }
        self.settle(Durability::Cached, durability)
    }

    /// One flush for a durable write that went out in several cached pieces.
    fn settle(&self, written: Durability, wanted: Durability) -> Result<(), VolumeError> {
        if wanted == Durability::Durable && written == Durability::Cached {
            self.backend.flush()?;
        }
        Ok(())
    }

    /// Read-modify-write of part of a sector.
    fn modify_sector(
        &self,
        part: &Part,
        durability: Durability,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), VolumeError> {
        let _alone = self.locks.take(part.offset);
        let mut room = [0u8; SECTOR_MAX];
        let (sector, within) = self.read_sector(&mut room, part)?;
        change(&mut sector[within]);
        let first = self.sector_start(part.offset);
        self.cipher.encrypt_in_place(self.iv(first), sector);
        Ok(self
            .backend
            .write_at(self.start + first, sector, durability)?)
    }

    /// Reads and decrypts the sector that `part` lies in; tells where in it the part lies.
    fn read_sector<'a>(
        &self,
        room: &'a mut [u8; SECTOR_MAX],
        part: &Part,
    ) -> Result<(&'a mut [u8], Range<usize>), VolumeError> {
        let first = self.sector_start(part.offset);
        let sector = &mut room[..self.sector_size];
        self.backend.read_at(self.start + first, sector)?;
        self.cipher.decrypt_in_place(self.iv(first), sector);
        // Less than a sector.
        #[allow(clippy::cast_possible_truncation, reason = "less than SECTOR_MAX")]
        let skip = (part.offset - first) as usize;
        Ok((sector, skip..skip + part.len))
    }

    fn sector_start(&self, offset: u64) -> u64 {
        offset / self.sector_size as u64 * self.sector_size as u64
    }

    /// The IV of the sector that starts at `offset`.
    fn iv(&self, offset: u64) -> IvSector {
        let sector = SectorIndex(offset / self.sector_size as u64);
        self.geometry.iv_sector(sector, self.first_iv)
    }

    fn parts(&self, offset: u64, len: usize) -> Parts {
        Parts {
            offset,
            left: len,
            sector_size: self.sector_size,
        }
    }
}

/// A request of one part can be made durable by that write itself; more are settled by one flush.
fn piecewise(parts: &Parts, durability: Durability) -> Durability {
    if parts.clone().nth(1).is_some() {
        Durability::Cached
    } else {
        durability
    }
}

/// A range cut into runs of whole sectors, of at most [`PIECE`] bytes and within one [`STRIPE`],
/// and parts of sectors at its ends.
#[derive(Clone)]
struct Parts {
    offset: u64,
    left: usize,
    sector_size: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct Part {
    /// From the target's start, in bytes.
    offset: u64,
    /// In bytes.
    len: usize,
    /// Whether it is a run of whole sectors, and not a part of one.
    whole: bool,
}

impl Iterator for Parts {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        const { assert!(STRIPE.is_multiple_of(PIECE as u64)) };
        if self.left == 0 {
            return None;
        }
        // Both remainders are below PIECE.
        #[allow(clippy::cast_possible_truncation, reason = "below PIECE")]
        let (in_sector, in_piece) = (
            (self.offset % self.sector_size as u64) as usize,
            (self.offset % PIECE as u64) as usize,
        );
        let whole = in_sector == 0 && self.left >= self.sector_size;
        let len = if whole {
            self.left.min(PIECE - in_piece) / self.sector_size * self.sector_size
        } else {
            self.left.min(self.sector_size - in_sector)
        };
        let part = Part {
            offset: self.offset,
            len,
            whole,
        };
        self.offset += len as u64;
        self.left -= len;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(offset: u64, left: usize, sector_size: usize) -> Vec<(u64, usize, bool)> {
        let parts = Parts {
            offset,
            left,
            sector_size,
        };
        parts.map(|p| (p.offset, p.len, p.whole)).collect()
    }

    #[test]
    fn aligned_ranges_become_whole_pieces() {
        assert_eq!(parts(0, 0, 512), []);
        assert_eq!(parts(512, 4096, 512), [(512, 4096, true)]);
        let piece = PIECE as u64;
        assert_eq!(
            parts(4096, PIECE, 4096),
            [(4096, PIECE - 4096, true), (piece, 4096, true)]
        );
    }

    #[test]
    fn edges_become_parts_of_sectors() {
        assert_eq!(parts(5, 3, 512), [(5, 3, false)]);
        assert_eq!(
            parts(100, 1500, 512),
            [(100, 412, false), (512, 1024, true), (1536, 64, false)]
        );
        assert_eq!(
            parts(4000, 200, 4096),
            [(4000, 96, false), (4096, 104, false)]
        );
    }
}
