//! A device in pieces: copies within it, and its zeros.

use scrim_backend::{Backend, Durability};
use scrim_sys::memory::DataBuffer;

use super::error::InPlaceError;

/// Bytes that are moved at a time.
pub(super) const PIECE: usize = 1 << 20;

/// Bytes that a power cut does not tear.
pub(super) const SECTOR: usize = 512;

/// Copies within a device.
pub(super) fn copy(
    backend: &dyn Backend,
    from: u64,
    to: u64,
    len: u64,
) -> Result<(), InPlaceError> {
    let mut buffer = DataBuffer::zeroed(PIECE);
    for (at, len) in pieces(len) {
        let piece = &mut buffer[..len];
        backend.read_at(from + at, piece)?;
        backend.write_at(to + at, piece, Durability::Cached)?;
    }
    Ok(())
}

/// Offset and length of each piece of `len` bytes.
pub(super) fn pieces(len: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..len).step_by(PIECE).map(move |at| {
        let left = usize::try_from(len - at).unwrap_or(PIECE);
        (at, left.min(PIECE))
    })
}

/// Checks whether a range is all zeros.
pub(super) fn are_zeros(backend: &dyn Backend, from: u64, end: u64) -> Result<bool, InPlaceError> {
    let mut buffer = DataBuffer::zeroed(PIECE);
    for (at, len) in pieces(end.saturating_sub(from)) {
        let piece = &mut buffer[..len];
        backend.read_at(from + at, piece)?;
        if !is_zero(piece) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks whether all bytes are zero.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
