//! All certificates that the server shows, from files, from an authority, or its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::tls::{Certificate, CertificateSet, Certificates};

/// Puts together the certificates that a server shows: those of files, which come first, and behind them the one of an
/// authority, or the server's own until an authority has given one.
pub struct ActiveCertificates {
    certificates: Arc<Certificates>,
    parts: Mutex<Parts>,
}

struct Parts {
    files: Vec<Certificate>,
    own: Option<Certificate>,
    obtained: Option<Certificate>,
}

impl ActiveCertificates {
    /// Shows the certificates of files, and one of the server's own where no other is for a name.
    #[must_use]
    pub fn new(files: Vec<Certificate>, own: Option<Certificate>) -> Self {
        let parts = Parts {
            files,
            own,
            obtained: None,
        };
        Self {
            certificates: Certificates::new(parts.shown().unwrap_or_default()),
            parts: Mutex::new(parts),
        }
    }

    /// Certificates that handshakes choose from.
    #[must_use]
    pub fn certificates(&self) -> &Arc<Certificates> {
        &self.certificates
    }

    /// Returns whether clients that name no host are shown a certificate that only the server itself has signed.
    #[must_use]
    pub fn is_self_signed(&self) -> bool {
        let parts = self.parts();
        parts.files.is_empty() && parts.obtained.is_none()
    }

    /// Shows other files' certificates from now on.
    pub fn exchange_files(&self, files: Vec<Certificate>) {
        self.change(|parts| parts.files = files);
    }

    /// Shows an authority's certificate from now on, instead of the last one or the server's own.
    pub(super) fn obtained(&self, certificate: Certificate) {
        self.change(|parts| parts.obtained = Some(certificate));
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one change at a time, to its end: so the certificates that are shown always agree with the parts.
    fn change(&self, change: impl FnOnce(&mut Parts)) {
        let mut parts = self.parts();
        change(&mut parts);
        if let Some(shown) = parts.shown() {
            self.certificates.exchange(shown);
        }
    }
}

impl Parts {
    /// Certificates to show; `None` if there is none, so that the earlier ones stay.
    fn shown(&self) -> Option<CertificateSet> {
        let last = self.obtained.as_ref().or(self.own.as_ref());
        let all: Vec<_> = self.files.iter().chain(last).cloned().collect();
        (!all.is_empty()).then(|| CertificateSet::new(&all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(name: &str) -> Certificate {
        Certificate::self_signed(&[name.to_owned()]).unwrap()
    }

    #[test]
    fn an_authoritys_certificate_takes_the_place_of_the_servers_own() {
        let active = ActiveCertificates::new(Vec::new(), Some(certificate("a.example")));
        assert!(active.is_self_signed());
        active.obtained(certificate("b.example"));
        assert!(!active.is_self_signed());
        active.exchange_files(vec![certificate("c.example")]);
        let parts = active.parts();
        let obtained = parts.obtained.as_ref().unwrap();
        assert!(obtained.names().any(|name| name == "b.example"));
        assert_eq!(parts.files.len(), 1);
    }

    #[test]
    fn what_is_shown_stays_when_there_is_nothing_else() {
        let active = ActiveCertificates::new(vec![certificate("a.example")], None);
        active.exchange_files(Vec::new());
        assert!(active.parts().shown().is_none());
    }
}
