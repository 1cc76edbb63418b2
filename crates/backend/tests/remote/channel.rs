//! A server's side of a connection, in the clear or under TLS.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use scrim_nbd::tls::{PLAINTEXT_MAX, Session, Wire};

pub(crate) enum Channel {
    Plain(UnixStream),
    Tls(Box<Secured>),
}

pub(crate) struct Secured {
    stream: UnixStream,
    session: Session,
    incoming: Wire,
    outgoing: Wire,
    plain: Vec<u8>,
}

impl Channel {
    /// Waits for the client to begin TLS.
    pub(crate) fn secured(stream: UnixStream, session: Session) -> io::Result<Self> {
        let mut secured = Secured {
            stream,
            session,
            incoming: Wire::to_receive(),
            outgoing: Wire::to_send(),
            plain: Vec::new(),
        };
        while secured.session.is_handshaking() {
            secured.open()?;
        }
        Ok(Self::Tls(Box::new(secured)))
    }
}

impl Secured {
    /// Receives once, unless there is something to decrypt.
    fn open(&mut self) -> io::Result<()> {
        let mut into = vec![0; 4 * PLAINTEXT_MAX];
        let opened = self.session.open(&mut self.incoming, &mut into);
        while self.session.has_pending() {
            self.session.take_pending(&mut self.outgoing);
            self.send()?;
        }
        let len = opened?;
        self.plain.extend(&into[..len]);
        if len == 0 && !self.session.peer_has_closed() {
            match self.stream.read(self.incoming.spare())? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => self.incoming.advance(more),
            }
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        let len = self.outgoing.filled().len();
        self.stream.write_all(self.outgoing.filled())?;
        self.outgoing.consume(len);
        Ok(())
    }
}

impl Read for Channel {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let secured = match self {
            Self::Plain(stream) => return stream.read(into),
            Self::Tls(secured) => secured,
        };
        while secured.plain.is_empty() && !secured.session.peer_has_closed() {
            secured.open()?;
        }
        let len = into.len().min(secured.plain.len());
        into[..len].copy_from_slice(&secured.plain[..len]);
        secured.plain.drain(..len);
        Ok(len)
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(secured) => {
                let sealed = secured.session.seal(bytes, &mut secured.outgoing)?;
                secured.send()?;
                Ok(sealed)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
