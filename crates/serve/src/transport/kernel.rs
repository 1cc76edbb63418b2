//! HTTP/1.1 over TLS that the kernel makes: it reads files, seals them and sends them.

use std::io;
use std::os::fd::AsFd;

use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::batch::RECORDS;
use super::error::TransportError;
use super::fill::{fill_bare, next_records};
use super::pool::PoolHandle;
use super::send_file::{AT_ONCE, send_file};
use super::socket::when_writable;
use crate::files::OpenFile;
use crate::http::{Body, Piece};
use crate::limits::Limits;
use crate::tls::TlsError;
use crate::tls::kernel::{Got, KernelSession, Unsent};
use crate::tls::record::PAYLOAD_MAX;

/// Events that tell that there may be something to receive. A record that the kernel refuses by its header is an error
/// of the socket's, and nothing that could be read.
const HEARD: Interest = Interest::READABLE.add(Interest::ERROR);

/// Room for what is received at a time: most requests are shorter.
const RECEIVE: usize = 4 << 10;

/// A connection whose records the kernel makes.
pub(crate) struct Kernel {
    socket: TcpStream,
    session: KernelSession,
    /// True if there may be something that the event loop does not know of: what came before the kernel had
    /// its key.
    unheard: bool,
    /// Bytes in the record that is waiting for more.
    open: u64,
    /// Records' worth of what has no file of the kernel's that is read at a time.
    records: usize,
}

impl Kernel {
    pub(crate) fn new(socket: TcpStream, session: KernelSession) -> Self {
        Self {
            socket,
            session,
            unheard: true,
            open: 0,
            records: RECORDS,
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns whether an answer of this length can be sent, and the connection go on.
    pub(super) fn lasts(&self, length: u64) -> bool {
        self.session.lasts(length)
    }

    /// Adds what has come to `inbox`; 0 bytes once the client sends no more.
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
                Ok(Got::Data) => return Ok(inbox.len() - had),
                Ok(Got::Nothing) => {}
                Ok(Got::Closed) => return Ok(0),
                Err(error) => return Err(self.fail(error, limits).await),
            }
        }
    }

    async fn receive_record(&mut self, inbox: &mut Vec<u8>) -> io::Result<Result<Got, TlsError>> {
        loop {
            let unheard = std::mem::replace(&mut self.unheard, false) || self.session.has_failed();
            let (socket, session) = (&self.socket, &mut self.session);
            let mut receive = || {
                inbox.reserve(RECEIVE);
                let received = session.receive(socket.as_fd(), inbox);
                if is_would_block(&received) && inbox.is_empty() {
                    // An idle connection has no buffer.
                    *inbox = Vec::new();
                }
                received
            };
            let at_once = unheard.then(&mut receive);
            let received = match at_once.filter(|received| !is_would_block(received)) {
                Some(received) => received,
                None => socket.async_io(HEARD, receive).await,
            };
            match received {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => self.unheard = true,
                Err(error) => return Err(error),
                Ok(received) => {
                    // With the client's next key, what came before it can be opened.
                    let is_next_key = matches!(received, Ok(Got::Nothing));
                    self.unheard = is_next_key || self.session.holds_records();
                    return Ok(received);
                }
            }
        }
    }

    /// Sends what TLS has to say of itself. It may be dropped in the middle of that: what is left goes before
    /// everything else, the next time.
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
                Err(Unsent::Tls(error)) => Ok(Err(error)),
                Err(Unsent::Socket(error)) => Err(error),
            };
            let done = match when_writable(socket, limits.stall, control).await {
                Err(broken) if self.puts_off(&broken) => continue,
                done => done?,
            };
            // It goes behind a record that was waiting for more.
            self.open = 0;
            if done.is_err() {
                return Ok(done);
            }
        }
        Ok(Ok(()))
    }

    /// Returns whether what came in between was only a fault of the client's, of which it is told in its turn.
    fn puts_off(&mut self, broken: &TransportError) -> bool {
        let TransportError::Client(error) = broken else {
            return false;
        };
        self.session.puts_off(self.socket.as_fd(), Some(error))
    }

    /// Sends the client the alert for an error that ends the connection.
    async fn fail(&mut self, error: TlsError, limits: &Limits) -> TransportError {
        self.session.fail(&error);
        match self.try_control(limits).await {
            Ok(_) => TransportError::Tls(error),
            Err(broken) => broken,
        }
    }

    /// Sends a head and what belongs to it.
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
                    let more = body.length() > bytes.len() as u64;
                    self.send_bytes(bytes, more, limits).await?;
                    let sent = bytes.len() as u64;
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

    /// Has the kernel send a part of a file; returns the number of bytes, which may be zero.
    async fn send_file(
        &mut self,
        file: &OpenFile,
        offset: u64,
        count: u64,
        limits: &Limits,
    ) -> Result<u64, TransportError> {
        self.send_control(limits).await?;
        self.session.check_open()?;
        // Up to the end of a record.
        let most = (AT_ONCE - self.open).min(self.session.room());
        let count = count.min(most);
        let sent = match send_file(&self.socket, file, offset, count, limits).await {
            Err(broken) if self.puts_off(&broken) => return Ok(0),
            sent => sent?,
        };
        self.session.sent(sent);
        self.open = match sent {
            // The kernel closes the record behind all that it was asked for.
            sent if sent == count => 0,
            sent => (self.open + sent) % PAYLOAD_MAX as u64,
        };
        Ok(sent)
    }

    /// Reads what has no file of the kernel's, and sends that.
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

    /// Sends all of it; returns whether there was room for it at once. With `more`, the last record waits for what
    /// follows.
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
            let room = usize::try_from(self.session.room()).unwrap_or(usize::MAX);
            let now = &bytes[..bytes.len().min(room)];
            let mut flags = SendFlags::NOSIGNAL;
            flags.set(SendFlags::MORE, more || now.len() < bytes.len());
            let send = || Ok(rustix::net::send(&self.socket, now, flags)?);
            let sent = match when_writable(&self.socket, limits.stall, send).await {
                Err(broken) if self.puts_off(&broken) => continue,
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

    /// Says that nothing follows; without it a client cannot tell the end from a cut.
    pub(super) async fn finish(&mut self, limits: &Limits) -> Result<(), TransportError> {
        self.session.close();
        self.send_control(limits).await
    }
}

fn is_would_block<T>(done: &io::Result<T>) -> bool {
    done.as_ref()
        .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
