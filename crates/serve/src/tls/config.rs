//! Configuration of what a server offers.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedCipherSuite};

use super::certificates::Certificates;
use super::error::TlsError;
use super::facts::Protocol;
use super::tickets::Tickets;

/// A cipher suite, by its registered name.
#[derive(Clone, Copy, PartialEq)]
pub struct Suite(&'static (&'static str, SupportedCipherSuite));

/// A name that is not the name of a suite that is offered here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSuite(String);

static AES: [(&str, SupportedCipherSuite); 6] = [
    (
        "TLS_AES_128_GCM_SHA256",
        cipher_suite::TLS13_AES_128_GCM_SHA256,
    ),
    (
        "TLS_AES_256_GCM_SHA384",
        cipher_suite::TLS13_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
];

static CHACHA: [(&str, SupportedCipherSuite); 3] = [
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

impl Suite {
    /// All suites that are offered, in the order of preference on this machine: AES-128-GCM first, the fastest where
    /// the processor has instructions for AES, and as strong as the keys that are exchanged; ChaCha20-Poly1305 first
    /// where it has none. None is without forward secrecy.
    pub fn all() -> impl Iterator<Item = Self> {
        let suites: [&'static [_]; 2] = match aes_has_instructions() {
            true => [&AES, &CHACHA],
            false => [&CHACHA, &AES],
        };
        suites.into_iter().flatten().map(Self)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.0
    }
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Suite {
    type Err = UnknownSuite;

    fn from_str(name: &str) -> Result<Self, UnknownSuite> {
        Self::all()
            .find(|suite| suite.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownSuite(name.to_owned()))
    }
}

impl fmt::Display for UnknownSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a cipher suite that is offered; choose one of",
            self.0
        )?;
        Suite::all().try_for_each(|suite| write!(f, " {}", suite.name()))
    }
}

impl std::error::Error for UnknownSuite {}

/// Suites and protocols that a server offers to its clients.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The only suite, with its version of TLS; all of them otherwise.
    pub only: Option<Suite>,
    /// True if HTTP/2 is offered, before HTTP/1.1.
    pub http2: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            only: None,
            http2: true,
        }
    }
}

impl Settings {
    /// The configuration for all connections. Sessions are resumed by tickets, which the server does not keep. There is
    /// no early data, which an attacker could send again.
    ///
    /// # Errors
    /// When rustls refuses the suite.
    pub fn build(
        &self,
        certificates: Arc<Certificates>,
        tickets: Arc<Tickets>,
    ) -> Result<Arc<ServerConfig>, TlsError> {
        let suites = match self.only {
            Some(only) => vec![only.0.1],
            None => Suite::all().map(|suite| suite.0.1).collect(),
        };
        let versions = match self.only {
            Some(only) => vec![only.0.1.version()],
            None => vec![&TLS13, &TLS12],
        };
        let mut config = ServerConfig::builder_with_provider(provider(suites))
            .with_protocol_versions(&versions)?
            .with_no_client_auth()
            .with_cert_resolver(certificates);
        config.ignore_client_order = true;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = tickets;
        config.max_early_data_size = 0;
        config.enable_secret_extraction = true;
        let offered = [Protocol::Http2, Protocol::Http11, Protocol::AcmeTls];
        config.alpn_protocols = offered
            .into_iter()
            .filter(|&protocol| self.http2 || protocol != Protocol::Http2)
            .map(|protocol| protocol.name().as_bytes().to_vec())
            .collect();
        Ok(Arc::new(config))
    }
}

/// AWS-LC with these suites. Keys are agreed by X25519 with ML-KEM where the client can, so that what is
/// recorded today stays secret from the computers of tomorrow.
fn provider(cipher_suites: Vec<SupportedCipherSuite>) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites,
        kx_groups: vec![
            kx_group::X25519MLKEM768,
            kx_group::X25519,
            kx_group::SECP256R1,
            kx_group::SECP384R1,
        ],
        ..aws_lc_rs::default_provider()
    })
}

fn aes_has_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq");
    // HWCAP_AES, which stands for both here.
    #[cfg(target_arch = "aarch64")]
    let has = rustix::param::linux_hwcap().0 & (1 << 3) != 0;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has = false;
    has
}
