//! Limits of every server: nothing a client sends makes a server use more time, memory or threads than these allow.
//! A protocol adds its own.

use std::time::Duration;

use scrim_nbd::tls;

/// Clients served at the same time by one server. Only a client that has got through its handshake counts, and no
/// other can take its place; a further one is refused the export.
pub const CLIENTS: usize = 128;

/// Connections at the same time from one address: one of IPv4, a network of 64 bits of IPv6, a user of this machine
/// on a unix socket.
pub const CLIENTS_OF_PEER: usize = 64;

/// Connections in their handshake at the same time. A further one displaces another: of the address with the most
/// of them, one that has not answered the greeting within [`ANSWER`], the oldest.
pub const NEWCOMERS: usize = 128;

/// Time within which a well-behaved client answers the greeting, over any network.
pub const ANSWER: Duration = Duration::from_secs(1);

/// Time for which a client waits for the place of another one that has disconnected, while the other's thread has not
/// noticed that yet.
pub const DEPARTURE: Duration = Duration::from_secs(2);

/// Most exports of one server.
pub const EXPORTS: usize = 64;

/// Time a client has from connecting to the end of its handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// Time a client has at the end to take some of the replies that are due, or the reason of an error.
pub const FAREWELL: Duration = Duration::from_secs(60);

/// Bytes in an export's name or description: the longest string that NBD allows.
pub const NAME: usize = scrim_nbd::EXPORT_NAME_MAX;

/// Receive buffer of a connection, bytes: as many requests as fit are taken by one system call. It
/// stays within the processor's second-level cache, so that data is encrypted where it arrived.
pub const RECEIVE_BUFFER: usize = 256 << 10;

/// Either buffer of a connection in its handshake, bytes: holds the longest message of a handshake, and a record of
/// TLS. A connection that has said nothing yet has neither buffer nor thread.
pub const HANDSHAKE_BUFFER: usize = 64 << 10;

/// Send buffer of a connection, bytes: holds the replies that wait for one send.
pub const SEND_BUFFER: usize = 256 << 10;

/// Send buffer of a connection, bytes, from its first read on that does not fit [`SEND_BUFFER`] and is answered by
/// plain calls: a reply of 1 MiB is sent by one call. A reply in pieces wakes the client for each piece, which takes
/// as long as decrypting 32 KiB or more.
pub const LONG_SEND_BUFFER: usize = (1 << 20) + SEND_AT;

/// Memory of a connection under TLS, bytes, beside the two buffers that every connection has: a buffer
/// of received records, one of records to be sent, and what rustls may hold of a handshake, its answer and
/// one record.
pub const TLS: usize = tls::RECEIVE_BUFFER + tls::SEND_BUFFER + (256 << 10);

/// Unsent replies, in bytes, that are sent before the next request is looked at, so that the client
/// works on them meanwhile.
pub const SEND_AT: usize = 64 << 10;

/// Piece, in bytes, in which data larger than this moves between socket and volume.
pub const PIECE: usize = 128 << 10;

/// Memory, in bytes, for all long reads together whose replies cannot report an error after the first byte of data, so
/// that each is collected in a buffer of its own. One for which no memory is left is read twice instead, in pieces.
pub const READ_BUFFERS: usize = 256 << 20;

/// Socket send buffer asked of the kernel, bytes (it may give less): lets the client read one piece
/// while the next is decrypted.
pub const SOCKET_BUFFER: usize = 1 << 20;

/// Bytes that one step of a request without data (writing zeros, discarding) covers;
/// between steps a stopping server can take over.
pub const STEP: usize = 16 << 20;

/// Stack of a connection's thread, bytes.
pub const STACK: usize = 256 << 10;

/// Longest time a connection polls its socket before it sleeps. Waking a sleeping thread costs 5 to
/// 70 µs, so longer polling could not win back what it costs.
pub const POLL: Duration = Duration::from_micros(100);

/// Time for which a TCP client may be silent before the kernel asks whether it is still there.
pub const KEEPALIVE: Duration = Duration::from_secs(60);

/// Time between these questions, and the number of them that may stay unanswered: the places of a machine that has
/// vanished are free after two minutes. Where it has not acknowledged data, the kernel repeats that for some 15 minutes
/// (`tcp_retries2`); one that comes back is known by its first answer.
pub const KEEPALIVE_AGAIN: (Duration, u32) = (Duration::from_secs(20), 3);

/// Events that a server remembers; older ones are forgotten.
pub const EVENTS: usize = 64;

/// Pause of the accepting thread when the process has no descriptor or memory left for a client.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections the kernel holds for a listening socket before they are accepted.
pub const BACKLOG: i32 = 64;

/// Limits of a server, for callers that want less than this module allows.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Clients served at the same time.
    pub clients: usize,
    /// Clients served at the same time from one address.
    pub clients_of_peer: usize,
    /// Connections in their handshake at the same time.
    pub newcomers: usize,
    /// Time for a handshake.
    pub handshake: Duration,
    /// Time after which a connection that has not answered the greeting is the first to yield its
    /// place.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: CLIENTS,
            clients_of_peer: CLIENTS_OF_PEER,
            newcomers: NEWCOMERS,
            handshake: HANDSHAKE,
            answer: ANSWER,
        }
    }
}
