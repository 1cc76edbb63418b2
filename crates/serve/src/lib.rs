//! Serves files to browsers: HTTPS, in user space.
//!
//! [`http`] has requests and answers, whatever version of the protocol carries them; [`files`] has open files, and
//! [`site`] finds them, for clients that [`access`] admits; [`tls`] makes handshakes and records; [`acme`] obtains certificates. A [`Server`] is a thread that
//! accepts connections, and worker threads that serve them, each with its own event loop and connections.
//!
//! # A GET, from request to answer
//!
//! 1. `server.rs` accepts a connection and gives it to a worker, a thread with an event loop (`event_loop.rs`).
//! 2. `connection/mod.rs` has the handshake made (`tls`) and decides whether the kernel or this process makes the records.
//! 3. `connection/h1.rs` receives and decrypts a request, and `http/head.rs` parses it.
//! 4. `worker.rs` asks the site: `site/answering.rs` makes an answer, whose body names ranges of open files
//!    (`http/answer.rs`).
//! 5. `transport/secure.rs` sends the answer in batches of records: `transport/fill.rs` reads the file into the payloads of
//!    a batch (`transport/batch.rs`), and `tls/record/seal.rs` encrypts each in place: the nonce of a record is
//!    the key's IV XOR its number, which [`scrim_crypt::stream::Sealer`] counts, and `tls/session.rs` changes the key before
//!    its limit. If the kernel makes the records, `transport/kernel.rs` sends by `sendfile`.
//! 6. What a slow client has not taken stays in `transport/secure.rs`, which then sends one record at a time, and waits in
//!    `transport/socket.rs`. `transport/pool.rs` limits the buffers of several records.

#![forbid(unsafe_code)]

pub mod access;
pub mod acme;
mod address;
mod admission;
mod blocking;
mod budget;
mod client;
mod compression;
pub mod config;
mod connection;
mod counters;
mod event_loop;
pub mod files;
mod health;
pub mod http;
mod limits;
mod listener;
mod log;
mod operator;
mod origin;
mod proxy;
mod redirect;
mod server;
pub mod site;
mod sites;
mod status;
pub mod tls;
mod transport;
mod whole_file;
mod worker;

pub use counters::Figures;
pub use limits::Limits;
pub use listener::{Listener, Service};
pub use log::{AccessLog, LogFormat};
pub use operator::OnFault;
pub use proxy::TrustedProxies;
pub use server::{Parts, Server};
pub use sites::{Sites, SitesError};
pub use status::Volumes;
