//! Certificates for tests: an authority, and what it signs.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// A CA of its own.
pub(crate) struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        // Two of one name would be taken for one whose signature is wrong.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("Test CA {}", MADE.fetch_add(1, Ordering::Relaxed));
        let mut params = params(&name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).unwrap();
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    /// The authority's own certificate.
    pub(crate) fn pem(&self) -> String {
        pem("CERTIFICATE", self.certificate.der())
    }

    /// A certificate for these names or addresses, from 2001 to the end of a year, and its key.
    pub(crate) fn sign(
        &self,
        names: &[&str],
        purpose: ExtendedKeyUsagePurpose,
        until: i32,
    ) -> (String, String) {
        let mut params = params("peer", names);
        params.extended_key_usages = vec![purpose];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(until, 12, 31);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (
            pem("CERTIFICATE", certificate.der()),
            pem("PRIVATE KEY", &key.serialize_der()),
        )
    }

    /// Fills a directory as QEMU and nbdkit have it, for a server on this machine and its clients.
    pub(crate) fn fill(&self, directory: &Path) {
        std::fs::create_dir_all(directory).unwrap();
        let (server, server_key) = self.sign(
            &["localhost", "127.0.0.1", "::1"],
            ExtendedKeyUsagePurpose::ServerAuth,
            2100,
        );
        let (client, client_key) =
            self.sign(&["client"], ExtendedKeyUsagePurpose::ClientAuth, 2100);
        for (name, text) in [
            ("ca-cert.pem", self.pem()),
            ("server-cert.pem", server),
            ("server-key.pem", server_key),
            ("client-cert.pem", client),
            ("client-key.pem", client_key),
        ] {
            std::fs::write(directory.join(name), text).unwrap();
        }
    }
}

fn params(name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .map(|line| str::from_utf8(line).unwrap())
        .collect();
    let lines = lines.join("\n");
    format!("-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n")
}
