//! The tests of `nbd/`, of a server whose requests go by a pool of threads to storage on another machine.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

#[path = "../../../tests/support/certificates.rs"]
mod certificates;
#[path = "nbd/common.rs"]
mod common;
#[path = "nbd/fuzz.rs"]
mod fuzz;
#[path = "nbd/handshake.rs"]
mod handshake;
#[path = "nbd/held.rs"]
mod held;
#[path = "nbd/hostile.rs"]
mod hostile;
#[path = "nbd/interop.rs"]
mod interop;
#[path = "nbd/lifecycle.rs"]
mod lifecycle;
#[path = "nbd/tls.rs"]
mod tls;
#[path = "nbd/tls_hostile.rs"]
mod tls_hostile;
#[path = "nbd/transmission.rs"]
mod transmission;
#[path = "nbd/unread.rs"]
mod unread;

use scrim_volume::DataPath;
use scrim_volume::queue::Engine;

const ENGINE: Engine = Engine::Threads;
const PATH: DataPath = DataPath::Auto;
const REMOTE: bool = true;
