//! A client's connection under TLS, over a blocking socket.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::error::TlsError;
use super::session::{Protection, Session};
use super::wire::{PLAINTEXT_MAX, RECEIVE_BUFFER, Wire};

/// State that reader and writers share.
///
/// The session is locked while records are decrypted or encrypted, never during a system call: else a
/// writer that waits for a server that waits for the reader would block the reader. What
/// is encrypted first must be sent first, so a writer holds `outgoing` from before it encrypts until
/// all is sent. The order of locks is `outgoing`, then `session`.
struct Shared {
    socket: OwnedFd,
    session: Mutex<Session>,
    outgoing: Mutex<Wire>,
}

/// The receiving half, for one thread.
pub struct TlsReader {
    shared: Arc<Shared>,
    incoming: Wire,
    /// Decrypted bytes that the caller has not read yet.
    plain: Wire,
}

/// The sending half. Clones of it send for the same connection; what one call sends stays together.
#[derive(Clone)]
pub struct TlsWriter(Arc<Shared>);

/// Does the handshake of a client over `socket`. After each error of a socket call, and each time that
/// something came, `go_on` decides whether there is time for more.
pub(super) fn handshake(
    mut session: Session,
    socket: OwnedFd,
    go_on: &mut dyn FnMut(io::Error) -> io::Result<()>,
) -> io::Result<(TlsReader, TlsWriter)> {
    let mut incoming = Wire::to_receive();
    let mut outgoing = Wire::to_send();
    let mut plain = Wire::new(RECEIVE_BUFFER);
    loop {
        let opened = session.open(&mut incoming, plain.spare());
        let sent = send_pending(&socket, &mut session, &mut outgoing, go_on);
        // The reason of the failure says more than an error of sending the alert.
        plain.advance(opened?);
        sent?;
        if !session.is_handshaking() {
            break;
        }
        if session.peer_has_closed() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match receive(&socket, &mut incoming) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            // A server that sends single bytes does not get more time by that.
            Ok(_) => go_on(again())?,
            Err(error) => go_on(error)?,
        }
    }
    let shared = Arc::new(Shared {
        socket,
        session: Mutex::new(session),
        outgoing: Mutex::new(outgoing),
    });
    let reader = TlsReader {
        shared: Arc::clone(&shared),
        incoming,
        plain,
    };
    Ok((reader, TlsWriter(shared)))
}

impl TlsReader {
    /// Version and cipher suite of the connection.
    #[must_use]
    pub fn protection(&self) -> Option<Protection> {
        lock(&self.shared.session).protection()
    }

    /// Decrypts what has come, into `into` if a whole record fits it; returns the number of bytes.
    fn open(&mut self, into: &mut [u8]) -> Result<usize, TlsError> {
        let mut session = lock(&self.shared.session);
        if into.len() >= PLAINTEXT_MAX {
            return session.open(&mut self.incoming, into);
        }
        let len = session.open(&mut self.incoming, self.plain.spare())?;
        self.plain.advance(len);
        drop(session);
        Ok(self.take_plain(into))
    }

    /// As [`TlsReader::read`], with at most one call of the socket: a server that sends a byte now and then
    /// does not keep the caller from checking its deadline.
    ///
    /// # Errors
    /// The same, and `Interrupted` when what has come is not a whole record yet.
    pub fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        if !self.plain.is_empty() {
            return Ok(self.take_plain(into));
        }
        let mut received = false;
        loop {
            let len = self.open(into)?;
            if len > 0 || lock(&self.shared.session).peer_has_closed() {
                return Ok(len);
            }
            if received {
                return Err(again());
            }
            if receive(&self.shared.socket, &mut self.incoming)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            received = true;
        }
    }

    fn take_plain(&mut self, into: &mut [u8]) -> usize {
        let plain = self.plain.filled();
        let len = plain.len().min(into.len());
        into[..len].copy_from_slice(&plain[..len]);
        self.plain.consume(len);
        len
    }
}

impl Read for TlsReader {
    /// Receives some bytes: 0 only at the end, after the server has closed the connection in order.
    /// Into 16 KiB and more it decrypts without a copy between.
    ///
    /// # Errors
    /// Those of the socket (`WouldBlock` after its timeout: it can be called again), a [`TlsError`] as
    /// the source of one of kind `InvalidData`, or `UnexpectedEof` when the connection ended without
    /// the server saying so.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.receive(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl TlsWriter {
    /// Sends all bytes of all `parts`, in order, and nothing of another call in between.
    ///
    /// # Errors
    /// Those of the socket, also its timeout, or a [`TlsError`] as the source of one of kind
    /// `InvalidData`. The connection cannot be written to afterwards, since part of a record may have
    /// been sent.
    pub fn write_all(&self, parts: &[&[u8]]) -> io::Result<()> {
        self.write_all_while(parts, &mut Err)
    }

    /// As [`TlsWriter::write_all`], but after an error of the socket it goes on where it was as long as
    /// `go_on` returns no error.
    ///
    /// # Errors
    /// Those of `go_on`, and a [`TlsError`] as the source of one of kind `InvalidData`.
    pub fn write_all_while(
        &self,
        parts: &[&[u8]],
        go_on: &mut dyn FnMut(io::Error) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut outgoing = lock(&self.0.outgoing);
        for part in parts {
            let mut left = *part;
            while !left.is_empty() {
                let sealed = lock(&self.0.session).seal(left, &mut outgoing)?;
                left = left.get(sealed..).unwrap_or_default();
                if !left.is_empty() {
                    send_all(&self.0.socket, &mut outgoing, go_on)?;
                }
            }
        }
        send_all(&self.0.socket, &mut outgoing, go_on)
    }

    /// Version and cipher suite of the connection.
    #[must_use]
    pub fn protection(&self) -> Option<Protection> {
        lock(&self.0.session).protection()
    }

    /// Sends some bytes and the end, without waiting: what the socket does not take at once is not sent,
    /// and nothing can be sent afterwards.
    pub fn say_last(&self, bytes: &[u8]) {
        let mut outgoing = lock(&self.0.outgoing);
        let mut session = lock(&self.0.session);
        if session.seal(bytes, &mut outgoing).is_ok() {
            session.close();
            session.take_pending(&mut outgoing);
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let _ = send(&self.0.socket, outgoing.filled(), flags);
        }
        let _ = shutdown(&self.0.socket, Shutdown::Write);
    }

    /// Ends the connection without an alert: threads that wait for it return at once.
    pub fn cut(&self) {
        let _ = shutdown(&self.0.socket, Shutdown::Both);
    }

    /// Tells the server that no more comes, as [`NBD_CMD_DISC`](crate::wire::cmd::DISC) asks for at the end.
    /// The connection can be read until the server has done the same.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn shutdown(&self) -> io::Result<()> {
        let mut outgoing = lock(&self.0.outgoing);
        lock(&self.0.session).close();
        loop {
            let mut session = lock(&self.0.session);
            session.take_pending(&mut outgoing);
            let more = session.has_pending();
            drop(session);
            send_all(&self.0.socket, &mut outgoing, &mut Err)?;
            if !more {
                return Ok(());
            }
        }
    }
}

/// Locks. After a panic in between a session refuses records or its records are refused; it does not leak plaintext.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Error of a call that has received something, but not enough to return it.
fn again() -> io::Error {
    io::ErrorKind::Interrupted.into()
}

fn send_pending(
    socket: &OwnedFd,
    session: &mut Session,
    outgoing: &mut Wire,
    go_on: &mut dyn FnMut(io::Error) -> io::Result<()>,
) -> io::Result<()> {
    while session.has_pending() {
        session.take_pending(outgoing);
        send_all(socket, outgoing, go_on)?;
    }
    Ok(())
}

fn send_all(
    socket: &OwnedFd,
    outgoing: &mut Wire,
    go_on: &mut dyn FnMut(io::Error) -> io::Result<()>,
) -> io::Result<()> {
    while !outgoing.is_empty() {
        match send(socket, outgoing.filled(), SendFlags::NOSIGNAL) {
            Ok(sent) => outgoing.consume(sent),
            Err(Errno::INTR) => {}
            Err(error) => go_on(error.into())?,
        }
    }
    Ok(())
}

/// Receives some bytes, waiting for them; 0 at the end of the connection.
fn receive(socket: &OwnedFd, incoming: &mut Wire) -> io::Result<usize> {
    loop {
        match recv(socket, incoming.spare(), RecvFlags::empty()) {
            Ok((_, len)) => {
                incoming.advance(len);
                return Ok(len);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
