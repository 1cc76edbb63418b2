//! Conversion of rustls' secrets to the kernel's form.

use rustls::ConnectionTrafficSecrets;
use scrim_sys::kernel_tls::{Cipher, CryptoInfo, Version};

use crate::tls::record::Direction;

/// Version and cipher of a direction; `None` if no kernel supports the cipher.
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

/// Key and state of a direction for the kernel. A caller that gives the kernel a key for sending must not use it again.
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
