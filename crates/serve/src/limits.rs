//! Limits on the resources that clients can take.

use std::time::Duration;

use crate::http::HeadLimits;

/// Limits for all clients together, for each address, and for each connection.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Limit on the open connections.
    pub connections: usize,
    /// Limit on the open connections of one client: one IPv4 address, or one IPv6 network of 64 bits.
    pub per_client: usize,
    /// Limits for a request's head.
    pub head: HeadLimits,
    /// Time for a TLS handshake.
    pub handshake: Duration,
    /// Time for a request's head, from its first byte on.
    pub request: Duration,
    /// Time for which a connection is kept without a request.
    pub idle: Duration,
    /// Time for which a client may accept nothing of an answer.
    pub stall: Duration,
    /// Time that requests in flight have to end, once the server is told to stop.
    pub drain: Duration,
    /// Bytes of buffers for all answers in flight. An address may hold no more of them than are left, and clients that get
    /// none receive their answers in smaller pieces.
    pub memory: usize,
    /// Bytes of files that were compressed when they were requested.
    pub compressed: usize,
    /// Number of files that each worker keeps open in its cache.
    pub files: usize,
    /// Limit on the records of data that each key of a connection encrypts, besides the limit of its cipher: then TLS 1.3
    /// changes the key, and TLS 1.2 ends the connection.
    pub records: u64,
    /// Time for which an open file is used again without looking up its name.
    pub file_cache: Duration,
}

/// Most connections for checks of the server's health, in all and from one address: those who check have one each.
const CHECKS_MAX: usize = 256;
const CHECKS_PER_CLIENT: usize = 16;

impl Limits {
    /// Limits of connections that ask for the server's health.
    pub(crate) fn of_checks(self) -> Self {
        Self {
            connections: CHECKS_MAX,
            per_client: CHECKS_PER_CLIENT,
            ..self
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            per_client: 1_024,
            head: HeadLimits::default(),
            handshake: Duration::from_secs(10),
            request: Duration::from_secs(15),
            idle: Duration::from_secs(75),
            stall: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            memory: 64 << 20,
            compressed: 32 << 20,
            files: 1_000,
            records: u64::MAX,
            file_cache: Duration::from_secs(1),
        }
    }
}
