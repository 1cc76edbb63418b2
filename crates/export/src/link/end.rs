//! Reasons for which a connection ends.

use scrim_nbd::tls::TlsError;

/// Reason for which a connection, or the way of serving it, ends.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    /// The client disconnected, or its socket failed.
    Gone,
    /// The server stops, and the client has no request in flight.
    Stopping,
    /// The connection goes on, perhaps without a queue or with another one: the volume has another table, or holds a
    /// request, which must wait without a queue.
    OtherTable,
    /// The handshake took too long.
    Deadline,
    /// The client broke the protocol, which its incident says.
    Breach,
    /// TLS came to an end: the client's certificate or records were refused, or it refused ours.
    Tls(TlsError),
}

impl From<TlsError> for End {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}
