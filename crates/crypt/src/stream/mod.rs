//! Authenticated streams: a [`Sealer`] and an [`Opener`] process a stream in pieces of at most
//! [`PIECE_MAX`] bytes by AES-GCM or ChaCha20-Poly1305, each piece with a nonce and a tag of its own.
//!
//! ```
//! use scrim_crypt::stream::{Aead, Nonces, Opener, Sealer, TAG};
//!
//! # fn main() -> Result<(), scrim_crypt::stream::StreamError> {
//! let (key, nonces) = ([1; 16], Nonces::Xor([2; 12]));
//! let mut sealer = Sealer::new(Aead::Aes128Gcm, &key, nonces, 0)?;
//! let mut record = *b"five times five.................";
//! sealer.seal_in_place(b"header", &mut record)?; // the last 16 bytes become the tag
//!
//! let mut opener = Opener::new(Aead::Aes128Gcm, &key, nonces, 0)?;
//! assert_eq!(opener.open_in_place(b"header", &mut record)?, b"five times five.");
//! # Ok(())
//! # }
//! ```
//!
//! # What a stream does not say
//!
//! Numbers keep pieces from being swapped, repeated or left out. Only the content can tell that the
//! *end* is missing, as TLS does by its close alert: a protocol that needs this says in the last piece,
//! or in its additional data, that it is the last.
//!
//! # Where keys are
//!
//! AWS-LC seals and opens pieces; it copies the key into an expanded form in its own memory: wiped when the [`Sealer`] or [`Opener`]
//! is dropped, but neither locked nor left out of core dumps of a process that makes them. AWS-LC
//! chooses code for this CPU itself; `SCRIM_DISABLE` does not reach it.

mod error;
mod pieces;

pub use error::StreamError;
pub use pieces::{Opener, Sealer};

use std::fmt;

/// The most that a piece can hold, in bytes: 16 KiB, and one more for the type that TLS 1.3
/// encrypts behind them (RFC 8446, 5.4).
pub const PIECE_MAX: usize = (16 << 10) + 1;

/// Length of a tag in bytes.
pub const TAG: usize = 16;

/// Length of a nonce in bytes.
pub const NONCE: usize = 12;

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
    /// Every AEAD.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// Length of a key in bytes.
    #[must_use]
    pub const fn key_size(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
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

/// Rule by which the nonce of a piece follows from its number. Under one key no number is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nonces {
    /// These bytes, with the number, big endian, xored into the last 8: TLS 1.3 (RFC 8446, 5.3) and
    /// ChaCha20-Poly1305 in TLS 1.2 (RFC 7905, 2). The number does not travel.
    Xor([u8; NONCE]),
    /// These bytes, followed by the number, big endian: AES-GCM in TLS 1.2 (RFC 5288, 3), where the 8 bytes
    /// of the number travel with the record.
    Salt([u8; 4]),
}

impl Nonces {
    /// The nonce of piece `number`.
    #[must_use]
    pub fn nonce(self, number: u64) -> [u8; NONCE] {
        let number = number.to_be_bytes();
        let mut nonce = [0; NONCE];
        match self {
            Self::Xor(iv) => {
                nonce[NONCE - 8..].copy_from_slice(&number);
                nonce.iter_mut().zip(iv).for_each(|(byte, iv)| *byte ^= iv);
            }
            Self::Salt(salt) => {
                nonce[..4].copy_from_slice(&salt);
                nonce[4..].copy_from_slice(&number);
            }
        }
        nonce
    }
}

/// Limits on the use of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Pieces that may be sealed, whatever their size: those with numbers below this one.
    pub pieces: u64,
    /// Pieces that may fail to open.
    pub forgeries: u64,
}

impl Limits {
    /// For AES-GCM 2²⁴·⁵ pieces, and for ChaCha20-Poly1305 as many as there are numbers (RFC 8446,
    /// 5.5); 2⁵² and 2³⁶ forgeries (RFC 9001, 6.6).
    #[must_use]
    pub const fn of(aead: Aead) -> Self {
        match aead {
            Aead::Aes128Gcm | Aead::Aes256Gcm => Self {
                pieces: 23_726_566,
                forgeries: 1 << 52,
            },
            Aead::ChaCha20Poly1305 => Self {
                pieces: u64::MAX,
                forgeries: 1 << 36,
            },
        }
    }

    /// The lower of both limits, each on its own.
    fn lowered(self, other: Self) -> Self {
        Self {
            pieces: self.pieces.min(other.pieces),
            forgeries: self.forgeries.min(other.forgeries),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_xored_into_the_end_of_the_iv() {
        let nonces = Nonces::Xor([0x11; 12]);
        assert_eq!(nonces.nonce(0), [0x11; 12]);
        let nonce = nonces.nonce(0x0102_0304_0506_0708);
        assert_eq!(nonce[..4], [0x11; 4]);
        assert_eq!(nonce[4..], [0x10, 0x13, 0x12, 0x15, 0x14, 0x17, 0x16, 0x19]);
    }

    #[test]
    fn the_number_follows_the_salt() {
        let nonce = Nonces::Salt([9; 4]).nonce(0x0102_0304_0506_0708);
        assert_eq!(nonce, [9, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    /// 2²⁴·⁵, squared.
    #[test]
    fn the_limit_of_gcm_is_that_of_the_rfc() {
        let pieces = u128::from(Limits::of(Aead::Aes256Gcm).pieces);
        assert!(pieces * pieces <= 1 << 49 && (pieces + 1) * (pieces + 1) > 1 << 49);
    }
}
