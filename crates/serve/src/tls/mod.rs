//! TLS 1.3 and 1.2 for a server: rustls on AWS-LC performs the handshake, and this module encrypts and decrypts the
//! records after it.
//!
//! A [`Handshake`] results in [`Established`] keys, from which a [`Session`] is made; neither does I/O. Records are
//! encrypted in place: a file is read to the offsets that [`Session::layout`] gives, and [`Session::seal`] makes records
//! there. [`record`] has the cryptography. [`accept()`] performs the handshake on a socket, and a [`TlsStream`] is a
//! session with its socket, as a stream of bytes.
//!
//! [`Settings`] have the protocols and cipher suites, [`Certificates`] the certificates and [`Tickets`] the keys of session
//! tickets, both of which can be exchanged at any time.

mod accept;
mod certificates;
mod config;
mod error;
mod facts;
mod handshake;
pub mod kernel;
mod post_handshake;
pub mod record;
mod server_name;
mod session;
mod stream;
mod tickets;

pub use accept::{Accepted, CompletedHandshake, HandshakeOutcome, accept, perform_handshake};
pub use certificates::{
    Certificate, CertificateSet, Certificates, Expiry, FileError, FileFault, SelfSignedError,
};
pub use config::{Settings, Suite, UnknownSuite};
pub use error::TlsError;
pub use facts::{Facts, Protocol};
pub use handshake::{Established, HANDSHAKE_MAX, Handshake, Progress};
pub use record::{PAYLOAD_MAX, RECORD_MAX};
pub use server_name::ServerName;
pub use session::{Opened, Session};
pub use stream::TlsStream;
pub use tickets::{TicketKeys, TicketKeysError, TicketKeysFault, Tickets, rotate_ticket_keys};

#[cfg(test)]
mod tests;
