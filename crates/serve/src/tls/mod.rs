//! TLS 1.3 and 1.2 for a server: rustls on AWS-LC makes the handshake, and the records after it are sealed
//! and opened here.
//!
//! A [`Handshake`] leaves [`Established`] keys, of which a [`Session`] is made; neither does I/O. Plaintext lies,
//! before it is sealed, where it is sent from: a file is read into the places that [`Session::layout`] names, and
//! [`Session::seal`] turns it into records there. [`record`] is the part that has to be right. [`accept()`] makes the
//! handshake on a socket, and a [`TlsStream`] is a session with its socket, as a stream of bytes.
//!
//! [`Settings`] say what is offered, [`Certificates`] what is shown; the certificates can be exchanged at any time.

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

pub use accept::{Accepted, CompletedHandshake, HandshakeOutcome, accept, perform_handshake};
pub use certificates::{
    Certificate, Certificates, Expiry, FileError, FileFault, SelfSignedError, Shown,
};
pub use config::{Settings, Suite, UnknownSuite};
pub use error::TlsError;
pub use facts::{Facts, Protocol};
pub use handshake::{Established, HANDSHAKE_MAX, Handshake, Progress};
pub use record::{PAYLOAD_MAX, RECORD_MAX};
pub use server_name::ServerName;
pub use session::{Opened, Session};
pub use stream::TlsStream;

#[cfg(test)]
mod tests;
