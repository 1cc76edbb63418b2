//! The NBD server seen from outside: by a client that sends any bytes it likes, and by the clients
//! that people use.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

#[path = "../../../../tests/support/certificates.rs"]
mod certificates;
mod common;
mod crowds;
mod fuzz;
mod handshake;
mod held;
mod hostile;
mod interop;
mod lifecycle;
mod tls;
mod tls_hostile;
mod transmission;
mod unread;

use scrim_volume::DataPath;
use scrim_volume::queue::Engine;

/// The same tests run with the other engines and on the queued path: `nbd_threads.rs`, `nbd_remote.rs`,
/// `nbd_io_uring.rs`, `nbd_queued.rs`.
const ENGINE: Engine = Engine::Plain;
const PATH: DataPath = DataPath::Auto;
const REMOTE: bool = false;
