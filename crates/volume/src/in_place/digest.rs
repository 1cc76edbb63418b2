//! Digest of a range of a device.

use scrim_backend::Backend;
use scrim_luks::kdf::Hash;
use scrim_sys::memory::DataBuffer;

use super::error::InPlaceError;
use super::pieces::{PIECE, pieces};

/// Digest of bytes in pieces: the SHA-256 of the digest before and the piece, for each piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Digest(pub(super) [u8; 32]);

impl Digest {
    pub(super) fn add(&mut self, piece: &[u8]) {
        let before = self.0;
        Hash::Sha256.digest(&[&before, piece], &mut self.0);
    }

    /// Digests a range of a device.
    pub(super) fn of(backend: &dyn Backend, from: u64, len: u64) -> Result<Self, InPlaceError> {
        let mut buffer = DataBuffer::zeroed(PIECE);
        let mut digest = Self::default();
        for (at, len) in pieces(len) {
            let piece = &mut buffer[..len];
            backend.read_at(from + at, piece)?;
            digest.add(piece);
        }
        Ok(digest)
    }
}
