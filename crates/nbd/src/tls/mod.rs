//! TLS 1.3 and 1.2 for both sides of an NBD connection: the handshake by rustls on AWS-LC, and records of AES-GCM by
//! [`scrim_crypt::stream`].
//!
//! [`ServerTls`] and [`ClientTls`] are what a side has: certificates, a key, the authorities that it trusts.
//! A [`Session`] is one connection's state, and does no I/O: records go in by a [`Wire`] buffer and come out by
//! another. A server drives it beside its own socket calls; a client calls [`ClientTls::handshake`] and gets a
//! [`TlsReader`] and a [`TlsWriter`].
//!
//! AES-128-GCM comes first: it is the fastest where AES has instructions, and as strong as the keys
//! that are exchanged. There are no tickets and no resumption: a connection to a disk lasts, and what
//! is not kept cannot be stolen. External pre-shared keys are not offered, because rustls has none.

mod client;
mod error;
mod files;
mod server;
mod session;
mod stream;
mod suites;
mod wire;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite};

pub use client::{ClientFiles, ClientTls};
pub use error::TlsError;
pub use scrim_pem::{FileError, FileFault};
pub use server::{ServerFiles, ServerTls};
pub use session::{Protection, Session};
pub use stream::{TlsReader, TlsWriter};
pub use wire::{PLAINTEXT_MAX, RECEIVE_BUFFER, SEND_BUFFER, Wire};

/// AWS-LC, with the suites in the order of preference; none without forward secrecy.
fn provider() -> Arc<CryptoProvider> {
    let by_library13 = [cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    let by_library12 = [
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ];
    let tls13 = suites::tls13().chain(by_library13);
    let tls12 = suites::tls12().chain(by_library12);
    Arc::new(CryptoProvider {
        cipher_suites: tls13.chain(tls12).collect(),
        ..aws_lc_rs::default_provider()
    })
}

#[cfg(test)]
mod tests;
