//! Trees of files mounted by the real kernel: a volume's plaintext as a file, and the ways in which a mount ends.
//!
//! Tests run one at a time, since each mounts something, and programs look at it from other processes where a fault could
//! leave them waiting.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod common;
mod counts;
mod files;
mod lifecycle;
mod others;
mod programs;
mod raw;
