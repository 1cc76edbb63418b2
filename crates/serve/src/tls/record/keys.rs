//! Keys as the handshake gives them.

use rustls::ConnectionTrafficSecrets;
use scrim_crypt::stream::{Aead, NONCE};

use super::form::Form;

/// One direction's key as the handshake, or a key update, leaves it: it becomes a sealer or an opener, once, or is
/// given to the kernel.
pub struct Direction {
    /// Records that were sealed with it already.
    pub sequence: u64,
    pub secrets: ConnectionTrafficSecrets,
    /// True if it is TLS 1.3, or else 1.2.
    pub tls13: bool,
}

/// A direction's secrets as a sealer or an opener takes them.
pub(super) struct Parts<'a> {
    pub(super) aead: Aead,
    pub(super) key: &'a [u8],
    pub(super) iv: &'a [u8; NONCE],
    pub(super) form: Form,
}

impl<'a> Parts<'a> {
    /// Borrows the parts of `secrets`; `None` for a suite that is not one of TLS.
    pub(super) fn of(secrets: &'a ConnectionTrafficSecrets, tls13: bool) -> Option<Self> {
        let (aead, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Aead::Aes128Gcm, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Aead::Aes256Gcm, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (Aead::ChaCha20Poly1305, key, iv)
            }
            _ => return None,
        };
        let form = match (tls13, aead) {
            (true, _) => Form::Tls13,
            (false, Aead::Aes128Gcm | Aead::Aes256Gcm) => Form::Tls12Gcm,
            (false, Aead::ChaCha20Poly1305) => Form::Tls12ChaCha,
        };
        Some(Self {
            aead,
            key: key.as_ref(),
            iv: iv.as_ref().try_into().ok()?,
            form,
        })
    }
}
