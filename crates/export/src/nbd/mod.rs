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
//! One thread serves one connection: it receives, executes and replies, with no queue between, or, where
//! an export has another [engine](scrim_volume::queue::Engine), with its own. What
//! a client sends is parsed first and executed afterwards, and is bounded by [`limits`].

mod acceptor;
mod budget;
mod export;
pub mod limits;
mod link;
mod listener;
mod meter;
mod negotiate;
mod option;
mod pipeline;
mod registry;
mod reply;
mod request;
mod serve;
mod server;
mod status;
mod stop;
mod tls;
mod wait;

pub use export::Export;
pub use listener::{BindError, BindErrorKind, InheritedError, Listener};
pub use scrim_nbd::tls::{FileError, FileFault, Protection, ServerFiles, ServerTls, TlsError};
pub use scrim_nbd::{Address, AddressError};
pub use server::{Limits, Server, StartError, Stopped};
pub use status::{ClientStatus, Count, Event, Incident, Peer, ProtocolError, Status, Traffic};
