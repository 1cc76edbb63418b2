//! HTTP/1.1 over kernel TLS: the kernel reads files, encrypts them and sends them.

use std::io;
use std::os::fd::AsFd;

use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::batch::RECORDS;
use super::error::TransportError;
use super::fill::{fill_bare, next_records};
use super::pool::PoolHandle;
use super::send_file::{SENDFILE_MAX, send_file};
use super::socket::{MEMORY_MAX, when_writable};
use crate::files::OpenFile;
use crate::http::{Body, Piece};
use crate::limits::Limits;
use crate::tls::TlsError;
use crate::tls::kernel::{KernelSession, Received, SendError};
use crate::tls::record::PAYLOAD_MAX;

/// Events after which there may be something to receive. A record that the kernel refuses by its header is reported as an
/// error of the socket only.
const RECEIVE_EVENTS: Interest = Interest::READABLE.add(Interest::ERROR);

/// Bytes of buffer for one receive: most requests are shorter.
const RECEIVE_BYTES: usize = 4 << 10;

/// A connection whose TLS records the kernel makes.
pub(crate) struct Kernel {
    socket: TcpStream,
    session: KernelSession,
    /// True if there may be input for which the event loop gets no event: records that arrived before the kernel had the
    /// key.
    may_have_input: bool,
    /// Payload length in bytes of the record that is open (`MSG_MORE`).
    open: u64,
    /// Batch size, in records, for a file in a volume, which the kernel cannot send itself.
    records: usize,
}

impl Kernel {
    pub(crate) fn new(socket: TcpStream, session: KernelSession) -> Self {
        Self {
            socket,
            session,
            may_have_input: true,
            open: 0,
            records: RECORDS,
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns whether the connection can continue after an answer of this length.
    pub(super) fn can_continue_after(&self, length: u64) -> bool {
        self.session.can_continue_after(length)
    }

    /// Appends received data to `inbox`; returns 0 at the end of the client's data.
    pub(super) async fn receive(
        &mut self,
        inbox: &mut Vec<u8>,
        limits: &Limits,
    ) -> Result<usize, TransportError> {
        let had = inbox.len();
        loop {
            self.send_control(limits).await?;
            match self
                .receive_record(inbox)
                .await
                .map_err(TransportError::Client)?
            {
                Ok(Received::Data) => return Ok(inbox.len() - had),
                Ok(Received::Nothing) => {}
                Ok(Received::Closed) => return Ok(0),
                Err(error) => return Err(self.fail(error, limits).await),
            }
        }
    }

    async fn receive_record(
        &mut self,
        inbox: &mut Vec<u8>,
    ) -> io::Result<Result<Received, TlsError>> {
        loop {
            let may_have_input =
                std::mem::replace(&mut self.may_have_input, false) || self.session.has_failed();
            let (socket, session) = (&self.socket, &mut self.session);
            let mut receive = || {
                inbox.reserve(RECEIVE_BYTES);
                let received = session.receive(socket.as_fd(), inbox);
                if is_would_block(&received) && inbox.is_empty() {
                    // An idle connection holds no buffer.
                    *inbox = Vec::new();
                }
                received
            };
            let at_once = may_have_input.then(&mut receive);
            let received = match at_once.filter(|received| !is_would_block(received)) {
                Some(received) => received,
                None => socket.async_io(RECEIVE_EVENTS, receive).await,
            };
            match received {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    self.may_have_input = true;
                }
                Err(error) => return Err(error),
                Ok(received) => {
                    // After a KeyUpdate, records that arrived before it was read can be decrypted.
                    let is_next_key = matches!(received, Ok(Received::Nothing));
                    self.may_have_input = is_next_key || self.session.holds_records();
                    return Ok(received);
                }
            }
        }
    }

    /// Sends the alerts and handshake messages that are due. If the future is dropped, the rest is sent first the next
    /// time.
    async fn send_control(&mut self, limits: &Limits) -> Result<(), TransportError> {
        match self.try_control(limits).await? {
            Ok(()) => Ok(()),
            Err(error) => Err(self.fail(error, limits).await),
        }
    }

    async fn try_control(
        &mut self,
        limits: &Limits,
    ) -> Result<Result<(), TlsError>, TransportError> {
        while self.session.control_is_due() {
            let (socket, session) = (&self.socket, &mut self.session);
            let control = || match session.control(socket.as_fd()) {
                Ok(()) => Ok(Ok(())),
                Err(SendError::Tls(error)) => Ok(Err(error)),
                Err(SendError::Socket(error)) => Err(error),
            };
            let done = match when_writable(socket, limits.stall, control).await {
                Err(broken) if self.defer_fault(&broken) => continue,
                done => done?,
            };
            // A control record closes the open record.
            self.open = 0;
            if done.is_err() {
                return Ok(done);
            }
        }
        Ok(Ok(()))
    }

    /// Returns whether an error is only a fault in the client's records, which the next receive reports.
    fn defer_fault(&mut self, broken: &TransportError) -> bool {
        let TransportError::Client(error) = broken else {
            return false;
        };
        self.session.defer_fault(self.socket.as_fd(), Some(error))
    }

    /// Sends the alert for an error that ends the connection.
    async fn fail(&mut self, error: TlsError, limits: &Limits) -> TransportError {
        self.session.fail(&error);
        match self.try_control(limits).await {
            Ok(_) => TransportError::Tls(error),
            Err(broken) => broken,
        }
    }

    /// Sends the head and the body of an answer.
    pub(super) async fn send(
        &mut self,
        mut head: &[u8],
        body: &mut Body,
        pool: PoolHandle<'_>,
        limits: &Limits,
    ) -> Result<(), TransportError> {
        while !head.is_empty() || body.length() > 0 {
            match body.front() {
                Some(Piece::File(file, _)) if file.descriptor().is_none() => {
                    self.send_read(&mut head, body, pool, limits).await?;
                }
                Some(Piece::File(file, range)) if head.is_empty() => {
                    let count = range.end - range.start;
                    let sent = self.send_file(file, range.start, count, limits).await?;
                    body.advance(sent);
                }
                Some(Piece::Bytes(bytes)) if head.is_empty() => {
                    let now = &bytes[..bytes.len().min(MEMORY_MAX)];
                    let sent = now.len() as u64;
                    let more = body.length() > sent;
                    self.send_bytes(now, more, limits).await?;
                    body.advance(sent);
                }
                None if head.is_empty() => break,
                _ => {
                    let first = std::mem::take(&mut head);
                    self.send_bytes(first, body.length() > 0, limits).await?;
                    continue;
                }
            }
            if body.length() > 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Makes the kernel send a part of a file; returns the number of bytes, which may be zero.
    async fn send_file(
        &mut self,
        file: &OpenFile,
        offset: u64,
        count: u64,
        limits: &Limits,
    ) -> Result<u64, TransportError> {
        self.send_control(limits).await?;
        self.session.check_open()?;
        // At most up to the end of a record.
        let most = (SENDFILE_MAX - self.open).min(self.session.send_capacity());
        let count = count.min(most);
        let sent = match send_file(&self.socket, file, offset, count, limits).await {
            Err(broken) if self.defer_fault(&broken) => return Ok(0),
            sent => sent?,
        };
        self.session.sent(sent);
        self.open = match sent {
            // The kernel closes the record at the end of the requested range.
            sent if sent == count => 0,
            sent => (self.open + sent) % PAYLOAD_MAX as u64,
        };
        Ok(sent)
    }

    /// Reads part of a file in a volume, and sends it.
    async fn send_read(
        &mut self,
        head: &mut &[u8],
        body: &mut Body,
        pool: PoolHandle<'_>,
        limits: &Limits,
    ) -> Result<(), TransportError> {
        let (mut batch, lease) = fill_bare(head, body, pool, self.records).await?;
        let more = !head.is_empty() || body.length() > 0;
        let sent = self.send_bytes(batch.bare()?, more, limits).await;
        lease.give_back(batch.into_buffer());
        self.records = next_records(self.records, sent?);
        Ok(())
    }

    /// Sends all bytes; returns whether they fitted into the send queue at once. With `more`, the last record stays open.
    async fn send_bytes(
        &mut self,
        mut bytes: &[u8],
        more: bool,
        limits: &Limits,
    ) -> Result<bool, TransportError> {
        let mut at_once = true;
        while !bytes.is_empty() {
            self.send_control(limits).await?;
            self.session.check_open()?;
            let capacity = usize::try_from(self.session.send_capacity()).unwrap_or(usize::MAX);
            let now = &bytes[..bytes.len().min(capacity)];
            let mut flags = SendFlags::NOSIGNAL;
            flags.set(SendFlags::MORE, more || now.len() < bytes.len());
            let send = || Ok(rustix::net::send(&self.socket, now, flags)?);
            let sent = match when_writable(&self.socket, limits.stall, send).await {
                Err(broken) if self.defer_fault(&broken) => continue,
                sent => sent?,
            };
            self.session.sent(sent as u64);
            self.open = (self.open + sent as u64) % PAYLOAD_MAX as u64;
            at_once &= sent == now.len();
            bytes = &bytes[sent..];
        }
        if !more {
            self.open = 0;
        }
        Ok(at_once)
    }

    /// Sends close_notify, without which a client cannot tell the end from a truncation.
    pub(super) async fn finish(&mut self, limits: &Limits) -> Result<(), TransportError> {
        self.session.close();
        self.send_control(limits).await
    }
}

fn is_would_block<T>(done: &io::Result<T>) -> bool {
    done.as_ref()
        .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
