//! State of a server, as it reports it: clients, traffic, and the last things that went wrong.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use super::limits;
use scrim_nbd::tls::{Protection, TlsError};

/// A server at one moment.
#[derive(Debug, Clone)]
pub struct Status {
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
    pub events: Vec<Event>,
}

/// One connected client.
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
pub(super) enum Origin {
    User(u32),
    Network(IpAddr),
}

impl Peer {
    pub(super) fn origin(self) -> Origin {
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
    /// `NBD_CMD_READ`
    pub read: Count,
    /// `NBD_CMD_WRITE`
    pub write: Count,
    /// `NBD_CMD_FLUSH`
    pub flush: Count,
    /// `NBD_CMD_TRIM`
    pub trim: Count,
    /// `NBD_CMD_CACHE`
    pub cache: Count,
    /// `NBD_CMD_WRITE_ZEROES`
    pub write_zeroes: Count,
    /// `NBD_CMD_BLOCK_STATUS`
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
    /// Number of requests.
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
pub struct Event {
    /// Time of the incident.
    pub time: SystemTime,
    /// The connection it happened on.
    pub client: Option<u64>,
    /// Kind of incident, with its details.
    pub incident: Incident,
}

/// Something that went wrong.
#[derive(Debug, Clone)]
pub enum Incident {
    /// A client broke the protocol and was disconnected.
    Protocol(ProtocolError),
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

impl fmt::Display for Incident {
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
                "disconnected: it gave way to another connection, since {} had not finished their handshake",
                limits::NEWCOMERS
            ),
            Self::RequestFailed { reason } => write!(f, "request failed: {reason}"),
            Self::NoQueue { reason } => write!(f, "served by plain calls: {reason}"),
            Self::Accept { reason } => write!(f, "a client could not be served: {reason}"),
            Self::Panicked => write!(f, "disconnected: internal error, please report it"),
        }
    }
}

/// A client's breach of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolError {
    /// Client flags that this server did not offer.
    ClientFlags(u32),
    /// Another magic number than `IHAVEOPT` before an option.
    OptionMagic(u64),
    /// More option data announced than [`limits::OPTION_SKIPPED`].
    OptionLength(u32),
    /// More options sent than [`limits::OPTIONS`].
    TooManyOptions,
    /// `NBD_OPT_EXPORT_NAME` for an export that does not exist; this option has no error reply.
    UnknownExport,
    /// Another magic number than `NBD_REQUEST_MAGIC` before a request.
    RequestMagic(u32),
    /// `NBD_OPT_EXPORT_NAME` without TLS, where TLS is required; this option has no error reply.
    Plaintext,
    /// Bytes behind `NBD_OPT_STARTTLS`, sent before its answer: they would count as sent under TLS.
    BeforeTls,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientFlags(flags) => write!(f, "client flags {flags:#x} were not offered"),
            Self::OptionMagic(magic) => write!(f, "{magic:#018x} is not the magic of an option"),
            Self::OptionLength(len) => write!(f, "an option of {len} bytes is too long"),
            Self::TooManyOptions => write!(f, "more than {} options", limits::OPTIONS),
            Self::UnknownExport => write!(f, "the export it named does not exist"),
            Self::RequestMagic(magic) => write!(f, "{magic:#010x} is not the magic of a request"),
            Self::Plaintext => write!(f, "it asked for an export without TLS; connect by nbds://"),
            Self::BeforeTls => write!(
                f,
                "it sent more before TLS had begun; somebody may have put it there"
            ),
        }
    }
}

impl std::error::Error for ProtocolError {}
