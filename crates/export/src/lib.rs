//! Servers that carry a volume to clients.
//!
//! [`nbd`] serves volumes over the Network Block Device protocol, which qemu, libnbd, fio and the
//! Linux kernel speak. All that is not the protocol's is in the other modules: listening, limits and counts of clients,
//! status and stop, and the way between a client's socket and a volume's queue. [`fuse`] shows files in a folder of this
//! machine, by the kernel's FUSE: it has no clients to connect, so of these modules it uses only the counts.
//!
//! # A write, from the socket to the storage
//!
//! By plain calls, the default for a regular file ([`scrim_volume::queue`] has the other engines):
//!
//! 1. `acceptor.rs` starts a thread for each client, and `client.rs` serves it.
//! 2. `link.rs` receives into one buffer, and `nbd/request.rs` parses untrusted bytes there.
//! 3. `nbd/transmission.rs` passes the payload, where it was received, to `Volume::write`.
//! 4. In `scrim_volume`, `volume.rs` enters the gate (`gate.rs`), which holds off an exchange of the table until the
//!    write has ended; `mapping.rs` finds the target, `target.rs` carries the write out by the target's kind, and
//!    `path/mod.rs` chooses the data path.
//! 5. `crypt_target.rs` encrypts whole sectors in place, takes their lock (`range_lock.rs`) and writes them to the
//!    storage (`file.rs` of `scrim_backend`), which with FUA also makes it durable (`fdatasync`).
//! 6. `nbd/transmission.rs` adds the reply, and `link.rs` sends the replies of a batch by one call.
//!
//! With io_uring or a pool of threads (the engine of an `Export`), steps 3 and 6 are
//! `nbd/pipeline.rs`, and steps 4 and 5 are `queue/ring.rs` or `queue/workers.rs`.

#![forbid(unsafe_code)]

mod acceptor;
mod budget;
mod client;
mod export;
pub mod fuse;
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
pub use listener::{BindError, BindErrorKind, InheritedError, Listener};
pub use server::{Server, StartError, Stopped};
pub use status::{ClientStatus, Count, Event, Incident, Peer, Status, Traffic};
