//! The connections to a server, which live and die together: a server that has lost one may have lost
//! what it kept in memory too.

use std::fmt;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use scrim_nbd::client::{Export, HandshakeError, handshake};
use scrim_nbd::tls::Protection;
use scrim_nbd::wire::flag;

use super::connection::Connection;
use super::security::{Security, named};
use super::stream::{Stream, Target, Timed};

/// Time that each connection beyond the first may take: a server that does not want it may let it wait for ever.
const FURTHER: Duration = Duration::from_secs(2);

/// Parameters of a new connection.
pub(super) struct Dial {
    pub(super) target: Target,
    /// `None` where the connection is not encrypted.
    pub(super) security: Option<Security>,
    pub(super) export: String,
    /// Most connections to make, if the server allows several.
    pub(super) connections: usize,
    /// Time within which every request ends, with or without an error.
    pub(super) limit: Duration,
}

/// One or several connections to the same export.
pub(super) struct Session {
    connections: Vec<Connection>,
}

impl Session {
    /// Makes as many connections as are wanted and the server allows.
    pub(super) fn open(dial: &Dial, deadline: Instant) -> io::Result<(Self, Export)> {
        let (first, export) = dial.connect(deadline)?;
        let mut connections = vec![first];
        if export.flags & flag::CAN_MULTI_CONN != 0 {
            while connections.len() < dial.connections {
                let deadline = deadline.min(Instant::now() + FURTHER);
                match dial.connect(deadline) {
                    Ok((further, same)) if same == export => connections.push(further),
                    // One is enough.
                    _ => break,
                }
            }
        }
        Ok((Self { connections }, export))
    }

    /// Returns the number of connections.
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns the protection of the connections' traffic; `None` if it is not encrypted.
    pub(super) fn protection(&self) -> Option<Protection> {
        self.connections.first().and_then(Connection::protection)
    }

    /// Returns the connection with the fewest requests in flight.
    pub(super) fn least_busy(&self) -> &Connection {
        let mut best = &self.connections[0];
        for connection in &self.connections[1..] {
            if best.load() == 0 {
                break;
            }
            if connection.load() < best.load() {
                best = connection;
            }
        }
        best
    }

    /// Cuts all connections: their requests in flight fail.
    pub(super) fn cut(&self) {
        for connection in &self.connections {
            let why = io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "another connection to the server was lost",
            );
            let _ = connection.cut(why);
        }
    }
}

/// Tells the server that its connections end.
impl Drop for Session {
    fn drop(&mut self) {
        for connection in &self.connections {
            connection.say_goodbye();
        }
    }
}

impl Dial {
    fn connect(&self, deadline: Instant) -> io::Result<(Connection, Export)> {
        let stream = Stream::connect(&self.target, self.limit, deadline)?;
        let shaken = self.shake(stream, deadline);
        let (stream, export) = shaken.map_err(|error| match error {
            HandshakeError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => error,
            error => io::Error::new(io::ErrorKind::ConnectionRefused, error),
        })?;
        Ok((Connection::new(stream), export))
    }

    fn shake(&self, stream: Stream, deadline: Instant) -> Result<(Stream, Export), HandshakeError> {
        let mut timed = Timed {
            stream: &stream,
            deadline,
        };
        let greeting = handshake::greet(&mut timed)?;
        let Some(security) = &self.security else {
            let export = handshake::go(&mut timed, greeting, &self.export)?;
            return Ok((stream, export));
        };
        let greeting = handshake::start_tls(&mut timed, greeting)?;
        let stream = security.begin(stream, deadline)?;
        let mut timed = Timed {
            stream: &stream,
            deadline,
        };
        let export = handshake::go(&mut timed, greeting, &self.export);
        let export = export.map_err(|error| refusal(error, &mut timed))?;
        Ok((stream, export))
    }
}

/// Returns the error by which a connection under TLS ended before there was an export. In TLS 1.3 a server looks
/// at the client's certificate when the client has finished already: its alert may still be there to be received
/// when nothing can be sent any more.
fn refusal(error: HandshakeError, stream: &mut Timed) -> HandshakeError {
    let HandshakeError::Io(mut error) = error else {
        return error;
    };
    let broken = matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    );
    if broken && let Err(earlier) = stream.read(&mut [0; 1]) {
        error = earlier;
    }
    named(error).into()
}

/// Error for an export that has changed since it was opened.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) before: Export,
    pub(super) now: Export,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, now } = self;
        f.write_str("the server is back with another export: ")?;
        if before.size == now.size {
            write!(
                f,
                "its flags or block sizes were {before:x?} and are {now:x?}"
            )
        } else {
            write!(f, "it had {} bytes and has {}", before.size, now.size)
        }
    }
}

impl std::error::Error for Changed {}
