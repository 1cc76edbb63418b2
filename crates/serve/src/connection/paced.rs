//! Sends content of HTTP/1, at the rate that its client may have.

use std::time::Duration;

use tokio::time::sleep;

use crate::access::Pace;
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
        let mut grant = pace.grant(body.length());
        while let Some(wait) = grant.wait() {
            sleep(wait.min(PAUSE_MAX)).await;
            transport.check_client()?;
            body.mark_begun();
        }
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
