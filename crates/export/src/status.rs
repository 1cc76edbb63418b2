//! State of a server, as it reports it: clients, traffic, and the last things that went wrong.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use crate::limits;
use scrim_nbd::tls::{Protection, TlsError};

/// A server at one moment. `E` is a breach of its protocol.
#[derive(Debug, Clone)]
pub struct Status<E> {
    /// Clients connected now, the longest first.
    pub clients: Vec<ClientStatus>,
    /// Connections accepted so far.
    pub accepted: u64,
    /// Clients refused because [`limits::CLIENTS`] were being served, or [`limits::CLIENTS_OF_PEER`] of their address.
    pub turned_away: u64,
    /// Connections that yielded to others in their handshake, because there were [`limits::NEWCOMERS`].
    pub displaced: u64,
    /// Connections closed because the client broke the protocol.
    pub protocol_errors: u64,
    /// Traffic of all clients so far.
    pub traffic: Traffic,
    /// The last [`limits::EVENTS`] events, oldest first.
    pub events: Vec<Event<E>>,
}

/// A connected client, as the server counts it.
#[derive(Debug, Clone)]
pub struct ClientStatus {
    /// Number of the connection, counted from 1.
    pub id: u64,
    /// Address or user that it comes from.
    pub peer: Peer,
    /// The export it uses; `None` during the handshake.
    pub export: Option<String>,
    /// Protection of its connection; `None` without TLS, and before TLS is agreed.
    pub tls: Option<Protection>,
    /// Time at which it connected.
    pub since: SystemTime,
    /// Its traffic so far.
    pub traffic: Traffic,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, on the unix socket, of this user.
    Unix(u32),
    /// TCP: without TLS a process of this machine.
    Tcp(SocketAddr),
}

/// The party for which connections count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    User(u32),
    Network(IpAddr),
}

impl Peer {
    pub(crate) fn origin(self) -> Origin {
        match self {
            Self::Unix(user) => Origin::User(user),
            Self::Tcp(address) => Origin::Network(match address.ip().to_canonical() {
                // A client that has one IPv6 address usually has the 2^64 of its network.
                IpAddr::V6(address) => IpAddr::V6((u128::from(address) & (u128::MAX << 64)).into()),
                address @ IpAddr::V4(_) => address,
            }),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(_) => write!(f, "unix socket"),
            Self::Tcp(address) => write!(f, "tcp {address}"),
        }
    }
}

/// Requests executed, and what they cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    pub read: Count,
    pub write: Count,
    pub flush: Count,
    /// Discards, which need not be carried out.
    pub trim: Count,
    /// Reads whose data is not sent: they fill caches.
    pub cache: Count,
    pub write_zeroes: Count,
    /// Queries of the extents that are allocated.
    pub block_status: Count,
    /// Requests refused unexecuted: out of range, read-only, unknown.
    pub refused: u64,
    /// Requests that the volume failed.
    pub failed: u64,
    /// System calls that received something.
    pub receives: u64,
    /// System calls that sent something.
    pub sends: u64,
    /// Times a connection's thread went to sleep for the next request.
    pub sleeps: u64,
    /// Bytes that connections moved from one place in memory to another: to and from a queue's slots, out
    /// of TLS records, or to the front of a full buffer. What is turned where it lies is not moved.
    pub copied: u64,
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    pub requests: u64,
    /// Bytes that they covered.
    pub bytes: u64,
}

impl Traffic {
    /// Executed requests of every kind.
    #[must_use]
    pub fn requests(&self) -> u64 {
        [
            self.read,
            self.write,
            self.flush,
            self.trim,
            self.cache,
            self.write_zeroes,
            self.block_status,
        ]
        .iter()
        .map(|count| count.requests)
        .sum()
    }
}

/// An incident, with its time and its connection.
#[derive(Debug, Clone)]
pub struct Event<E> {
    /// Time of the incident.
    pub time: SystemTime,
    /// The connection it happened on.
    pub client: Option<u64>,
    /// Kind of incident, with its details.
    pub incident: Incident<E>,
}

/// Something that went wrong.
#[derive(Debug, Clone)]
pub enum Incident<E> {
    /// A client broke the protocol and was disconnected.
    Protocol(E),
    /// TLS with a client came to an end: its certificate or records were refused, or it refused ours.
    Tls(TlsError),
    /// A client did not finish its handshake within [`limits::HANDSHAKE`] and was disconnected.
    HandshakeTimeout,
    /// A client was refused because [`limits::CLIENTS`] were being served.
    TooManyClients,
    /// A client was refused because [`limits::CLIENTS_OF_PEER`] of its address were being served.
    TooManyOfPeer,
    /// A connection yielded to another one in its handshake, because there were [`limits::NEWCOMERS`].
    Displaced,
    /// The volume failed a request; the client was told.
    RequestFailed {
        /// The volume's error text.
        reason: String,
    },
    /// A connection has no queue of its own: it is served by plain calls.
    NoQueue {
        /// The system's own words.
        reason: String,
    },
    /// A client could not be accepted or served.
    Accept {
        /// The system's own words.
        reason: String,
    },
    /// A connection's thread panicked: a fault in this program. Other clients are not affected.
    Panicked,
}

impl<E: fmt::Display> fmt::Display for Incident<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(error) => write!(f, "disconnected: {error}"),
            Self::Tls(error) => write!(f, "disconnected: TLS: {error}"),
            Self::HandshakeTimeout => write!(
                f,
                "disconnected: the handshake took longer than {} s",
                limits::HANDSHAKE.as_secs()
            ),
            Self::TooManyClients => write!(
                f,
                "turned away: {} clients are served already; disconnect one",
                limits::CLIENTS
            ),
            Self::TooManyOfPeer => write!(
                f,
                "turned away: {} clients of this address are served already; disconnect one",
                limits::CLIENTS_OF_PEER
            ),
            Self::Displaced => write!(
                f,
                "disconnected: it yielded to another connection, since {} had not finished their handshake",
                limits::NEWCOMERS
            ),
            Self::RequestFailed { reason } => write!(f, "request failed: {reason}"),
            Self::NoQueue { reason } => write!(f, "served by plain calls: {reason}"),
            Self::Accept { reason } => write!(f, "a client could not be served: {reason}"),
            Self::Panicked => write!(f, "disconnected: internal error, please report it"),
        }
    }
}
