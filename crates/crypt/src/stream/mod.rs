//! Authenticated records: AES-GCM and ChaCha20-Poly1305 in place, with the tag apart.
//!
//! A [`Sealer`] or an [`Opener`] has the key of one direction of a connection. It counts the records, makes each
//! nonce from the count and ends at the key's limit, so that no nonce comes twice under a key. Headers, padding and
//! additional data are the protocol's. A [`MessageSealer`] does the same with messages that are longer than a record.
//! `scrim serve` seals and opens all its TLS records here, and NBD over TLS those of AES-GCM; `rivals ciphers` measures
//! the same calls beside other libraries.
//!
//! ```
//! use scrim_crypt::stream::{Aead, Opener, Sealer, TAG};
//!
//! # fn main() -> Result<(), scrim_crypt::stream::StreamError> {
//! let (key, iv) = ([1; 16], [2; 12]);
//! let mut sealer = Sealer::new(Aead::Aes128Gcm, &key, &iv, 0)?;
//! let (mut content, mut tag) = (*b"five times five.", [0; TAG]);
//! sealer.seal_in_place(b"header", &mut content, &mut tag)?;
//!
//! let mut opener = Opener::new(Aead::Aes128Gcm, &key, &iv, 0)?;
//! opener.open_in_place(b"header", &mut content, &tag)?;
//! assert_eq!(&content, b"five times five.");
//! # Ok(())
//! # }
//! ```
//!
//! # Missing records at the end
//!
//! Numbers keep records from being swapped, repeated or left out. Only the content can tell that the *end* is
//! missing, as TLS does by its close alert: a protocol that needs this says in the last record, or in its additional
//! data, that it is the last.
//!
//! # Where keys are
//!
//! The expanded key is on the heap: wiped when the [`Sealer`] or [`Opener`] is dropped, but neither locked nor left out of
//! core dumps of a process that makes them, since a server has many.
//!
//! # Code
//!
//! AES-GCM is computed by the first of these that runs here and that `SCRIM_DISABLE` does not name, as [`code_for`]
//! says:
//!
//! 1. a kernel of this crate for this processor, `gcm-aes-vaes512` and its siblings;
//! 2. AWS-LC, which chooses code for this processor itself (`SCRIM_DISABLE=awslc`);
//! 3. `gcm-aes-portable`.
//!
//! AWS-LC stands before the portable kernel because it is faster wherever both are left over, in records of 16 KiB on an
//! Intel Xeon: without instructions for AES 222 MB/s beside about 100 (AES-128; AES-256: 177 beside 90), and with
//! them, where kernels are disabled, more than twenty times as fast. ChaCha20-Poly1305 is always AWS-LC's.

mod aead;
mod error;
mod key;
mod message;
mod nonces;
mod opener;
mod sealer;

pub use aead::{Aead, CONTENT_MAX, EXPLICIT_NONCE, MESSAGE_MAX, NONCE, TAG};
pub use error::StreamError;
pub use key::code_for;
pub use message::MessageSealer;
pub use opener::Opener;
pub use sealer::Sealer;
