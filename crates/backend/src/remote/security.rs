//! Security of an encrypted connection: the certificates, and the name that the server must prove.

use std::fmt;
use std::io;
use std::time::Instant;

use scrim_nbd::client::HandshakeError;
use scrim_nbd::tls::{ClientFiles, ClientTls, FileError, TlsError};
use scrim_nbd::{Endpoint, Uri, UriTls};

use super::stream::Stream;

/// Name in the certificate of a server on a unix socket, where the URI gives none.
const THIS_MACHINE: &str = "localhost";

/// The TLS of all connections to a server.
pub(super) struct Security {
    tls: ClientTls,
    server: String,
}

impl Security {
    /// Loads the TLS settings of a URI; `None` where it asks for no TLS. The files are read once.
    ///
    /// # Errors
    /// When there is no certificate to believe the server by, or a file cannot be used.
    pub(super) fn by(uri: &Uri) -> Result<Option<Self>, SecurityError> {
        let Some(asked) = &uri.tls else {
            return Ok(None);
        };
        let tls = load(asked)?;
        let server = match (&asked.hostname, &uri.endpoint) {
            (Some(name), _) => name.as_str(),
            // An address's zone is between this machine and its network, and no part of the name.
            (None, Endpoint::Tcp { host, .. }) => host.split('%').next().unwrap_or(host),
            (None, Endpoint::Unix(_)) => THIS_MACHINE,
        };
        // Now, and not with each connection.
        tls.session(server).map_err(SecurityError::Tls)?;
        Ok(Some(Self {
            tls,
            server: server.to_owned(),
        }))
    }

    /// Begins TLS where the server has agreed to it.
    pub(super) fn begin(
        &self,
        stream: Stream,
        deadline: Instant,
    ) -> Result<Stream, HandshakeError> {
        let begun = stream.begin_tls(&self.tls, &self.server, deadline);
        begun.map_err(|error| match error {
            HandshakeError::Io(error) => named(error).into(),
            error => error,
        })
    }
}

fn load(asked: &UriTls) -> Result<ClientTls, SecurityError> {
    let files = asked.certificates.as_deref().map(ClientFiles::in_directory);
    match (files, asked.verify_peer) {
        (Some(files), true) => ClientTls::load(&files),
        (None, true) => return Err(SecurityError::NoAuthority),
        (files, false) => {
            let own = files.and_then(|files| files.own);
            ClientTls::load_believing_anyone(own.as_ref())
        }
    }
    .map_err(SecurityError::File)
}

/// Names the reason why a connection ended on which TLS began.
pub(super) fn named(error: io::Error) -> io::Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    let why = match tls.cloned() {
        Some(tls) => SecurityError::Tls(tls),
        None if is_end(&error) => SecurityError::Closed,
        None => return error,
    };
    io::Error::new(io::ErrorKind::ConnectionRefused, why)
}

/// Returns whether the other side has gone.
fn is_end(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::ConnectionReset,
    ];
    kinds.contains(&error.kind())
}

/// Reason why there is no encrypted connection.
#[derive(Debug)]
pub(super) enum SecurityError {
    /// The URI names no certificate to trust.
    NoAuthority,
    /// A certificate or key cannot be used.
    File(FileError),
    /// The server is not what it has to be, or this side is not for it.
    Tls(TlsError),
    /// The server went away.
    Closed,
}

impl fmt::Display for SecurityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAuthority => f.write_str(
                "nothing says whom to believe that it is this server; name a folder that has the \
                 certificate of its CA as ca-cert.pem: add ?tls-certificates=FOLDER to the URI, or \
                 &tls-certificates=FOLDER where it has a ? already",
            ),
            Self::File(error) => error.fmt(f),
            Self::Tls(error) => write!(f, "TLS: {error}"),
            Self::Closed => f.write_str(
                "TLS: the server closed the connection; its log says why, and whether it wants a \
                 certificate of this side",
            ),
        }
    }
}

impl std::error::Error for SecurityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(error) => Some(error),
            Self::Tls(error) => Some(error),
            Self::NoAuthority | Self::Closed => None,
        }
    }
}
