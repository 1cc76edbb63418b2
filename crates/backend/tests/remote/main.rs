//! A remote store against a server in this process that does what real ones do seldom: it breaks off
//! anywhere, lies, falls silent, and forgets what it has acknowledged.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, its helpers too"
)]

#[path = "../../../../tests/support/certificates.rs"]
mod certificates;
mod channel;
mod faults;
mod hostile;
mod model;
mod server;
mod tls;
mod usual;
