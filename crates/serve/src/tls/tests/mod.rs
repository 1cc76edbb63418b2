//! The server's side of TLS with rustls's own client, in memory.

mod certificates;
mod handshake;
mod peer;
mod session;
mod stream;
