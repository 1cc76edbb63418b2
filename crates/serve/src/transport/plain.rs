//! HTTP without TLS: the kernel sends files with `sendfile`.

use tokio::net::TcpStream;

use super::batch::RECORDS;
use super::error::TransportError;
use super::fill::{fill_bare, next_records};
use super::pool::PoolHandle;
use super::send_file::{SENDFILE_MAX, send_file};
use super::socket::{MEMORY_MAX, receive, send_all, send_now};
use crate::http::{Body, Piece};
use crate::limits::Limits;

/// A connection without TLS.
pub(crate) struct Plain {
    socket: TcpStream,
    /// Batch size, in records, for a file in a volume, which the kernel cannot send itself.
    records: usize,
}

impl Plain {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            records: RECORDS,
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Appends received data to `inbox`; returns 0 at the end of the client's data.
    pub(super) async fn receive(&mut self, inbox: &mut Vec<u8>) -> Result<usize, TransportError> {
        receive(&mut self.socket, inbox)
            .await
            .map_err(TransportError::Client)
    }

    /// Sends the head and the body of an answer.
    pub(super) async fn send(
        &mut self,
        head: &[u8],
        body: &mut Body,
        pool: PoolHandle<'_>,
        limits: &Limits,
    ) -> Result<(), TransportError> {
        send_all(&self.socket, head, body.length() > 0, limits).await?;
        while let Some(piece) = body.front() {
            let sent = match piece {
                Piece::Bytes(bytes) => {
                    let now = &bytes[..bytes.len().min(MEMORY_MAX)];
                    let more = body.length() > now.len() as u64;
                    send_all(&self.socket, now, more, limits).await?;
                    now.len() as u64
                }
                Piece::File(file, range) if file.descriptor().is_some() => {
                    let count = piece.length().min(SENDFILE_MAX);
                    send_file(&self.socket, file, range.start, count, limits).await?
                }
                Piece::File(..) => {
                    self.send_read(body, pool, limits).await?;
                    0
                }
            };
            body.advance(sent);
            if body.length() > 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Reads part of a file in a volume, and sends it.
    async fn send_read(
        &mut self,
        body: &mut Body,
        pool: PoolHandle<'_>,
        limits: &Limits,
    ) -> Result<(), TransportError> {
        let (mut batch, lease) = fill_bare(&mut &[][..], body, pool, self.records).await?;
        let more = body.length() > 0;
        let bytes = batch.bare()?;
        let sent = send_now(&self.socket, bytes)?;
        self.records = next_records(self.records, sent == bytes.len());
        let all = send_all(&self.socket, &bytes[sent..], more, limits).await;
        lease.give_back(batch.into_buffer());
        all
    }
}
