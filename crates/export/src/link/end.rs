//! Reasons for which a link ends.

use scrim_nbd::tls::TlsError;

/// Reason for which a connection, or serving it with one table, ends. A breach of the protocol is a reason that the
/// [protocol adds](crate::protocol::ClientEnd).
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    /// The client disconnected, or its socket failed.
    Gone,
    /// The server stops, and the client has no request in flight.
    Stopping,
    /// The connection goes on, without a queue or with a new one: the volume has another table, or is suspended, so
    /// that a request has to wait without a queue.
    OtherTable,
    /// The handshake took too long.
    Deadline,
    /// TLS came to an end: the client's certificate or records were refused, or it refused ours.
    Tls(TlsError),
}

impl From<TlsError> for End {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}
