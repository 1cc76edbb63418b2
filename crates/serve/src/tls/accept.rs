//! Performs the handshake on a socket.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::TcpStream;

use super::error::TlsError;
use super::handshake::{Established, Handshake};
use super::record::RECORD_MAX;
use super::session::Session;

/// Bytes of buffer for one receive: more than a ClientHello has.
const RECEIVE_BYTES: usize = 4 << 10;

/// A connection after its handshake, with its session.
pub struct Accepted {
    pub session: Session,
    /// Bytes that the client has sent after the handshake: records for [`Session::open`].
    pub incoming: Vec<u8>,
}

/// A connection after its handshake, whose keys are not in use yet.
pub struct CompletedHandshake {
    /// Results of the handshake.
    pub established: Established,
    /// Bytes that the client has sent after the handshake: records, the last of which may be incomplete.
    pub incoming: Vec<u8>,
}

/// Result of a handshake.
pub enum HandshakeOutcome {
    /// The handshake is complete.
    Done(Box<CompletedHandshake>),
    /// The client sent HTTP without TLS: its first bytes.
    Http(Vec<u8>),
}

impl CompletedHandshake {
    /// Makes a session in user space. Each key encrypts at most `records_max` records of data.
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

/// Performs the handshake of a new connection, and makes a session in user space.
///
/// # Errors
/// Those of [`perform_handshake`], and an error for HTTP without TLS.
pub async fn accept(socket: &TcpStream, config: Arc<ServerConfig>) -> io::Result<Accepted> {
    match perform_handshake(socket, config).await? {
        HandshakeOutcome::Done(completed) => Ok(completed.accept(u64::MAX)?),
        HandshakeOutcome::Http(_) => Err(TlsError::NotTls { http: true }.into()),
    }
}

/// Performs the handshake of a new connection. There is no time limit: the caller may drop the future, after which the
/// connection has to be closed.
///
/// # Errors
/// Those of the socket, `UnexpectedEof` if the client closes the connection, or `InvalidData` with a [`TlsError`] as its
/// source. The alert is sent to the client if the socket accepts it at once.
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
                // The alert is sent without waiting for a client that broke the protocol.
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
        // The rest is part of a record or of a message, whose length is limited.
        if incoming.len() > super::HANDSHAKE_MAX + RECORD_MAX {
            return Err(TlsError::HandshakeTooLong(super::HANDSHAKE_MAX).into());
        }
    }
}

async fn receive(socket: &TcpStream, incoming: &mut Vec<u8>) -> io::Result<()> {
    loop {
        socket.readable().await?;
        incoming.reserve(RECEIVE_BYTES);
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
