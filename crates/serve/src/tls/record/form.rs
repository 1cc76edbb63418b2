//! Layouts of records, by version and cipher.

use scrim_crypt::stream::{EXPLICIT_NONCE, TAG};

use super::wire::{FRAGMENT_MAX, HEADER, PAYLOAD_MAX};

/// The bytes that a record has around its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// TLS 1.3: the kind is behind the payload, encrypted.
    Tls13,
    /// TLS 1.2 with AES-GCM: 8 bytes of the nonce before the payload.
    Tls12Gcm,
    /// TLS 1.2 with ChaCha20-Poly1305.
    Tls12ChaCha,
}

impl Form {
    /// Bytes before the payload, header included.
    pub(super) fn before(self) -> usize {
        match self {
            Self::Tls13 | Self::Tls12ChaCha => HEADER,
            Self::Tls12Gcm => HEADER + EXPLICIT_NONCE,
        }
    }

    /// Bytes after the payload.
    pub(super) fn after(self) -> usize {
        match self {
            Self::Tls13 => 1 + TAG,
            Self::Tls12Gcm | Self::Tls12ChaCha => TAG,
        }
    }

    /// Least and most bytes behind a header that can be a record of this form.
    pub(super) fn fragment(self) -> (usize, usize) {
        match self {
            // Padding, which the kind belongs to here, may take up to 256 bytes with the tag. One without a kind is
            // refused for that, and not for its length.
            Self::Tls13 => (TAG, FRAGMENT_MAX),
            Self::Tls12Gcm => (EXPLICIT_NONCE + TAG, EXPLICIT_NONCE + PAYLOAD_MAX + TAG),
            Self::Tls12ChaCha => (TAG, PAYLOAD_MAX + TAG),
        }
    }
}
