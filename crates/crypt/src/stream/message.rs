//! Messages, which may be much longer than a record.

use super::aead::{Aead, MESSAGE_MAX, NONCE, TAG};
use super::error::StreamError;
use super::key::Key;
use super::nonces::Nonces;

/// Bytes that one key of AES-GCM may seal: those of 2²⁴ records of 16 KiB, from which the limit of
/// [`Aead::records_max`] is derived. A message counts as whole blocks, and one more for its tag.
const BYTES_MAX: u64 = 1 << 38;

/// Seals whole messages of up to [`MESSAGE_MAX`] bytes under one key, one number after the other.
///
/// A message has one tag, so it must be opened as a whole: prefer records, and a [`Sealer`](super::Sealer), where
/// content is to be used before its end is there. An [`Opener`](super::Opener) of the same key and IV, with first number
/// 0, opens the messages. Like a sealer it cannot be cloned, and its number never goes back. It ends at the same limits:
/// a number of messages, and for AES-GCM 2³⁸ bytes in all.
pub struct MessageSealer {
    key: Key,
    nonces: Nonces,
    next: u64,
    messages_max: u64,
    bytes_left: u64,
}

impl MessageSealer {
    /// Sets up `key` and `iv`, of which the caller keeps and wipes the originals. The key must be new: no type prevents a
    /// second sealer of the same key, which would repeat this one's nonces.
    ///
    /// # Errors
    /// Those of [`Sealer::new`](super::Sealer::new).
    pub fn new(aead: Aead, key: &[u8], iv: &[u8; NONCE]) -> Result<Self, StreamError> {
        Ok(Self {
            key: Key::expand(aead, None, key)?,
            nonces: Nonces::new(iv),
            next: 0,
            messages_max: aead.records_max(),
            bytes_left: match aead {
                Aead::Aes128Gcm | Aead::Aes256Gcm => BYTES_MAX,
                Aead::ChaCha20Poly1305 => u64::MAX,
            },
        })
    }

    /// Number of the next message.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.next
    }

    /// Encrypts `message` in place, and writes its tag.
    ///
    /// # Errors
    /// [`StreamError::MessageTooLong`], [`StreamError::KeyExhausted`]; both leave the message and the number as they are.
    pub fn seal_in_place(
        &mut self,
        additional: &[u8],
        message: &mut [u8],
        tag: &mut [u8; TAG],
    ) -> Result<(), StreamError> {
        let number = self.take(message.len() as u64)?;
        let nonce = self.nonces.nonce(number);
        self.key.seal(nonce, additional, message, tag)
    }

    /// The number for a message of `bytes` bytes, which is used from here on, even if sealing fails.
    fn take(&mut self, bytes: u64) -> Result<u64, StreamError> {
        check_length(bytes)?;
        let number = self.next;
        let left = self.bytes_left.checked_sub((bytes.div_ceil(16) + 1) * 16);
        match left {
            Some(left) if number < self.messages_max => {
                self.bytes_left = left;
                self.next = number + 1;
                Ok(number)
            }
            _ => Err(StreamError::KeyExhausted { records: number }),
        }
    }
}

/// Refuses a message that is longer than kernels take.
#[inline]
pub(super) fn check_length(bytes: u64) -> Result<(), StreamError> {
    if bytes > MESSAGE_MAX {
        return Err(StreamError::MessageTooLong { bytes });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(aead: Aead) -> MessageSealer {
        MessageSealer::new(aead, &[3; 32][..aead.key_size()], &[4; NONCE]).unwrap()
    }

    #[test]
    fn long_messages_are_counted_in_bytes() {
        let mut sealer = sealer(Aead::Aes256Gcm);
        let too_long = StreamError::MessageTooLong {
            bytes: MESSAGE_MAX + 1,
        };
        assert_eq!(sealer.take(MESSAGE_MAX + 1), Err(too_long));
        assert_eq!(check_length(MESSAGE_MAX + 1), Err(too_long));
        assert_eq!(check_length(MESSAGE_MAX), Ok(()));
        for number in 0..4 {
            assert_eq!(sealer.take(MESSAGE_MAX), Ok(number));
        }
        // A block of each is left.
        assert_eq!(sealer.take(48), Ok(4));
        let exhausted = StreamError::KeyExhausted { records: 5 };
        assert_eq!(sealer.take(0), Err(exhausted));
        assert_eq!(sealer.number(), 5);
    }

    #[test]
    fn short_messages_are_counted_by_number() {
        let mut sealer = sealer(Aead::Aes128Gcm);
        sealer.next = (1 << 24) - 1;
        assert_eq!(sealer.take(1), Ok((1 << 24) - 1));
        let exhausted = StreamError::KeyExhausted { records: 1 << 24 };
        assert_eq!(sealer.take(1), Err(exhausted));
    }

    #[test]
    fn chacha20_has_no_limit_of_bytes() {
        let mut sealer = sealer(Aead::ChaCha20Poly1305);
        assert!((0..100).all(|number| sealer.take(MESSAGE_MAX) == Ok(number)));
    }
}
