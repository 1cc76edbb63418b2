//! The ends between which plaintext is transferred: raw images and volumes.

use scrim_backend::{Backend, Durability};
use scrim_volume::Volume;

use crate::error::CliError;
use crate::storage::Storage;

/// Zeros of this length stay a hole, in bytes.
const HOLE: usize = 64 << 10;
static ZEROS: [u8; HOLE] = [0; HOLE];

/// One end of a transfer.
pub(crate) enum Side {
    /// A raw image. A new one is sparse.
    Raw(Storage),
    Volume(Box<Volume>),
}

impl Side {
    pub(super) fn size_bytes(&self) -> u64 {
        match self {
            Self::Raw(file) => file.info().size,
            Self::Volume(volume) => volume.size(),
        }
    }

    /// Reads; a raw image has zeros behind its end.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), CliError> {
        match self {
            Self::Raw(file) => {
                let left = file.info().size.saturating_sub(offset);
                let len = usize::try_from(left).map_or(buffer.len(), |len| len.min(buffer.len()));
                let (bytes, zeros) = buffer.split_at_mut(len);
                zeros.fill(0);
                Ok(file.read_at(offset, bytes)?)
            }
            Self::Volume(volume) => Ok(volume.read(offset, buffer)?),
        }
    }

    /// Writes; `data` may have been overwritten with ciphertext afterwards.
    pub(super) fn write(&self, offset: u64, data: &mut [u8]) -> Result<(), CliError> {
        match self {
            Self::Raw(file) => write_sparse(file, offset, data),
            Self::Volume(volume) => Ok(volume.write(offset, data, Durability::Cached)?),
        }
    }

    /// Makes what was written durable.
    pub(super) fn flush(&self) -> Result<(), CliError> {
        match self {
            Self::Raw(file) => Ok(file.flush()?),
            Self::Volume(volume) => Ok(volume.flush()?),
        }
    }
}

/// Writes what is not zero into a file of zeros.
fn write_sparse(file: &Storage, offset: u64, data: &[u8]) -> Result<(), CliError> {
    let mut offset = offset;
    for block in data.chunks(HOLE) {
        if block != &ZEROS[..block.len()] {
            file.write_at(offset, block, Durability::Cached)?;
        }
        offset += block.len() as u64;
    }
    Ok(())
}
