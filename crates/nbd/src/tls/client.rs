//! A client's side of TLS.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{ALL_VERSIONS, ClientConfig};

use super::error::{FileError, FileFault, TlsError};
use super::files::{certified_key, roots};
use super::provider;
use super::session::Session;
use super::stream::{TlsReader, TlsWriter, handshake};

/// Where a client's certificates are.
#[derive(Debug, Clone)]
pub struct ClientFiles {
    /// CA certificates, in PEM: the server must show a certificate that one of them signed.
    pub ca: PathBuf,
    /// The client's own certificate chain and its private key, in PEM, for servers that ask.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// What a client needs to speak TLS.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
}

impl ClientTls {
    /// Reads certificates and key.
    ///
    /// # Errors
    /// When a file cannot be read or used, or certificate and key do not belong together.
    pub fn load(files: &ClientFiles) -> Result<Self, FileError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(ALL_VERSIONS)
            .map_err(|error| FileError {
                path: files.ca.clone(),
                fault: FileFault::Certificate(error),
            })?
            .with_root_certificates(roots(&files.ca)?);
        let mut config = match &files.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let own = SingleCertAndKey::from(certified_key(certificate, key)?);
                builder.with_client_cert_resolver(Arc::new(own))
            }
        };
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// The client's side of a new connection. `server` is the DNS name or IP address, without brackets,
    /// that the server's certificate must have as subjectAltName.
    ///
    /// # Errors
    /// When `server` is neither, or AWS-LC cannot start a connection.
    pub fn session(&self, server: &str) -> Result<Session, TlsError> {
        let name = ServerName::try_from(server.to_owned())
            .map_err(|_| TlsError::ServerName(server.to_owned()))?;
        let connection = UnbufferedClientConnection::new(Arc::clone(&self.config), name)?;
        Ok(Session::client(connection))
    }

    /// Makes a connected stream socket, on which the server has acknowledged `NBD_OPT_STARTTLS` and
    /// nothing is left to be read, a TLS connection. It blocks, for as long as the timeouts of the
    /// socket say. `server` is as for [`ClientTls::session`]; over a unix socket it is what the server's
    /// certificate was made for, often `localhost`.
    ///
    /// # Errors
    /// Those of the socket (`WouldBlock` when it took too long), or a [`TlsError`] as the source of
    /// one of kind `InvalidData`.
    pub fn handshake(&self, server: &str, socket: OwnedFd) -> io::Result<(TlsReader, TlsWriter)> {
        handshake(self.session(server)?, socket)
    }
}
