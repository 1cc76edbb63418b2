//! Cost of a request, counted and not timed: allocations, system calls, and bytes moved in memory, for
//! each engine. The server's meter counts, and strace, which sees the same calls from outside, checks its
//! counts.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod allocations;
#[path = "../../../../tests/support/certificates.rs"]
#[allow(dead_code, reason = "shared by several test programs")]
mod certificates;
#[path = "../nbd/common.rs"]
#[allow(
    dead_code,
    reason = "shared by several test programs, each using a part"
)]
mod common;
mod load;
mod meter;
mod stage;
mod trace;

use scrim_volume::DataPath;
use scrim_volume::queue::Engine;

/// Engine that the shared helpers serve with; the tests here choose their own.
const ENGINE: Engine = Engine::Plain;
const PATH: DataPath = DataPath::Auto;
const REMOTE: bool = false;

/// The engines that this process may use.
fn engines() -> impl Iterator<Item = Engine> {
    [Engine::Plain, Engine::IoUring, Engine::Threads]
        .into_iter()
        .filter(|engine| {
            if !engine.is_allowed() {
                println!("skipped: {engine} is not allowed here");
            }
            engine.is_allowed()
        })
}
