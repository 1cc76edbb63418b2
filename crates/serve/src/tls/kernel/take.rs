//! From a handshake to a connection of the kernel's.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use scrim_sys::kernel_tls::{self, Direction as Way};
use tokio::net::TcpStream;

use super::Offer;
use super::choice::Why;
use super::keys;
use super::session::{KernelSession, Receiving};
use crate::tls::accept::Shaken;
use crate::tls::conduct::{Conduct, Meaning};
use crate::tls::error::TlsError;
use crate::tls::record::{HEADER, Opener};

/// A connection whose records the kernel makes.
pub struct Taken {
    /// Where it stands.
    pub session: KernelSession,
    /// Data that the client has sent right behind the handshake.
    pub early: Vec<u8>,
}

/// What became of a connection that the kernel was to have.
pub enum Outcome {
    /// It has it.
    Kernel(Box<Taken>),
    /// It did not take it, and nothing has been done to it.
    User(Box<Shaken>, Why),
}

/// Gives the kernel the keys of a connection. What was received behind the handshake is opened here, up to the
/// end of a record, for which it waits if it must: the kernel goes on there. The caller limits the time, and
/// may drop the future, which leaves the connection useless.
///
/// # Errors
/// When it cannot be given to the kernel any more, nor be kept; or what follows the handshake breaks the
/// protocol, of which the client has been told.
pub(crate) async fn take(
    socket: &TcpStream,
    shaken: Shaken,
    offer: &Offer,
    records_max: u64,
) -> io::Result<Outcome> {
    if let Err(why) = give_key_to_send(socket, &shaken) {
        return Ok(Outcome::User(Box::new(shaken), why));
    }
    let Shaken {
        established,
        incoming,
    } = shaken;
    let (_, cipher) = keys::suite(&established.sending).ok_or(TlsError::Library)?;
    let mut session = KernelSession {
        kernel: established.kernel,
        conduct: Conduct::new(established.facts.tls13()),
        facts: Box::new(established.facts),
        rekeys: offer.rekey,
        records_max: KernelSession::most(cipher, records_max),
        records: established.sending.sequence,
        owes_key_update: false,
        owes_refusal: false,
        goodbye: None,
        receiving: Receiving::Open,
        sending: true,
    };
    // The kernel has it.
    drop(established.sending);
    let info = keys::info(&established.receiving).ok_or(TlsError::Library)?;
    let opener = Opener::new(established.receiving).ok_or(TlsError::Library)?;
    let mut early = Early {
        session: &mut session,
        info,
        opener,
        data: Vec::new(),
    };
    match early.open_all(socket, incoming).await {
        Ok(()) => kernel_tls::install(socket.as_fd(), Way::Receive, &early.info)?,
        Err(Fault::Socket(error)) => return Err(error),
        Err(Fault::Client(error)) => {
            session.fail(&error);
            // Nobody waits for a client that broke the protocol.
            let _ = session.control(socket.as_fd());
            return Err(error.into());
        }
    }
    let early = early.data;
    Ok(Outcome::Kernel(Box::new(Taken { session, early })))
}

fn give_key_to_send(socket: &TcpStream, shaken: &Shaken) -> Result<(), Why> {
    let info = keys::info(&shaken.established.sending).ok_or(Why::Suite)?;
    let given = kernel_tls::attach(socket.as_fd())
        .and_then(|()| kernel_tls::install(socket.as_fd(), Way::Send, &info));
    given.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOTCONN) => Why::NotEstablished,
        _ => Why::Refused,
    })
}

/// Records that were received before the kernel does that.
struct Early<'a> {
    session: &'a mut KernelSession,
    info: kernel_tls::CryptoInfo,
    opener: Opener,
    data: Vec<u8>,
}

enum Fault {
    Socket(io::Error),
    Client(TlsError),
}

impl<E: Into<TlsError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Client(error.into())
    }
}

impl Early<'_> {
    async fn open_all(&mut self, socket: &TcpStream, mut incoming: Vec<u8>) -> Result<(), Fault> {
        let mut done = 0;
        while done < incoming.len() && self.session.receiving == Receiving::Open {
            let rest = &mut incoming[done..];
            let len = self.opener.record_len(rest)?;
            let whole = len.unwrap_or(HEADER);
            if len.is_none() || whole > rest.len() {
                // Not a byte more, which the kernel could not be given back.
                let missing = whole - rest.len();
                let received = receive(socket, &mut incoming, missing).await;
                received.map_err(Fault::Socket)?;
                continue;
            }
            self.open(&mut rest[..whole])?;
            done += whole;
        }
        Ok(())
    }

    fn open(&mut self, record: &mut [u8]) -> Result<(), TlsError> {
        let opened = self.opener.open(record)?;
        self.info.skip(1);
        let content = &record[opened.payload];
        match self.session.early(opened.kind, content)? {
            Meaning::Data => self.data.extend_from_slice(content),
            Meaning::NextKey { .. } => {
                let next = self.session.next_receiving()?;
                self.info = keys::info(&next).ok_or(TlsError::Library)?;
                self.opener = Opener::new(next).ok_or(TlsError::Library)?;
            }
            Meaning::Nothing | Meaning::Closed | Meaning::Renegotiation => {}
        }
        Ok(())
    }
}

/// Receives at most so many bytes more.
async fn receive(socket: &TcpStream, incoming: &mut Vec<u8>, missing: usize) -> io::Result<()> {
    let had = incoming.len();
    incoming.resize(had + missing, 0);
    let received = loop {
        socket.readable().await?;
        match socket.try_read(&mut incoming[had..]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => break received?,
        }
    };
    incoming.truncate(had + received);
    match received {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}
