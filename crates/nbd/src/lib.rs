//! The Network Block Device protocol as both sides of it speak it: its numbers, addresses of servers, the
//! messages of a client, and connections under TLS.
//!
//! The server is `scrim_export::nbd`; the client's sockets and its policy are `scrim_backend::remote`.

#![forbid(unsafe_code)]

mod address;
pub mod client;
pub mod tls;
mod uri;
pub mod wire;

pub use address::{Address, AddressError};
pub use uri::{DEFAULT_PORT, Endpoint, Uri, UriError, UriTls};
pub use wire::EXPORT_NAME_MAX;
