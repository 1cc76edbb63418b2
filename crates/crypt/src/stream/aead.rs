//! The algorithms, with the lengths and limits that they have.

use std::fmt;

/// Most content of a record in bytes: 16 KiB, and one more for the type that TLS 1.3 encrypts behind them
/// (RFC 8446, 5.4). The limits of keys assume it.
pub const CONTENT_MAX: usize = (16 << 10) + 1;

/// Longest message in bytes: AES-GCM has a counter of 32 bits for its blocks (NIST SP 800-38D, 5.2.1.1), and RFC 8439
/// allows more.
pub const MESSAGE_MAX: u64 = crate::kernels::gcm::MESSAGE_MAX;

/// Length of a tag in bytes.
pub const TAG: usize = 16;

/// Length of a nonce, and of the IV that nonces are made from, in bytes.
pub const NONCE: usize = 12;

/// Length in bytes of the part of a nonce that AES-GCM sends with each record in TLS 1.2 (RFC 5288, 3).
pub const EXPLICIT_NONCE: usize = 8;

/// Authenticated encryption with additional data (RFC 5116).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aead {
    /// AES-GCM (NIST SP 800-38D) with a key of 16 bytes.
    Aes128Gcm,
    /// AES-GCM (NIST SP 800-38D) with a key of 32 bytes.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439) with a key of 32 bytes.
    ChaCha20Poly1305,
}

impl Aead {
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// Length of a key in bytes.
    #[must_use]
    pub const fn key_size(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Number of records that one key may seal: those with numbers below it.
    ///
    /// With 2²⁴ full records of AES-GCM an attacker's chance to tell them from noise is below 2⁻⁶⁰
    /// (draft-irtf-cfrg-aead-limits); RFC 8446, 5.5 allows 2²⁴·⁵. ChaCha20-Poly1305 has no limit but that of the
    /// numbers, the last of which is never used.
    #[must_use]
    pub const fn records_max(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 24,
            Self::ChaCha20Poly1305 => u64::MAX,
        }
    }
}

impl fmt::Display for Aead {
    /// Writes the name as in RFC 5116 and RFC 8439, without the `AEAD_`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aes128Gcm => "AES_128_GCM",
            Self::Aes256Gcm => "AES_256_GCM",
            Self::ChaCha20Poly1305 => "CHACHA20_POLY1305",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Square of 2²⁴·⁵, the limit of RFC 8446.
    #[test]
    fn the_limit_of_gcm_is_within_that_of_the_rfc() {
        for aead in [Aead::Aes128Gcm, Aead::Aes256Gcm] {
            let records = u128::from(aead.records_max());
            assert!(records * records <= 1 << 49);
        }
    }
}
