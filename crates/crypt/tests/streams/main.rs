//! Authenticated records: against published vectors, against AWS-LC's call that appends the tag, and against changes
//! to them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

#[path = "../common/mod.rs"]
mod common;
mod forgery;
mod records;
mod vectors;

use aws_lc_rs::aead;
use common::key;
use scrim_crypt::stream::{Aead, NONCE};

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
