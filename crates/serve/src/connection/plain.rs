//! HTTP without TLS: the kernel sends files itself.

use std::io;

use rustix::io::Errno;
use tokio::net::TcpStream;

use super::batch::RECORDS;
use super::broken::Broken;
use super::fill::{fill_bare, next_records};
use super::pool::Pool;
use super::socket::{receive, send_all, send_now, when_writable};
use crate::http::{Body, Piece};
use crate::limits::Limits;
use crate::site::OpenFile;

/// Most bytes of a file that the kernel is asked to send at a time: the thread's other connections wait for
/// it, and if the file has to come from a disk, for that too.
const AT_ONCE: u64 = 512 << 10;

/// A connection without TLS.
pub(super) struct Plain {
    socket: TcpStream,
    /// Records' worth of what has no file of the kernel's that is read at a time.
    records: usize,
}

impl Plain {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            records: RECORDS,
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Adds what has come to `inbox`; 0 bytes once the client sends no more.
    pub(super) async fn receive(&mut self, inbox: &mut Vec<u8>) -> Result<usize, Broken> {
        receive(&mut self.socket, inbox)
            .await
            .map_err(Broken::Client)
    }

    /// Sends a head and what belongs to it.
    pub(super) async fn send(
        &mut self,
        head: &[u8],
        body: &mut Body,
        pool: &Pool,
        limits: &Limits,
    ) -> Result<(), Broken> {
        send_all(&self.socket, head, body.length() > 0, limits).await?;
        while let Some(piece) = body.front() {
            let sent = match piece {
                Piece::Bytes(bytes) => {
                    let more = body.length() > piece.length();
                    send_all(&self.socket, bytes, more, limits).await?;
                    piece.length()
                }
                Piece::File(file, range) if file.descriptor().is_some() => {
                    let count = piece.length().min(AT_ONCE);
                    self.send_file(file, range.start, count, limits).await?
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

    /// Reads what has no file of the kernel's, and sends that.
    async fn send_read(
        &mut self,
        body: &mut Body,
        pool: &Pool,
        limits: &Limits,
    ) -> Result<(), Broken> {
        let (mut batch, loan) = fill_bare(&mut &[][..], body, pool, self.records).await?;
        let more = body.length() > 0;
        let bytes = batch.bare();
        let sent = send_now(&self.socket, bytes)?;
        self.records = next_records(self.records, sent == bytes.len());
        let all = send_all(&self.socket, &bytes[sent..], more, limits).await;
        loan.give_back(batch.into_room());
        all
    }

    async fn send_file(
        &self,
        file: &OpenFile,
        offset: u64,
        count: u64,
        limits: &Limits,
    ) -> Result<u64, Broken> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let descriptor = file
            .descriptor()
            .ok_or_else(|| Broken::File(io::ErrorKind::Unsupported.into()))?;
        let mut changed = Ok(());
        let send = || {
            // Each time: it may have waited for long.
            changed = unchanged(file);
            if changed.is_err() {
                return Ok(0);
            }
            let mut offset = offset;
            match rustix::fs::sendfile(&self.socket, descriptor, Some(&mut offset), count) {
                Err(error @ (Errno::IO | Errno::NODATA | Errno::STALE)) => {
                    changed = Err(Broken::File(error.into()));
                    Ok(0)
                }
                sent => Ok(sent?),
            }
        };
        let sent = when_writable(&self.socket, limits.stall, send).await?;
        changed?;
        match sent {
            0 => Err(Broken::Changed),
            sent => Ok(sent as u64),
        }
    }
}

/// Refuses a file that is not what it was when it was opened.
pub(super) fn unchanged(file: &OpenFile) -> Result<(), Broken> {
    match file.has_changed() {
        Ok(false) => Ok(()),
        Ok(true) => Err(Broken::Changed),
        Err(error) => Err(Broken::File(error)),
    }
}
