//! Pieces with nonces and tags of their own, by AWS-LC.

use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

use super::{Aead, Limits, Nonces, PIECE_MAX, StreamError, TAG};
use crate::wipe;

/// Seals the pieces of a stream, one number after the other.
///
/// There is no `Clone` and no way back to a number: two pieces under one number would give away
/// both, and let others forge more.
pub struct Sealer {
    key: Key,
    next: u64,
    limits: Limits,
}

impl Sealer {
    /// Sets up `key`, of which the caller keeps and wipes the original. `first` is the number of
    /// the first piece: 0 for a new key, or the count of pieces that others have sealed with it.
    ///
    /// # Errors
    /// [`StreamError::KeySize`], or [`StreamError::Library`] where there is no memory.
    pub fn new(aead: Aead, key: &[u8], nonces: Nonces, first: u64) -> Result<Self, StreamError> {
        Ok(Self {
            key: Key::new(aead, key, nonces)?,
            next: first,
            limits: Limits::of(aead),
        })
    }

    /// Lowers the limits; a higher limit changes nothing.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = self.limits.lowered(limits);
        self
    }

    /// The number of the next piece. Where numbers travel ([`Nonces::Salt`]) it goes with it.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.next
    }

    /// Number of pieces that this key may still seal.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.limits.pieces.saturating_sub(self.next)
    }

    /// Seals all of `buffer` but its last [`TAG`] bytes, in place, and makes these the tag.
    ///
    /// # Errors
    /// [`StreamError::TooShort`] for a buffer without room for a tag, [`StreamError::TooLong`],
    /// [`StreamError::KeyExhausted`]. They leave `buffer` and the number as they are.
    pub fn seal_in_place(
        &mut self,
        additional: &[u8],
        buffer: &mut [u8],
    ) -> Result<(), StreamError> {
        let bytes = buffer.len();
        let (content, tag) = buffer
            .split_last_chunk_mut::<TAG>()
            .ok_or(StreamError::TooShort { bytes })?;
        let nonce = self.take_nonce(content.len())?;
        self.key
            .aws
            .seal_in_place_scatter(nonce, Aad::from(additional), content, &[], tag)
            .map_err(|_| self.key.refused())
    }

    /// Seals `source`, with `trailer` behind it, into `destination`, where the tag follows. One pass
    /// reads the one buffer and writes the other. The trailer, which may be empty, is what a
    /// protocol encrypts behind the content: of TLS 1.3 the type of the record (RFC 8446, 5.2).
    ///
    /// # Errors
    /// [`StreamError::TooLong`], [`StreamError::KeyExhausted`]. They leave the number as it is.
    ///
    /// # Panics
    /// When `destination` is not as long as `source`, `trailer` and a tag together.
    pub fn seal(
        &mut self,
        additional: &[u8],
        source: &[u8],
        trailer: &[u8],
        destination: &mut [u8],
    ) -> Result<(), StreamError> {
        let bytes = source.len() + trailer.len();
        assert!(
            destination.len() == bytes + TAG,
            "{bytes} bytes and a tag for a destination of {}",
            destination.len()
        );
        let nonce = self.take_nonce(bytes)?;
        let (content, trailer_and_tag) = destination.split_at_mut(source.len());
        self.key
            .aws
            .seal_out_of_place_scatter(
                nonce,
                Aad::from(additional),
                source,
                content,
                trailer,
                trailer_and_tag,
            )
            .map_err(|_| self.key.refused())
    }

    /// Takes the nonce of a piece of `bytes` bytes. From here on its number is used, even if sealing
    /// fails.
    fn take_nonce(&mut self, bytes: usize) -> Result<Nonce, StreamError> {
        if bytes > PIECE_MAX {
            return Err(StreamError::TooLong { bytes });
        }
        let Limits { pieces, .. } = self.limits;
        if self.next >= pieces {
            return Err(StreamError::KeyExhausted { pieces });
        }
        let nonce = self.key.nonce(self.next);
        // Less than a limit, it is not the last number.
        self.next += 1;
        Ok(nonce)
    }
}

/// Opens the pieces of a stream: in order, or by number.
///
/// A piece that fails to open leaves zeros where its plaintext would be.
pub struct Opener {
    key: Key,
    /// `None` after the last number there is.
    next: Option<u64>,
    limits: Limits,
    forgeries: AtomicU64,
}

impl Opener {
    /// Sets up `key`, of which the caller keeps and wipes the original. `first` is the number of
    /// the first piece that is opened in order.
    ///
    /// # Errors
    /// [`StreamError::KeySize`], or [`StreamError::Library`] where there is no memory.
    pub fn new(aead: Aead, key: &[u8], nonces: Nonces, first: u64) -> Result<Self, StreamError> {
        Ok(Self {
            key: Key::new(aead, key, nonces)?,
            next: Some(first),
            limits: Limits::of(aead),
            forgeries: AtomicU64::new(0),
        })
    }

    /// Lowers the limits; a higher limit changes nothing. The limit on pieces binds the sealer of them.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = self.limits.lowered(limits);
        self
    }

    /// The number of the next piece in order; `None` after the last one there is.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.next
    }

    /// Opens the next piece in place: ciphertext and tag in, the plaintext at their start out.
    ///
    /// # Errors
    /// [`StreamError::TooShort`], [`StreamError::TooLong`], [`StreamError::Forged`],
    /// [`StreamError::TooManyForgeries`], and [`StreamError::KeyExhausted`] after the last number
    /// there is. All leave the number as it is.
    pub fn open_in_place<'a>(
        &mut self,
        additional: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], StreamError> {
        let number = self.next_number()?;
        let content = self.open_in_place_at(number, additional, sealed)?;
        self.next = number.checked_add(1);
        Ok(content)
    }

    /// Opens the next piece into another buffer.
    ///
    /// # Errors
    /// As [`Opener::open_in_place`].
    ///
    /// # Panics
    /// When `destination` is not as long as `sealed` without its tag.
    pub fn open(
        &mut self,
        additional: &[u8],
        sealed: &[u8],
        destination: &mut [u8],
    ) -> Result<(), StreamError> {
        let number = self.next_number()?;
        self.open_at(number, additional, sealed, destination)?;
        self.next = number.checked_add(1);
        Ok(())
    }

    /// Opens piece `number` in place. The number of the next piece in order remains. Several threads
    /// may do so at once.
    ///
    /// # Errors
    /// [`StreamError::TooShort`], [`StreamError::TooLong`], [`StreamError::Forged`],
    /// [`StreamError::TooManyForgeries`].
    pub fn open_in_place_at<'a>(
        &self,
        number: u64,
        additional: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], StreamError> {
        self.check(sealed)?;
        let nonce = self.key.nonce(number);
        self.key
            .aws
            .open_in_place(nonce, Aad::from(additional), sealed)
            .map_err(|_| self.forged(number))
    }

    /// Opens piece `number` into another buffer. The number of the next piece in order remains.
    /// Several threads may do so at once.
    ///
    /// # Errors
    /// As [`Opener::open_in_place_at`].
    ///
    /// # Panics
    /// When `destination` is not as long as `sealed` without its tag.
    pub fn open_at(
        &self,
        number: u64,
        additional: &[u8],
        sealed: &[u8],
        destination: &mut [u8],
    ) -> Result<(), StreamError> {
        self.check(sealed)?;
        let (content, tag) = sealed.split_at(sealed.len() - TAG);
        assert!(
            destination.len() == content.len(),
            "a piece of {} bytes for a destination of {}",
            content.len(),
            destination.len()
        );
        let nonce = self.key.nonce(number);
        self.key
            .aws
            .open_separate_gather(nonce, Aad::from(additional), content, tag, destination)
            .map_err(|_| self.forged(number))
    }

    fn next_number(&self) -> Result<u64, StreamError> {
        self.next
            .ok_or(StreamError::KeyExhausted { pieces: u64::MAX })
    }

    /// Checks that `sealed` has a piece's length, and that not too many pieces have failed.
    fn check(&self, sealed: &[u8]) -> Result<(), StreamError> {
        let bytes = sealed.len();
        let content = bytes
            .checked_sub(TAG)
            .ok_or(StreamError::TooShort { bytes })?;
        if content > PIECE_MAX {
            return Err(StreamError::TooLong { bytes: content });
        }
        let Limits { forgeries, .. } = self.limits;
        if self.forgeries.load(Ordering::Relaxed) >= forgeries {
            return Err(StreamError::TooManyForgeries { forgeries });
        }
        Ok(())
    }

    fn forged(&self, number: u64) -> StreamError {
        self.forgeries.fetch_add(1, Ordering::Relaxed);
        StreamError::Forged { number }
    }
}

/// A key in AWS-LC's hands, and its nonces.
struct Key {
    aead: Aead,
    aws: LessSafeKey,
    nonces: Nonces,
}

impl Key {
    fn new(aead: Aead, key: &[u8], nonces: Nonces) -> Result<Self, StreamError> {
        if key.len() != aead.key_size() {
            let bytes = key.len();
            return Err(StreamError::KeySize { aead, bytes });
        }
        let algorithm = match aead {
            Aead::Aes128Gcm => &AES_128_GCM,
            Aead::Aes256Gcm => &AES_256_GCM,
            Aead::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let key = UnboundKey::new(algorithm, key);
        wipe::stack();
        Ok(Self {
            aead,
            aws: LessSafeKey::new(key.map_err(|_| StreamError::Library { aead })?),
            nonces,
        })
    }

    fn nonce(&self, number: u64) -> Nonce {
        Nonce::assume_unique_for_key(self.nonces.nonce(number))
    }

    fn refused(&self) -> StreamError {
        StreamError::Library { aead: self.aead }
    }
}
