//! Faults and refusals of a server.

use std::fmt;
use std::io;

use crate::wire::rep;

/// Reasons for which there is no connection to an export.
#[derive(Debug)]
pub enum HandshakeError {
    /// The connection failed or ended within the handshake.
    Io(io::Error),
    /// The server is not an NBD server.
    NotNbd,
    /// The server speaks the protocol of before 2011.
    Oldstyle,
    /// The server broke the protocol in this way.
    Protocol(&'static str),
    /// The server has no TLS, or does not want it, and says this about it; nothing more was sent.
    NoTls {
        /// The server's words, cut to a line; may be empty.
        message: String,
    },
    /// Something came in the clear where TLS had to begin.
    Injected,
    /// The server refuses the export with this option reply, and says this about it.
    Refused {
        /// The option reply's type.
        reply: u32,
        /// The server's words, cut to a line; may be empty.
        message: String,
    },
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => f.write_str(
                "the server closed the connection: see that it has an export of this name, and what \
                 its log says",
            ),
            Self::Io(error) => error.fmt(f),
            Self::NotNbd => f.write_str("what answers there is no NBD server; check the address"),
            Self::Oldstyle => {
                f.write_str("the server speaks the NBD protocol of before 2011; use a newer one")
            }
            Self::Protocol(what) => write!(f, "the server broke the NBD protocol: {what}"),
            Self::NoTls { message } => {
                f.write_str(
                    "the server does not offer an encrypted connection, and without one it is not used; \
                     give it a certificate",
                )?;
                said(f, message)
            }
            Self::Injected => f.write_str(
                "something came in the clear where encryption had to begin: somebody between here and \
                 the server may have put it there; nothing of it was used",
            ),
            Self::Refused { reply, message } => {
                let reason = match *reply {
                    rep::ERR_UNKNOWN => "the server has no export of this name",
                    rep::ERR_POLICY => "the server's policy forbids this export",
                    rep::ERR_TLS_REQD => {
                        "the server demands an encrypted connection; write nbds in the place of nbd"
                    }
                    rep::ERR_SHUTDOWN => "the server is shutting down",
                    _ => "the server refuses the export",
                };
                f.write_str(reason)?;
                said(f, message)
            }
        }
    }
}

/// The server's words, if it had any.
fn said(f: &mut fmt::Formatter<'_>, message: &str) -> fmt::Result {
    match message {
        "" => Ok(()),
        message => write!(f, " (it says: {message})"),
    }
}

impl std::error::Error for HandshakeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A reply that is not one: nothing that follows it can be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyError {
    /// The reply starts with another number.
    Magic(u32),
    /// The reply answers a request that is not in flight.
    Cookie(u64),
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server broke the NBD protocol: ")?;
        match self {
            Self::Magic(magic) => write!(f, "a reply begins with {magic:#010x}"),
            Self::Cookie(cookie) => write!(f, "it answers {cookie:#x}, which nobody asked"),
        }
    }
}

impl std::error::Error for ReplyError {}
