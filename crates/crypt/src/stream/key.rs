//! Keys expanded by AWS-LC.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305, LessSafeKey, UnboundKey};

use super::aead::Aead;
use super::error::StreamError;
use crate::wipe;

/// Expands `key`, and wipes what that leaves on the stack.
pub(super) fn expand(aead: Aead, key: &[u8]) -> Result<LessSafeKey, StreamError> {
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
    key.map(LessSafeKey::new).map_err(|_| StreamError::Library)
}
