//! An NBD export as a store.
//!
//! From the outside in: [`RemoteBackend`] cuts what it is asked into requests that the server takes; a
//! `Link` carries each of them out through all losses of the connection; a `Session` is the connections
//! that there are now, and a `Connection` shares one of them between threads.
//!
//! # What is durable when
//!
//! - A flush that has returned without an error covers every write that returned before it began; a
//!   durable write covers itself. That is the server's word, and all that can be had of it.
//! - What a server has acknowledged and no flush has covered is lost when the server dies. So it is kept
//!   here (the journal), and written again after every loss of a connection, before anything else. It is
//!   kept in memory only: it outlives the server, not this process. When it is long or the server slow,
//!   flushes between the writes let the next attempt go on where this one had to stop, be it after one.
//! - A durable write is never in the journal, and what comes after it is not undone from there: one that
//!   overlaps an older write in it is sent as an ordinary one, and returns when a flush has covered both.
//! - Once the journal takes 64 MiB, the next write flushes first.
//! - A flush that fails because the server cannot be reached takes nothing away: the journal stays, and
//!   a later flush is as good. A flush that the server itself fails, or a write of the journal that it
//!   will not take again, is final, as for a file.
//! - Every write to a server that offers durable writes, but no flush, is a durable one.
//! - A server that offers neither is taken at its word that what it acknowledges is durable.

mod backend;
mod change;
mod claims;
mod connection;
mod journal;
mod link;
mod outage;
mod pending;
mod replay;
mod round_trip;
mod security;
mod session;
mod stream;

use std::time::Duration;

use scrim_nbd::tls::Protection;

pub use backend::RemoteBackend;

/// Limits on the use of a server.
#[derive(Debug, Clone, Copy)]
pub struct RemoteOptions {
    /// Most connections to make; only one is made if the server does not say that several see the same data.
    pub connections: usize,
    /// Time within which every request ends, with or without an error; until then a lost connection is made again.
    pub limit: Duration,
}

/// The options where the user chose none.
impl Default for RemoteOptions {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            connections: processors.min(4),
            limit: Duration::from_secs(30),
        }
    }
}

/// State of the connection to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteStatus {
    /// Number of connections; 0 while the server cannot be reached.
    pub connections: usize,
    /// Protection of the connections' traffic; `None` where it is not encrypted, or the server cannot be reached.
    pub protection: Option<Protection>,
    /// Time after which the server answers a short request: close to the shortest of late. `None` before the first.
    pub round_trip: Option<Duration>,
    /// Number of times the connections were lost and made again.
    pub reconnects: u64,
    /// Number of bytes written again after that.
    pub replayed_bytes: u64,
    /// Memory for writes that are acknowledged and not flushed, in bytes.
    pub unflushed_bytes: usize,
}
