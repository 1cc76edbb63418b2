//! Protocol between commands and the process that serves a volume: one request and one answer per connection, on a
//! unix socket that only its owner can reach.
//!
//! A request is one line of at most 256 bytes, `scrim 1 WORD…`. After `reload LENGTH` follows a table of LENGTH
//! bytes, after `resume-key LENGTH` a volume key, and after `mount LENGTH` and `umount LENGTH` JSON. An answer is one
//! line, `ok LENGTH` or `error EXIT LENGTH`, and LENGTH bytes: text, JSON for `status`, `statistics` and `mount`, or the
//! bytes that `header OFFSET LENGTH` asks for. The process reads from one client at a time, which has 5 seconds to send
//! its request.

mod client;
mod figures;
mod request;
mod server;
mod status;

pub(crate) use client::{Client, find};
pub(crate) use figures::{Figures, Times, Traffic};
pub(crate) use request::{READ_MAX, Request};
pub(crate) use server::{Answer, ControlSocket};

pub(crate) use status::{ClusterImage, Connection, ExclusiveLock, Protected, Server, Status, Tls};
