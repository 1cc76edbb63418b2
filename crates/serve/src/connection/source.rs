//! Content that is made while it is sent: its pieces, and the chunks of HTTP/1.1.

use std::sync::Arc;

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

/// Adds the name of the file that comes next in `body` to an error of that file. The request named all that its source
/// makes.
pub(super) fn with_name(
    error: TransportError,
    source: &dyn PieceSource,
    body: &Body,
) -> TransportError {
    let name = match body.front() {
        Some(Piece::File(file, _)) if error.is_of_file() => source.name_of(file),
        _ => None,
    };
    match name {
        Some(name) => TransportError::Part {
            name,
            error: Box::new(error),
        },
        None => error,
    }
}

/// Sends all that the source of a body makes, in chunks if the client knows them.
pub(super) async fn send(
    body: &mut Body,
    is_chunked: bool,
    transport: &mut Transport,
    pool: PoolHandle<'_>,
    limits: &Limits,
    pace: Option<&Pace>,
) -> Result<(), TransportError> {
    let Some(mut source) = body.take_source() else {
        return Ok(());
    };
    // The end of a chunk is sent with the beginning of the next one.
    let mut chunk_end = "";
    while let (made_by, Some(pieces)) = next_pieces(source, Arc::clone(pool.address)).await? {
        source = made_by;
        let length: u64 = pieces.iter().map(Piece::length).sum();
        // A chunk without content would be the end.
        if length == 0 {
            continue;
        }
        let head = match is_chunked {
            true => format!("{chunk_end}{length:x}\r\n"),
            false => String::new(),
        };
        chunk_end = "\r\n";
        for piece in pieces {
            body.push(piece);
        }
        let sent = paced::send(transport, head.as_bytes(), body, pool, limits, pace).await;
        sent.map_err(|error| with_name(error, &*source, body))?;
    }
    if is_chunked {
        let end = format!("{chunk_end}0\r\n\r\n");
        transport.send(end.as_bytes(), body, pool, limits).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::files::OpenFile;
    use crate::transport::{Plain, Pool};

    /// A source of text and then of a file, once.
    struct Once(Option<Vec<Piece>>);

    impl PieceSource for Once {
        fn next(&mut self) -> io::Result<Option<Vec<Piece>>> {
            Ok(self.0.take())
        }

        fn name_of(&self, _: &Arc<OpenFile>) -> Option<String> {
            Some("cut.txt".into())
        }
    }

    #[tokio::test]
    async fn bytes_before_a_file_that_was_cut_are_counted_and_the_file_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut client, (server, _)) = (client.unwrap(), server.unwrap());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [7; 100]).unwrap();
        let open = fs::File::open(file.path()).unwrap();
        let stat = rustix::fs::fstat(&open).unwrap();
        let open = Arc::new(OpenFile::new(open.into(), stat));
        file.as_file().set_len(10).unwrap();
        let pieces = vec![
            Piece::Bytes(Bytes::from_static(b"head of the file")),
            Piece::File(open, 0..100),
        ];
        let mut transport = Transport::Plain(Plain::new(server));
        let address = Arc::default();
        let pool = PoolHandle {
            pool: &Pool::new(1 << 20),
            address: &address,
        };
        let mut body = Body::streamed(Box::new(Once(Some(pieces))));
        let ended = send(
            &mut body,
            true,
            &mut transport,
            pool,
            &Limits::default(),
            None,
        )
        .await;
        let error = ended.unwrap_err().to_string();
        assert!(error.starts_with("cut.txt: the file changed"), "{error}");
        assert_eq!(body.sent(), 16);
        drop(transport);
        let mut received = String::new();
        tokio::time::timeout(
            Duration::from_secs(10),
            client.read_to_string(&mut received),
        )
        .await
        .unwrap()
        .unwrap();
        assert_eq!(received, "74\r\nhead of the file");
    }
}
