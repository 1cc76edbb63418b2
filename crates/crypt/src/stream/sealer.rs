//! Sealing of records, in the order of their numbers.

use super::aead::{Aead, CONTENT_MAX, EXPLICIT_NONCE, NONCE, TAG};
use super::error::StreamError;
use super::key::Key;
use super::nonces::Nonces;

/// Seals the records of one key, one number after the other.
///
/// It cannot be cloned, and its number never goes back: two records with one number would reveal both of their contents
/// and let others forge more records.
pub struct Sealer {
    key: Key,
    nonces: Nonces,
    next: u64,
    records_max: u64,
}

impl Sealer {
    /// Sets up `key` and `iv`, of which the caller keeps and wipes the originals. `first` is the number of the first
    /// record: 0 for a new key, or the count of records that others have sealed with it.
    ///
    /// The caller must use each pair of key and `first` once: no type prevents a second sealer of the same key, which would
    /// repeat this one's nonces.
    ///
    /// # Errors
    /// [`StreamError::KeySize`]; [`StreamError::Library`] where there is no memory; [`StreamError::NoCode`] where
    /// `SCRIM_DISABLE` names all code for this AEAD.
    pub fn new(aead: Aead, key: &[u8], iv: &[u8; NONCE], first: u64) -> Result<Self, StreamError> {
        Ok(Self::with(Key::expand(aead, None, key)?, aead, iv, first))
    }

    /// As [`Sealer::new`], by the driver with this name: one of the [`implementations`](crate::implementations) of `gcm(aes)`.
    ///
    /// # Errors
    /// [`StreamError::DriverNotReady`] for a name that is none of them, for a driver that cannot be used in this process,
    /// and for ChaCha20-Poly1305, which has none; [`StreamError::KeySize`].
    pub fn new_with_driver(
        aead: Aead,
        driver: &str,
        key: &[u8],
        iv: &[u8; NONCE],
        first: u64,
    ) -> Result<Self, StreamError> {
        Ok(Self::with(
            Key::expand(aead, Some(driver), key)?,
            aead,
            iv,
            first,
        ))
    }

    fn with(key: Key, aead: Aead, iv: &[u8; NONCE], first: u64) -> Self {
        Self {
            key,
            nonces: Nonces::new(iv),
            next: first,
            records_max: aead.records_max(),
        }
    }

    /// Number of the next record.
    #[must_use]
    #[inline]
    pub fn number(&self) -> u64 {
        self.next
    }

    /// Part of the next record's nonce that AES-GCM in TLS 1.2 sends with it.
    #[must_use]
    #[inline]
    pub fn explicit_nonce(&self) -> [u8; EXPLICIT_NONCE] {
        self.nonces.explicit(self.next)
    }

    /// Encrypts `content` in place, and writes its tag.
    ///
    /// # Errors
    /// [`StreamError::TooLong`], [`StreamError::KeyExhausted`]; both leave the content and the number as they are.
    #[inline]
    pub fn seal_in_place(
        &mut self,
        additional: &[u8],
        content: &mut [u8],
        tag: &mut [u8; TAG],
    ) -> Result<(), StreamError> {
        let bytes = content.len();
        if bytes > CONTENT_MAX {
            return Err(StreamError::TooLong { bytes });
        }
        let (number, records) = (self.next, self.records_max);
        if number >= records {
            return Err(StreamError::KeyExhausted { records });
        }
        // From here on the number is used, even if sealing fails. Below a limit, it is not the last one.
        self.next = number + 1;
        let nonce = self.nonces.nonce(number);
        self.key.seal(nonce, additional, content, tag)
    }
}
