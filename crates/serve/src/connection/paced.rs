//! Sends content of HTTP/1, at the rate that its client may have.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use crate::access::{Grant, Pace};
use crate::http::Body;
use crate::limits::Limits;
use crate::transport::{PoolHandle, Transport, TransportError};

/// Longest pause between two looks whether the client is still there.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Sends a head and content: at once if there is no pace, otherwise in pieces, each at the time at which the client may
/// have it. After an error, the piece that was not sent is in the body again.
pub(super) async fn send(
    transport: &mut Transport,
    mut head: &[u8],
    body: &mut Body,
    pool: PoolHandle<'_>,
    limits: &Limits,
    pace: Option<&Pace>,
) -> Result<(), TransportError> {
    let Some(pace) = pace.filter(|_| body.length() > 0) else {
        return transport.send(head, body, pool, limits).await;
    };
    loop {
        let mut grant = granted(transport, pace, body.length()).await?;
        // The wait may have been long.
        body.mark_begun();
        let mut piece = body.split_front(grant.left());
        let granted = piece.length();
        let sent = transport.send(head, &mut piece, pool, limits).await;
        grant.take(granted - piece.length());
        body.put_back(piece);
        sent?;
        head = &[];
        if body.length() == 0 {
            return Ok(());
        }
    }
}

/// Waits for the next bytes that the client may have; fails if the client leaves.
async fn granted(transport: &Transport, pace: &Pace, length: u64) -> Result<Grant, TransportError> {
    let mut grant = pin!(pace.grant(length));
    loop {
        match timeout(PAUSE_MAX, grant.as_mut()).await {
            Ok(grant) => return Ok(grant),
            Err(_) => transport.check_client()?,
        }
    }
}
