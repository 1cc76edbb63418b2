//! The certificates that a server shows, and the choice among them by the name that a client asks for.

mod expiry;
mod fault;
mod files;
mod self_signed;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::facts::Protocol;
use super::server_name;

pub use expiry::Expiry;
pub use fault::SelfSignedError;
pub use scrim_pem::{FileError, FileFault};

/// A certificate chain with its private key.
#[derive(Clone)]
pub struct Certificate {
    key: Arc<CertifiedKey>,
    /// DNS names, in lower case; `*.` stands for one label.
    names: Vec<Box<str>>,
    since: Expiry,
    expiry: Expiry,
}

impl Certificate {
    /// A certificate with its key; `None` if the chain does not begin with a certificate.
    pub(crate) fn new(key: CertifiedKey) -> Option<Self> {
        let first = key.cert.first()?;
        let parsed = webpki::EndEntityCert::try_from(first).ok()?;
        let names = parsed.valid_dns_names().map(lower).collect();
        let (since, expiry) = Expiry::span(first)?;
        Some(Self {
            names,
            since,
            expiry,
            key: Arc::new(key),
        })
    }

    /// The DNS names that it is for, in lower case; `*.` stands for one label.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// Chain that clients are shown, in DER: the server's own certificate first.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// The chain with its key, as rustls has them.
    #[must_use]
    pub fn certified(&self) -> &Arc<CertifiedKey> {
        &self.key
    }

    /// Time from which on it is valid.
    pub(crate) fn since(&self) -> Expiry {
        self.since
    }

    /// Time until which it is valid.
    #[must_use]
    pub fn expiry(&self) -> Expiry {
        self.expiry
    }
}

/// Certificates that are shown at one time, by the names that clients ask for.
#[derive(Clone, Default)]
pub struct CertificateSet {
    /// Certificates by name. Names with `*.` stand without it in `wildcards`.
    exact: HashMap<Box<str>, Arc<CertifiedKey>>,
    wildcards: HashMap<Box<str>, Arc<CertifiedKey>>,
    default: Option<Arc<CertifiedKey>>,
    /// Certificates that answer a challenge of an authority, by name (RFC 8737).
    challenges: HashMap<Box<str>, Arc<CertifiedKey>>,
}

impl CertificateSet {
    /// Shows each certificate to clients that ask for one of its names; the first of several with one name. Clients
    /// that ask for another name, or for none, are shown the first of all.
    #[must_use]
    pub fn new(certificates: &[Certificate]) -> Self {
        let mut shown = Self::default();
        for certificate in certificates {
            for name in certificate.names() {
                let (names, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut shown.wildcards, parent),
                    None => (&mut shown.exact, name),
                };
                names
                    .entry(name.into())
                    .or_insert_with(|| Arc::clone(&certificate.key));
            }
        }
        shown.default = certificates.first().map(|c| Arc::clone(&c.key));
        shown
    }

    pub(in crate::tls) fn find(&self, name: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let named = name.map(lower).and_then(|name| {
            self.exact.get(&name).or_else(|| {
                let (_, parent) = name.split_once('.')?;
                self.wildcards.get(parent)
            })
        });
        named.or(self.default.as_ref())
    }
}

/// The certificates of a server that runs: what is shown can be exchanged at any time, and connections that
/// were made before go on.
pub struct Certificates {
    shown: RwLock<Arc<CertificateSet>>,
}

impl Certificates {
    /// Makes a resolver for these certificates.
    #[must_use]
    pub fn new(shown: CertificateSet) -> Arc<Self> {
        Arc::new(Self {
            shown: RwLock::new(Arc::new(shown)),
        })
    }

    /// Shows others from now on. Answers to challenges stay.
    pub fn exchange(&self, shown: CertificateSet) {
        self.change(|old| CertificateSet {
            challenges: old.challenges.clone(),
            ..shown
        });
    }

    /// Shows `key` to the authority that asks for `name` in a challenge (ALPN `acme-tls/1`), or nothing any
    /// more.
    pub fn challenge(&self, name: &str, key: Option<Arc<CertifiedKey>>) {
        self.change(|old| {
            let mut new = old.clone();
            match key {
                Some(key) => new.challenges.insert(lower(name), key),
                None => new.challenges.remove(&lower(name)),
            };
            new
        });
    }

    fn change(&self, change: impl FnOnce(&CertificateSet) -> CertificateSet) {
        let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        *shown = Arc::new(change(&shown));
    }

    pub(in crate::tls) fn now(&self) -> Arc<CertificateSet> {
        Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        let shown = self.now();
        let challenge = hello.alpn().is_some_and(|mut offered| {
            offered.next() == Some(Protocol::AcmeTls.name().as_bytes()) && offered.next().is_none()
        });
        let found = match challenge {
            true => shown.challenges.get(&lower(name?)),
            false => shown.find(name),
        };
        if let (Some(name), Some(found)) = (name, found) {
            server_name::note(name, found);
        }
        found.cloned()
    }
}

/// rustls asks for it. There is nothing to see.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

fn lower(name: &str) -> Box<str> {
    name.to_ascii_lowercase().into()
}
