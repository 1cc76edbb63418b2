//! A server for the Network Block Device protocol
//! (<https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>).
//!
//! Fixed newstyle negotiation with `NBD_OPT_EXPORT_NAME`, `ABORT`, `LIST`, `STARTTLS`, `INFO`, `GO`,
//! `STRUCTURED_REPLY`, `LIST_META_CONTEXT` and `SET_META_CONTEXT` (`base:allocation`); the commands
//! `NBD_CMD_READ`, `WRITE`, `DISC`, `FLUSH`, `TRIM`, `CACHE`, `WRITE_ZEROES` and `BLOCK_STATUS`.
//!
//! It listens on unix sockets that only their owner can use, and on TCP: with TLS, which is then
//! required of every client, or on loopback only.
//!
//! One thread serves one connection: it receives, executes and replies, by plain calls or, where
//! an export has another [engine](scrim_volume::queue::Engine), through a queue of its own. What
//! a client sends is parsed first and executed afterwards, and is bounded by [`limits`] and
//! [those of every server](crate::limits).

mod advertised;
mod error;
mod gathered;
pub mod limits;
mod negotiate;
mod option;
mod pipeline;
mod protocol;
mod reply;
mod request;
mod transmission;
mod uri;

pub use error::{Incident, ProtocolError};
pub use protocol::Server;
pub use scrim_nbd::tls::{FileError, FileFault, Protection, ServerFiles, ServerTls, TlsError};
pub use scrim_nbd::{Address, AddressError};
