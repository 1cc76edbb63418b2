//! rustls's secrets as the kernel takes them.

use rustls::ConnectionTrafficSecrets;
use scrim_sys::kernel_tls::{Cipher, CryptoInfo, Version};

use crate::tls::record::Direction;

/// A direction's version and cipher, where kernels know it.
pub(super) fn suite(direction: &Direction) -> Option<(Version, Cipher)> {
    let version = match direction.tls13 {
        true => Version::Tls13,
        false => Version::Tls12,
    };
    let cipher = match &direction.secrets {
        ConnectionTrafficSecrets::Aes128Gcm { .. } => Cipher::Aes128Gcm,
        ConnectionTrafficSecrets::Aes256Gcm { .. } => Cipher::Aes256Gcm,
        ConnectionTrafficSecrets::Chacha20Poly1305 { .. } => Cipher::ChaCha20Poly1305,
        _ => return None,
    };
    Some((version, cipher))
}

/// A direction for the kernel. A caller that gives it the key to send by must not use that key again.
pub(super) fn info(direction: &Direction) -> Option<CryptoInfo> {
    let (version, cipher) = suite(direction)?;
    let (ConnectionTrafficSecrets::Aes128Gcm { key, iv }
    | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
    | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }) = &direction.secrets
    else {
        return None;
    };
    let iv = iv.as_ref().try_into().ok()?;
    CryptoInfo::new(version, cipher, key.as_ref(), iv, direction.sequence)
}
