//! TLS records, sealed and opened where they lie. This is the part to audit, together with
//! [`scrim_crypt::stream`], which has the keys, makes the nonces and counts the records.
//!
//! A [`Sealer`] turns plaintext that the caller has put at its place ([`Layout`]) into a record, an
//! [`Opener`] a record into plaintext, both in place: no byte is moved, nothing is allocated. The framing is
//! here: headers, kinds, padding and additional data. Keys come from rustls's handshake and are consumed: each
//! has one sealer or one opener, whose count is never set back and cannot be copied.
//!
//! Specifications: RFC 8446 section 5 for TLS 1.3; RFC 5246 section 6.2, RFC 5288 (AES-GCM) and RFC 7905
//! (ChaCha20-Poly1305) for TLS 1.2.

mod fault;
mod form;
mod keys;
mod open;
mod seal;
mod wire;

pub use fault::{OpenFault, SealFault};
pub use keys::Direction;
pub use open::{OpenRecord, Opener};
pub(super) use seal::data_max;
pub use seal::{Layout, Sealer};
pub use wire::{FRAGMENT_MAX, HEADER, Header, Kind, PAYLOAD_MAX, RECORD_MAX};

#[cfg(test)]
mod tests;
