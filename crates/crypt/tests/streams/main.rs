//! Authenticated streams: against published vectors, against AWS-LC's one call for a whole message,
//! and against changes to them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

#[path = "../common/mod.rs"]
mod common;
mod forgery;
mod messages;
mod pieces;
mod vectors;

use aws_lc_rs::aead;
use common::{key, plaintext};
use scrim_crypt::stream::{Aead, Message, MessageError, MessageKey, NONCE, TAG};

const IV: [u8; NONCE] = *b"twelve bytes";

/// Ciphertext and tag by AWS-LC, in one call.
fn sealed(aead: Aead, nonce: [u8; NONCE], additional: &[u8], content: &[u8]) -> Vec<u8> {
    let algorithm = match aead {
        Aead::Aes128Gcm => &aead::AES_128_GCM,
        Aead::Aes256Gcm => &aead::AES_256_GCM,
        Aead::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
    };
    let key = aead::UnboundKey::new(algorithm, &key_of(aead)).unwrap();
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    let mut sealed = content.to_vec();
    aead::LessSafeKey::new(key)
        .seal_in_place_append_tag(nonce, aead::Aad::from(additional), &mut sealed)
        .unwrap();
    sealed
}

fn key_of(aead: Aead) -> Vec<u8> {
    key(aead.key_size().try_into().unwrap())
}

/// A sealed message, and what was asked for when it was opened.
struct Sealed {
    aead: Aead,
    plain: Vec<u8>,
    additional: Vec<u8>,
    bytes: Vec<u8>,
    tag: [u8; TAG],
}

impl Sealed {
    fn new(aead: Aead, len: usize, additional: usize) -> Self {
        let (plain, additional) = (plaintext(len), plaintext(additional));
        let mut bytes = sealed(aead, IV, &additional, &plain);
        let tag = bytes.split_off(len).try_into().unwrap();
        Self {
            aead,
            plain,
            additional,
            bytes,
            tag,
        }
    }

    fn message(&self) -> Message<'_> {
        Message {
            nonce: IV,
            additional: &self.additional,
            bytes: self.bytes.len() as u64,
            tag: self.tag,
        }
    }

    /// Opens the message with the bytes that `read` gives; also returns what was emitted.
    fn open_with<E>(
        &self,
        read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> (Vec<u8>, Result<(), MessageError<E>>) {
        let key = MessageKey::new(self.aead, &key_of(self.aead)).unwrap();
        let mut emitted = Vec::new();
        let opened = key.open(&self.message(), read, |part| {
            assert!((1..=16 << 10).contains(&part.len()));
            emitted.extend_from_slice(part);
            Ok(())
        });
        (emitted, opened)
    }

    fn open(&self) -> (Vec<u8>, Result<(), MessageError<()>>) {
        self.open_with(|at, buffer| {
            buffer.copy_from_slice(part(&self.bytes, at, buffer.len()));
            Ok(())
        })
    }
}

fn part(bytes: &[u8], at: u64, len: usize) -> &[u8] {
    let at = usize::try_from(at).unwrap();
    &bytes[at..at + len]
}
