//! Servers that carry a volume to clients.
//!
//! [`nbd`] serves volumes over the Network Block Device protocol, which qemu, libnbd, fio and the
//! Linux kernel speak. All that is not the protocol's is in the other modules: listening, limits and counts of clients,
//! status and stop, and the way between a client's socket and a volume's queue.

#![forbid(unsafe_code)]

mod acceptor;
mod budget;
mod client;
mod export;
mod in_flight;
pub mod limits;
mod link;
mod listener;
mod meter;
pub mod nbd;
mod polling;
mod protocol;
mod range;
mod registry;
mod server;
mod shared;
mod status;
mod stop;

pub use export::Export;
pub use limits::Limits;
pub use listener::{BindError, BindErrorKind, InheritedError, Listener};
pub use server::{Server, StartError, Stopped};
pub use status::{ClientStatus, Count, Event, Incident, Peer, Status, Traffic};
