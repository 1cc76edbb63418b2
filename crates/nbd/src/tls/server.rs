//! A server's side of TLS.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{ALL_VERSIONS, ServerConfig};
use scrim_pem::{FileError, FileFault};

use super::error::TlsError;
use super::files::{certified_key, roots};
use super::provider;
use super::session::Session;

/// Files of a server's certificate and key.
#[derive(Debug, Clone)]
pub struct ServerFiles {
    /// The server's certificate, in PEM, followed by those between it and a CA that clients know.
    pub certificate: PathBuf,
    /// The private key of the certificate, in PEM.
    pub key: PathBuf,
    /// CA certificates, in PEM: when given, a client must show a certificate that one of them signed.
    pub client_ca: Option<PathBuf>,
}

impl ServerFiles {
    /// The files of a directory as QEMU and nbdkit have it: `server-cert.pem`, `server-key.pem` and,
    /// where it exists, `ca-cert.pem`.
    #[must_use]
    pub fn in_directory(directory: &std::path::Path) -> Self {
        let ca = directory.join("ca-cert.pem");
        Self {
            certificate: directory.join("server-cert.pem"),
            key: directory.join("server-key.pem"),
            client_ca: ca.exists().then_some(ca),
        }
    }
}

/// Certificates, key and settings with which a server speaks TLS.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    asks_for_certificates: bool,
}

impl ServerTls {
    /// Reads certificates and key.
    ///
    /// # Errors
    /// When a file cannot be read or used, or certificate and key do not belong together.
    pub fn load(files: &ServerFiles) -> Result<Self, FileError> {
        let certificate_fault = |error| FileError {
            path: files.certificate.clone(),
            fault: FileFault::Certificate(error),
        };
        let certified = certified_key(&files.certificate, &files.key)?;
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(ALL_VERSIONS)
            .map_err(certificate_fault)?;
        let builder = match &files.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots(path)?, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| FileError {
                    path: path.clone(),
                    fault: FileFault::Certificate(rustls::Error::General(error.to_string())),
                })?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.ignore_client_order = true;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            asks_for_certificates: files.client_ca.is_some(),
        })
    }

    /// Returns whether clients must show a certificate.
    #[must_use]
    pub fn asks_for_certificates(&self) -> bool {
        self.asks_for_certificates
    }

    /// The server's side of a new connection.
    ///
    /// # Errors
    /// When AWS-LC cannot start one.
    pub fn session(&self) -> Result<Session, TlsError> {
        let connection = UnbufferedServerConnection::new(Arc::clone(&self.config))?;
        Ok(Session::server(connection))
    }
}
