//! TLS records, sealed and opened where they lie. This is the part to audit.
//!
//! A [`Sealer`] turns plaintext that the caller has put at its place ([`Layout`]) into a record, an
//! [`Opener`] a record into plaintext, both in place: no byte is moved, nothing is allocated. Each has the
//! key of one direction and counts its records; the count makes the nonce, is never set back and cannot be
//! copied, so that no nonce comes twice under a key. Keys come from rustls's handshake and are consumed.
//!
//! Specifications: RFC 8446 section 5 for TLS 1.3; RFC 5246 section 6.2, RFC 5288 (AES-GCM) and RFC 7905
//! (ChaCha20-Poly1305) for TLS 1.2.

mod fault;
mod keys;
mod open;
mod seal;

pub use fault::{OpenFault, SealFault};
pub use keys::Direction;
pub(super) use keys::GCM_RECORDS;
pub use open::{OpenRecord, Opener};
pub(super) use seal::KEPT;
pub use seal::{Layout, Sealer};

/// Bytes before everything else in a record: its kind, a version, and the length of the rest.
pub const HEADER: usize = 5;

/// Most plaintext in a record, bytes.
pub const PAYLOAD_MAX: usize = 16 << 10;

/// Most bytes behind the header of a record that a client may send, before its key is known and after:
/// what TLS 1.3 allows. The suites here need less in TLS 1.2, where the standard allows more.
pub const FRAGMENT_MAX: usize = PAYLOAD_MAX + 256;

/// Most bytes of a record, its header included.
pub const RECORD_MAX: usize = HEADER + FRAGMENT_MAX;

/// Bytes of the authentication tag, in all suites.
const TAG: usize = 16;

/// Bytes of the nonce that TLS 1.2 sends in each record with AES-GCM.
const EXPLICIT_NONCE: usize = 8;

/// The version that stands in headers: TLS 1.2's, since TLS 1.3 hides itself.
const VERSION: [u8; 2] = [3, 3];

/// Kind of what a record carries once the handshake is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An alert: the end, or a warning.
    Alert,
    /// A message of the handshake protocol, such as KeyUpdate.
    Handshake,
    /// Bytes of the application.
    Data,
}

impl Kind {
    /// Kind of a byte on the wire. ChangeCipherSpec (20) has none: after the handshake it may not be sent.
    pub(super) fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            21 => Some(Self::Alert),
            22 => Some(Self::Handshake),
            23 => Some(Self::Data),
            _ => None,
        }
    }

    pub(super) fn to_wire(self) -> u8 {
        match self {
            Self::Alert => 21,
            Self::Handshake => 22,
            Self::Data => 23,
        }
    }
}

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Its first byte.
    pub kind: u8,
    /// The major version, which is 3 in all that is TLS.
    pub major: u8,
    /// Bytes that follow the header.
    pub len: usize,
}

impl Header {
    /// The header that `bytes` begin with; `None` if they are too few.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let &[kind, major, _, high, low] = bytes.first_chunk::<HEADER>()?;
        Some(Self {
            kind,
            major,
            len: usize::from(u16::from_be_bytes([high, low])),
        })
    }
}

#[cfg(test)]
mod tests;
