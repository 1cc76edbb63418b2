//! A session with its socket, as a stream of bytes.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::accept::Accepted;
use super::error::TlsError;
use super::facts::Facts;
use super::record::{PAYLOAD_MAX, RECORD_MAX};
use super::session::{Opened, Session};

/// Minimum bytes of buffer for one receive: a full record, or many short ones.
const RECEIVE: usize = RECORD_MAX;

/// Number of full records that writes collect before they are sent.
const RECORDS: usize = 4;

/// Stream of application data over TLS.
///
/// Writes are collected in full records, which are sent by [`poll_flush`](AsyncWrite::poll_flush) or when there are four.
/// Buffers exist only while they hold something, so that an idle connection uses no more memory than its session.
///
/// The end of the TCP stream is the end of the data, with or without close_notify, since HTTP delimits its messages
/// itself. In the middle of a record it is an error, `UnexpectedEof`.
pub struct TlsStream {
    socket: TcpStream,
    session: Session,
    /// Received bytes; those from `start` on are not decrypted yet.
    incoming: Vec<u8>,
    start: usize,
    /// Range in `incoming` of decrypted data that was not read yet.
    plain: Range<usize>,
    /// Encrypted records, of which the first `sent` bytes are sent, followed by the plaintext of the record that is being
    /// collected.
    outgoing: Vec<u8>,
    sent: usize,
    /// Offset in `outgoing` of the record that is being collected; `outgoing` then ends with its payload.
    open_record: Option<usize>,
    /// True once nothing more can be written.
    ended: bool,
    /// Error that every further read returns.
    failure: Option<TlsError>,
}

impl TlsStream {
    /// Makes the stream of a connection after its handshake.
    #[must_use]
    pub fn new(socket: TcpStream, accepted: Accepted) -> Self {
        Self {
            socket,
            session: accepted.session,
            incoming: accepted.incoming,
            start: 0,
            plain: 0..0,
            outgoing: Vec::new(),
            sent: 0,
            open_record: None,
            ended: false,
            failure: None,
        }
    }

    /// Results of the handshake.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        self.session.facts()
    }

    /// The socket, for its addresses and options.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Decrypts records until there is data, or more has to be received.
    fn open(&mut self) -> Result<Open, TlsError> {
        while self.plain.is_empty() {
            match self.session.open(&mut self.incoming[self.start..])? {
                Opened::Incomplete(whole) => return Ok(Open::Incomplete(whole)),
                Opened::Data { at, taken } => {
                    self.plain = self.start + at.start..self.start + at.end;
                    self.start += taken;
                }
                Opened::Nothing { taken } => self.start += taken,
                Opened::Closed => return Ok(Open::Closed),
            }
        }
        Ok(Open::Data)
    }

    /// Receives more bytes after the incomplete record.
    fn poll_receive(&mut self, cx: &mut Context<'_>, whole: usize) -> Poll<io::Result<usize>> {
        loop {
            if self.socket.poll_read_ready(cx)?.is_pending() {
                if self.start == self.incoming.len() {
                    (self.incoming, self.start) = (Vec::new(), 0);
                }
                self.release();
                return Poll::Pending;
            }
            self.incoming.drain(..self.start);
            self.start = 0;
            self.incoming
                .reserve(RECEIVE.max(whole) - self.incoming.len());
            match self.socket.try_read_buf(&mut self.incoming) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return Poll::Ready(received),
            }
        }
    }

    /// Sends the alert for an error, if the socket accepts it at once.
    fn fail(&mut self, error: &TlsError) -> io::Error {
        // Plaintext must not be sent.
        if let Some(start) = self.open_record.take() {
            self.outgoing.truncate(start);
        }
        self.session.fail(error, &mut self.outgoing);
        self.ended = true;
        self.failure = Some(error.clone());
        if let Ok(len) = self.socket.try_write(&self.outgoing[self.sent..]) {
            self.sent += len;
        }
        error.clone().into()
    }

    /// Appends data to the open record, or begins one; returns the number of bytes. A full record is encrypted.
    fn collect(&mut self, data: &[u8]) -> Result<usize, TlsError> {
        let before = self.session.layout().before;
        let start = *self.open_record.get_or_insert_with(|| {
            let start = self.outgoing.len();
            self.outgoing.resize(start + before, 0);
            start
        });
        let capacity = PAYLOAD_MAX - (self.outgoing.len() - start - before);
        let len = capacity.min(data.len());
        self.outgoing.extend_from_slice(&data[..len]);
        if len == capacity {
            self.seal()?;
        }
        Ok(len)
    }

    /// Encrypts the open record, which is marked as plaintext until that has succeeded.
    fn seal(&mut self) -> Result<(), TlsError> {
        let Some(mut start) = self.open_record else {
            return Ok(());
        };
        if self.session.control_is_due() {
            let mut control = Vec::new();
            self.session.control(&mut control)?;
            let len = control.len();
            self.outgoing.splice(start..start, control);
            start += len;
            self.open_record = Some(start);
        }
        let layout = self.session.layout();
        let payload = self.outgoing.len() - start - layout.before;
        self.outgoing.resize(start + layout.record(payload), 0);
        self.session.seal(&mut self.outgoing[start..], payload)?;
        self.open_record = None;
        Ok(())
    }

    /// Length of `outgoing` in bytes from which on a write sends first.
    fn send_mark(&self) -> usize {
        RECORDS * self.session.layout().record(PAYLOAD_MAX)
    }

    /// Sends the encrypted records.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let end = self.open_record.unwrap_or(self.outgoing.len());
        while self.sent < end {
            let sealed = &self.outgoing[self.sent..end];
            let len = ready!(Pin::new(&mut self.socket).poll_write(cx, sealed))?;
            if len == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += len;
        }
        match &mut self.open_record {
            None => self.outgoing.clear(),
            Some(start) => {
                self.outgoing.drain(..end);
                *start = 0;
            }
        }
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Frees the send buffer if it is empty.
    fn release(&mut self) {
        if self.outgoing.is_empty() {
            self.outgoing = Vec::new();
        }
    }
}

enum Open {
    /// There is data to be read.
    Data,
    /// Part of a record; the record has this number of bytes.
    Incomplete(usize),
    Closed,
}

impl AsyncRead for TlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(failure) = &this.failure {
            return Poll::Ready(Err(failure.clone().into()));
        }
        let begin = into.filled().len();
        loop {
            let open = match this.open() {
                Err(error) => {
                    let failed = this.fail(&error);
                    // Data before the error are returned first, and the error by the next read.
                    return Poll::Ready(match into.filled().len() > begin {
                        true => Ok(()),
                        false => Err(failed),
                    });
                }
                Ok(open) => open,
            };
            match open {
                Open::Data => {
                    let len = this.plain.len().min(into.remaining());
                    into.put_slice(&this.incoming[this.plain.start..this.plain.start + len]);
                    this.plain.start += len;
                    if into.remaining() == 0 {
                        return Poll::Ready(Ok(()));
                    }
                }
                _ if into.filled().len() > begin => return Poll::Ready(Ok(())),
                Open::Closed => return Poll::Ready(Ok(())),
                Open::Incomplete(whole) => match ready!(this.poll_receive(cx, whole))? {
                    0 if this.incoming.is_empty() => return Poll::Ready(Ok(())),
                    0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                    _ => {}
                },
            }
        }
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(data)])
    }

    /// Accepts as much as fits into the records that are sent together.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let mark = this.send_mark();
        if this.outgoing.len() >= mark {
            ready!(this.poll_send(cx))?;
        }
        let wanted: usize = data.iter().map(|part| part.len()).sum();
        let capacity = wanted.saturating_add(RECORD_MAX).min(mark);
        this.outgoing
            .reserve(capacity.saturating_sub(this.outgoing.len()));
        let mut taken = 0;
        for mut part in data.iter().map(|slice| &slice[..]) {
            while !part.is_empty() && this.outgoing.len() < mark {
                match this.collect(part) {
                    Ok(len) => {
                        taken += len;
                        part = &part[len..];
                    }
                    Err(error) => return Poll::Ready(Err(this.fail(&error))),
                }
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Err(error) = this.seal() {
            return Poll::Ready(Err(this.fail(&error)));
        }
        this.poll_send(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Err(error) = this.seal() {
            return Poll::Ready(Err(this.fail(&error)));
        }
        this.ended = true;
        this.session.close(&mut this.outgoing);
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.socket).poll_shutdown(cx)
    }
}
