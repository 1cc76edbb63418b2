//! Content that is made while it is sent: its pieces, and the chunks of HTTP/1.1.

use std::sync::Arc;

use bytes::Bytes;

use super::paced;
use crate::access::Pace;
use crate::address::Address;
use crate::blocking;
use crate::http::{Body, Piece, PieceSource};
use crate::limits::Limits;
use crate::transport::{PoolHandle, Transport, TransportError};

/// A source, and the pieces that it has made; `None` at its end.
pub(super) type Made = (Box<dyn PieceSource>, Option<Vec<Piece>>);

/// Makes the next pieces on a blocking thread.
pub(super) async fn next_pieces(
    mut source: Box<dyn PieceSource>,
    address: Arc<Address>,
) -> Result<Made, TransportError> {
    let made = blocking::run(address, move || {
        let pieces = source.next();
        pieces.map(|pieces| (source, pieces))
    });
    made.await.flatten().map_err(TransportError::File)
}

/// Sends all that a source makes, in chunks if the client knows them. Adds the bytes of content to `sent`, whole pieces
/// of the source at a time.
pub(super) async fn send(
    mut source: Box<dyn PieceSource>,
    is_chunked: bool,
    transport: &mut Transport,
    pool: PoolHandle<'_>,
    limits: &Limits,
    pace: Option<&Pace>,
    sent: &mut u64,
) -> Result<(), TransportError> {
    let mut body = Body::default();
    while let (made_by, Some(pieces)) = next_pieces(source, Arc::clone(pool.address)).await? {
        source = made_by;
        let length: u64 = pieces.iter().map(Piece::length).sum();
        // A chunk without content would be the end.
        if length == 0 {
            continue;
        }
        if is_chunked {
            body.push(Piece::Bytes(format!("{length:x}\r\n").into()));
        }
        for piece in pieces {
            body.push(piece);
        }
        if is_chunked {
            body.push(Piece::Bytes(Bytes::from_static(b"\r\n")));
        }
        paced::send(transport, &[], &mut body, pool, limits, pace).await?;
        *sent += length;
    }
    if is_chunked {
        body.push(Piece::Bytes(Bytes::from_static(b"0\r\n\r\n")));
        transport.send(&[], &mut body, pool, limits).await?;
    }
    Ok(())
}
