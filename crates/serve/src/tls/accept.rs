//! The handshake on a socket.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::TcpStream;

use super::error::TlsError;
use super::handshake::{Established, Handshake};
use super::record::RECORD_MAX;
use super::session::Session;

/// Bytes that are received at first: more than a ClientHello has.
const FIRST: usize = 4 << 10;

/// A connection whose handshake is over.
pub struct Accepted {
    pub session: Session,
    /// Bytes that the client has sent behind the handshake: records for [`Session::open`].
    pub incoming: Vec<u8>,
}

/// A connection whose handshake is over, and whose keys are not in use yet.
pub struct CompletedHandshake {
    /// Results of the handshake.
    pub established: Established,
    /// Bytes that the client has sent behind it: records, the last of which may not be whole.
    pub incoming: Vec<u8>,
}

/// Protocol that a client has begun with.
pub enum HandshakeOutcome {
    /// A handshake, which is over.
    Done(Box<CompletedHandshake>),
    /// A request of HTTP without TLS: the bytes that have come.
    Http(Vec<u8>),
}

impl CompletedHandshake {
    /// Has its records made here, in user space; each key seals at most `records_max` records of data.
    ///
    /// # Errors
    /// As [`Session::with_records_max`].
    pub fn accept(self, records_max: u64) -> Result<Accepted, TlsError> {
        Ok(Accepted {
            session: Session::with_records_max(self.established, records_max)?,
            incoming: self.incoming,
        })
    }
}

/// Makes the handshake of a new connection, as [`perform_handshake`] does, and has its records made here.
///
/// # Errors
/// As there.
pub async fn accept(socket: &TcpStream, config: Arc<ServerConfig>) -> io::Result<Accepted> {
    match perform_handshake(socket, config).await? {
        HandshakeOutcome::Done(completed) => Ok(completed.accept(u64::MAX)?),
        HandshakeOutcome::Http(_) => Err(TlsError::NotTls { http: true }.into()),
    }
}

/// Makes the handshake of a new connection. It takes as long as the client likes: the caller limits that,
/// and may drop the future at any time, which leaves the connection useless.
///
/// # Errors
/// Those of the socket, `UnexpectedEof` when the client goes, or a [`TlsError`] as the source of one of kind
/// `InvalidData`. The client has been told why, as far as its socket took it at once.
pub async fn perform_handshake(
    socket: &TcpStream,
    config: Arc<ServerConfig>,
) -> io::Result<HandshakeOutcome> {
    let mut handshake = Handshake::new(config)?;
    let mut incoming = Vec::new();
    let mut outgoing = Vec::new();
    loop {
        receive(socket, &mut incoming).await?;
        let progress = match handshake.advance(&mut incoming, &mut outgoing) {
            Ok(progress) => progress,
            Err(TlsError::NotTls { http: true }) => return Ok(HandshakeOutcome::Http(incoming)),
            Err(error) => {
                // Nobody waits for a client that broke the protocol. What cannot be sent, it will not miss.
                let _ = socket.try_write(&outgoing);
                return Err(error.into());
            }
        };
        incoming.drain(..progress.taken);
        send(socket, &mut outgoing).await?;
        if progress.done {
            let established = handshake.finish()?;
            if incoming.is_empty() {
                incoming = Vec::new();
            }
            return Ok(HandshakeOutcome::Done(Box::new(CompletedHandshake {
                established,
                incoming,
            })));
        }
        // A part of a record, or of a message; the handshake limits how much there can be.
        if incoming.len() > super::HANDSHAKE_MAX + RECORD_MAX {
            return Err(TlsError::HandshakeTooLong(super::HANDSHAKE_MAX).into());
        }
    }
}

async fn receive(socket: &TcpStream, incoming: &mut Vec<u8>) -> io::Result<()> {
    loop {
        socket.readable().await?;
        incoming.reserve(FIRST);
        match socket.try_read_buf(incoming) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn send(socket: &TcpStream, outgoing: &mut Vec<u8>) -> io::Result<()> {
    let mut sent = 0;
    while sent < outgoing.len() {
        socket.writable().await?;
        match socket.try_write(&outgoing[sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => sent += len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    outgoing.clear();
    Ok(())
}
