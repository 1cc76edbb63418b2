//! Reasons for which a connection ends.

use scrim_nbd::tls::TlsError;

/// Reason for which a connection, or the way of serving it, ends.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    /// The client said goodbye or went away, or its socket failed.
    Gone,
    /// The server stops, and the client has no request in flight.
    Stopping,
    /// The connection does not end: the volume has another table, for which another way of serving may be better, or
    /// holds a request, which waits without a queue.
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
