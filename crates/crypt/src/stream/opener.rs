//! Opening of records, in the order of their numbers.

use super::aead::{Aead, EXPLICIT_NONCE, NONCE, TAG};
use super::error::StreamError;
use super::key::Key;
use super::message;
use super::nonces::Nonces;

/// Opens the records of one key, one number after the other.
///
/// A record that fails to open leaves zeros where its plaintext would be. The caller decides whether the next record is
/// tried under the same number; protocols such as TLS end the connection.
pub struct Opener {
    key: Key,
    nonces: Nonces,
    next: u64,
}

impl Opener {
    /// Sets up `key` and `iv`, of which the caller keeps and wipes the originals. `first` is the number of the first
    /// record.
    ///
    /// # Errors
    /// [`StreamError::KeySize`]; [`StreamError::Library`] where there is no memory; [`StreamError::NoCode`] where
    /// `SCRIM_DISABLE` names all code for this AEAD.
    pub fn new(aead: Aead, key: &[u8], iv: &[u8; NONCE], first: u64) -> Result<Self, StreamError> {
        Ok(Self::with(Key::expand(aead, None, key)?, iv, first))
    }

    /// As [`Opener::new`], by the driver with this name: one of the [`implementations`](crate::implementations) of `gcm(aes)`.
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
        Ok(Self::with(Key::expand(aead, Some(driver), key)?, iv, first))
    }

    fn with(key: Key, iv: &[u8; NONCE], first: u64) -> Self {
        Self {
            key,
            nonces: Nonces::new(iv),
            next: first,
        }
    }

    /// Number of the next record.
    #[must_use]
    #[inline]
    pub fn number(&self) -> u64 {
        self.next
    }

    /// Verifies the next record and decrypts its content in place.
    ///
    /// # Errors
    /// [`StreamError::Forged`]; [`StreamError::MessageTooLong`] for content that no sealer makes, which stays as it is;
    /// [`StreamError::KeyExhausted`] after the last number that a sealer uses. All leave the number as it is.
    #[inline]
    pub fn open_in_place(
        &mut self,
        additional: &[u8],
        content: &mut [u8],
        tag: &[u8; TAG],
    ) -> Result<(), StreamError> {
        self.open(self.nonces.nonce(self.next), additional, content, tag)
    }

    /// Like [`Opener::open_in_place`], with the part of the nonce that AES-GCM in TLS 1.2 sends with a record. The
    /// sender has chosen it; the caller puts the number into the additional data, so that it is verified.
    ///
    /// # Errors
    /// Those of [`Opener::open_in_place`].
    #[inline]
    pub fn open_in_place_with(
        &mut self,
        explicit: [u8; EXPLICIT_NONCE],
        additional: &[u8],
        content: &mut [u8],
        tag: &[u8; TAG],
    ) -> Result<(), StreamError> {
        self.open(self.nonces.with(explicit), additional, content, tag)
    }

    #[inline]
    fn open(
        &mut self,
        nonce: [u8; NONCE],
        additional: &[u8],
        content: &mut [u8],
        tag: &[u8; TAG],
    ) -> Result<(), StreamError> {
        message::check_length(content.len() as u64)?;
        let number = self.next;
        let after = number.checked_add(1);
        let after = after.ok_or(StreamError::KeyExhausted { records: u64::MAX })?;
        if !self.key.open(nonce, additional, content, tag) {
            return Err(StreamError::Forged { number });
        }
        self.next = after;
        Ok(())
    }
}
