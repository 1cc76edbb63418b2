//! Certificates that the client believes, and with which a server proves itself.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error as RustlsError, SignatureScheme};
use scrim_nbd::tls::ClientTls;

use super::error::WebError;

/// A cipher suite of TLS 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    Aes128,
    Aes256,
    ChaCha20,
}

impl Suite {
    /// All suites, in the order of declaration.
    pub const ALL: [Self; 3] = [Self::Aes128, Self::Aes256, Self::ChaCha20];

    /// Its registered name (RFC 8446).
    #[must_use]
    pub fn registered(self) -> &'static str {
        match self {
            Self::Aes128 => "TLS_AES_128_GCM_SHA256",
            Self::Aes256 => "TLS_AES_256_GCM_SHA384",
            Self::ChaCha20 => "TLS_CHACHA20_POLY1305_SHA256",
        }
    }

    fn in_rustls(self) -> &'static str {
        match self {
            Self::Aes128 => "TLS13_AES_128_GCM_SHA256",
            Self::Aes256 => "TLS13_AES_256_GCM_SHA384",
            Self::ChaCha20 => "TLS13_CHACHA20_POLY1305_SHA256",
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.registered())
    }
}

/// A certificate that signs itself, made for one measurement on this machine, and its key.
pub struct Identity {
    /// The certificate in PEM, as servers read it.
    pub certificate_pem: String,
    /// The key in PEM, as servers read it. It is worth nothing: clients believe it only for a measurement.
    pub key_pem: String,
    certificate: CertificateDer<'static>,
}

impl Identity {
    /// Makes a certificate for `127.0.0.1`, `::1` and `localhost`, on the curve P-256.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn make() -> Result<Self, WebError> {
        let made = || {
            let key = KeyPair::generate()?;
            let names = ["127.0.0.1", "::1", "localhost"].map(str::to_owned);
            let certificate = CertificateParams::new(names)?.self_signed(&key)?;
            Ok::<_, rcgen::Error>((certificate, key))
        };
        let (certificate, key) = made().map_err(|error| WebError::Certificate {
            text: format!("cannot make a certificate: {error}"),
        })?;
        Ok(Self {
            certificate_pem: pem("CERTIFICATE", certificate.der()),
            key_pem: pem("PRIVATE KEY", &key.serialize_der()),
            certificate: certificate.der().clone(),
        })
    }

    /// Believes no server but one with this certificate.
    ///
    /// # Errors
    /// When AWS-LC does not have the suite.
    pub fn trust(&self, suite: Option<Suite>) -> Result<Trust, WebError> {
        Trust::new(Some(self.certificate.clone()), suite)
    }
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .map(|line| str::from_utf8(line).unwrap_or_default())
        .collect();
    let lines = lines.join("\n");
    format!("-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n")
}

/// Certificates that a client believes, and its offers to servers.
pub struct Trust(pub(super) ClientTls);

impl Trust {
    /// Believes only a server with the first certificate of `pem`, over `suite` or whatever suite it likes best.
    ///
    /// # Errors
    /// When there is no certificate in `pem`.
    pub fn in_pem(pem: &[u8], suite: Option<Suite>) -> Result<Self, WebError> {
        let certificate =
            CertificateDer::from_pem_slice(pem).map_err(|error| WebError::Certificate {
                text: format!("no certificate is in it: {error}; give a file in PEM"),
            })?;
        Self::new(Some(certificate), suite)
    }

    /// Believes any server, for measurements that send and learn nothing secret.
    ///
    /// # Errors
    /// When AWS-LC does not have the suite.
    pub fn in_anyone(suite: Option<Suite>) -> Result<Self, WebError> {
        Self::new(None, suite)
    }

    fn new(
        certificate: Option<CertificateDer<'static>>,
        suite: Option<Suite>,
    ) -> Result<Self, WebError> {
        let mut provider = aws_lc_rs::default_provider();
        if let Some(suite) = suite {
            let wanted = suite.in_rustls();
            provider
                .cipher_suites
                .retain(|one| one.suite().as_str() == Some(wanted));
        }
        let provider = Arc::new(provider);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions();
        let builder = builder.or_else(|_| {
            // One suite of TLS 1.3 and nothing of TLS 1.2.
            ClientConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(&[&rustls::version::TLS13])
        });
        let builder = builder.map_err(|error| WebError::Certificate {
            text: format!("TLS cannot be set up: {error}"),
        })?;
        let verifier = Only {
            certificate,
            provider,
        };
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(ClientTls::with_config(config)))
    }
}

/// Believes a server that has this certificate and its key, or any server.
#[derive(Debug)]
struct Only {
    certificate: Option<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        match &self.certificate {
            Some(known) if known != end_entity => Err(RustlsError::InvalidCertificate(
                rustls::CertificateError::ApplicationVerificationFailure,
            )),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_can_be_read_again() {
        let made = Identity::make().unwrap();
        let read = CertificateDer::from_pem_slice(made.certificate_pem.as_bytes()).unwrap();
        assert_eq!(read, made.certificate);
        let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(made.key_pem.as_bytes());
        assert!(key.is_ok());
        assert!(Trust::in_pem(b"nothing", None).is_err());
    }

    #[test]
    fn each_suite_can_be_asked_for_alone() {
        for suite in Suite::ALL {
            assert!(Trust::in_anyone(Some(suite)).is_ok(), "{suite}");
        }
    }
}
