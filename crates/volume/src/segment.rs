//! One target of a table at work: from a range of the target to a range of the backend.

use std::ops::Range;
use std::sync::Arc;

use scrim_backend::{Backend, Durability};

use crate::VolumeError;
use crate::path::CryptPath;
use crate::range_lock::RangeLock;
use crate::stats::{Record, Stage};

/// Target at work. Offsets are in bytes from the target's start, and in range: the volume has checked them.
pub(crate) enum Runner {
    Crypt(Box<CryptPath>),
    Linear {
        backend: Arc<dyn Backend>,
        /// Start of the target on the backend, in bytes.
        start: u64,
    },
    Zero,
    Error,
}

impl Runner {
    pub(crate) fn read(
        &self,
        offset: u64,
        buffer: &mut [u8],
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        match self {
            Self::Crypt(crypt) => crypt.read(offset, buffer, record),
            Self::Linear { backend, start } => {
                let result = backend.read_at(start + offset, buffer);
                record.trace.mark(Stage::Backend);
                Ok(result?)
            }
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
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        match self {
            Self::Crypt(crypt) => crypt.write(offset, data, durability, record),
            Self::Linear { backend, start } => {
                let result = backend.write_at(start + offset, data, durability);
                record.trace.mark(Stage::Backend);
                Ok(result?)
            }
            Self::Zero => Ok(()),
            Self::Error => Err(VolumeError::ErrorTarget { offset }),
        }
    }

    pub(crate) fn write_zeroes(
        &self,
        range: Range<u64>,
        durability: Durability,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        match self {
            Self::Crypt(crypt) => crypt.runner.write_zeroes(range, durability, record),
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
            Self::Crypt(crypt) => (
                &crypt.runner.backend,
                crypt.runner.start,
                crypt.runner.sector_size as u64,
            ),
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

    /// Returns its storage, and its start there, in bytes.
    pub(crate) fn storage(&self) -> Option<(&dyn Backend, u64)> {
        match self {
            Self::Crypt(crypt) => Some((&*crypt.runner.backend, crypt.runner.start)),
            Self::Linear { backend, start } => Some((&**backend, *start)),
            Self::Zero | Self::Error => None,
        }
    }

    /// Returns the unit, in bytes, of ranges for [`seal`](Self::seal) and [`open`](Self::open).
    pub(crate) fn unit(&self) -> usize {
        match self {
            Self::Crypt(crypt) => crypt.runner.sector_size,
            _ => 1,
        }
    }

    /// Encrypts plaintext for `offset`.
    pub(crate) fn seal(&self, offset: u64, from: &[u8], to: &mut [u8]) {
        match self {
            Self::Crypt(crypt) => crypt
                .runner
                .cipher
                .encrypt(crypt.runner.iv(offset), from, to),
            _ => to.copy_from_slice(from),
        }
    }

    /// Decrypts the ciphertext of `offset`.
    pub(crate) fn open(&self, offset: u64, from: &[u8], to: &mut [u8]) {
        match self {
            Self::Crypt(crypt) => crypt
                .runner
                .cipher
                .decrypt(crypt.runner.iv(offset), from, to),
            _ => to.copy_from_slice(from),
        }
    }

    /// Returns the locks that keep changes of parts of sectors apart from other requests, where such changes are made.
    pub(crate) fn locks(&self) -> Option<&RangeLock> {
        match self {
            Self::Crypt(crypt) => Some(&crypt.runner.locks),
            _ => None,
        }
    }

    /// Returns the cipher's driver.
    pub(crate) fn driver(&self) -> Option<&'static str> {
        match self {
            Self::Crypt(crypt) => Some(crypt.runner.cipher.implementation().driver),
            _ => None,
        }
    }

    /// Returns the unit that a write should be a multiple of, in bytes.
    pub(crate) fn block_size(&self) -> usize {
        match self {
            Self::Crypt(crypt) => crypt.runner.sector_size,
            _ => 512,
        }
    }
}
