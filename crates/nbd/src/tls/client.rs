//! A client's side of TLS.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection, WantsClientCert};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{
    ALL_VERSIONS, ClientConfig, ConfigBuilder, DigitallySignedStruct, SignatureScheme,
    WantsVerifier,
};
use scrim_pem::{FileError, FileFault};

use super::error::TlsError;
use super::files::{certified_key, roots};
use super::provider;
use super::session::Session;
use super::stream::{TlsReader, TlsWriter, handshake};

/// Files of a client's certificates.
#[derive(Debug, Clone)]
pub struct ClientFiles {
    /// CA certificates, in PEM: the server must show a certificate that one of them signed.
    pub ca: PathBuf,
    /// The client's own certificate chain and its private key, in PEM, for servers that ask.
    pub own: Option<(PathBuf, PathBuf)>,
}

impl ClientFiles {
    /// The files of a directory as libnbd and QEMU have it: `ca-cert.pem` and, where one of them exists,
    /// `client-cert.pem` and `client-key.pem`.
    #[must_use]
    pub fn in_directory(directory: &Path) -> Self {
        let certificate = directory.join("client-cert.pem");
        let key = directory.join("client-key.pem");
        let own = certificate.exists() || key.exists();
        Self {
            ca: directory.join("ca-cert.pem"),
            own: own.then_some((certificate, key)),
        }
    }
}

/// Certificates, key and settings with which a client speaks TLS.
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
        let roots = roots(&files.ca)?;
        let builder = builder(&files.ca)?.with_root_certificates(roots);
        Self::of(builder, files.own.as_ref())
    }

    /// As [`ClientTls::load`], but any server is trusted, whatever certificate it shows: an attacker between
    /// can pose as the server.
    ///
    /// # Errors
    /// When a file of `own` cannot be read or used.
    pub fn load_believing_anyone(own: Option<&(PathBuf, PathBuf)>) -> Result<Self, FileError> {
        let blamed = own.map_or_else(|| Path::new(""), |(certificate, _)| certificate);
        let builder = builder(blamed)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider())));
        Self::of(builder, own)
    }

    /// Uses a configuration of the caller's, which decides what certificates are trusted.
    #[must_use]
    pub fn with_config(config: ClientConfig) -> Self {
        Self {
            config: Arc::new(config),
        }
    }

    fn of(
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
        own: Option<&(PathBuf, PathBuf)>,
    ) -> Result<Self, FileError> {
        let mut config = match own {
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

    /// Turns a connected stream socket into a TLS connection. The server must have acknowledged
    /// `NBD_OPT_STARTTLS` on it, with nothing left to be read. The call blocks as long as the timeouts of the
    /// socket allow. `server` is as for [`ClientTls::session`]; over a unix socket it is the name that the
    /// server's certificate was made for, often `localhost`.
    ///
    /// # Errors
    /// Those of the socket (`WouldBlock` when it took too long), or a [`TlsError`] as the source of
    /// one of kind `InvalidData`.
    pub fn handshake(&self, server: &str, socket: OwnedFd) -> io::Result<(TlsReader, TlsWriter)> {
        self.handshake_while(server, socket, &mut |error| match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        })
    }

    /// As [`ClientTls::handshake`], but after an error of the socket, such as its timeout, it goes on as long
    /// as `go_on` returns no error. `go_on` is also called each time that something came, with an error of kind
    /// `Interrupted`.
    ///
    /// # Errors
    /// Those of `go_on`, or a [`TlsError`] as the source of one of kind `InvalidData`.
    pub fn handshake_while(
        &self,
        server: &str,
        socket: OwnedFd,
        go_on: &mut dyn FnMut(io::Error) -> io::Result<()>,
    ) -> io::Result<(TlsReader, TlsWriter)> {
        handshake(self.session(server)?, socket, go_on)
    }
}

fn builder(blamed: &Path) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, FileError> {
    ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(ALL_VERSIONS)
        .map_err(|error| FileError {
            path: blamed.to_owned(),
            fault: FileFault::Certificate(error),
        })
}

/// Trusts every certificate, and checks that the server has its key.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
