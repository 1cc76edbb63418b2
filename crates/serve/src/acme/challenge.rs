//! The certificate by which an authority knows the server that it looks for (RFC 8737).

use std::sync::Arc;

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;
use zeroize::Zeroize;

use super::fault::Fault;
use crate::tls::Certificates;

/// Bytes of a SHA-256 digest, which the extension holds.
const DIGEST: usize = 32;

/// Challenges that are being answered, until it is dropped.
pub(super) struct Answers<'a> {
    certificates: &'a Certificates,
    names: Vec<String>,
}

impl<'a> Answers<'a> {
    pub(super) fn new(certificates: &'a Certificates) -> Self {
        Self {
            certificates,
            names: Vec::new(),
        }
    }

    /// Answers a challenge for `name` with the digest of its key authorization.
    pub(super) fn give(&mut self, name: &str, digest: &[u8]) -> Result<(), Fault> {
        let key = certificate(name, digest)?;
        self.certificates.challenge(name, Some(Arc::new(key)));
        self.names.push(name.to_owned());
        Ok(())
    }
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            self.certificates.challenge(name, None);
        }
    }
}

fn certificate(name: &str, digest: &[u8]) -> Result<CertifiedKey, Fault> {
    if digest.len() != DIGEST {
        return Err(Fault::Unusable);
    }
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key)?;
    let mut private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let signing = any_supported_type(&private);
    private.zeroize();
    let signing = signing.map_err(|_| Fault::Unusable)?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], signing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_holds_the_digest_in_a_critical_extension() {
        let made = certificate("a.example", &[0xA5; DIGEST]).unwrap();
        // 1.3.6.1.5.5.7.1.31, TRUE, an octet string with an octet string of 32 bytes.
        let mut extension = vec![
            0x06, 0x08, 0x2B, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x1F, 0x01, 0x01, 0xFF, 0x04,
            0x22, 0x04, 0x20,
        ];
        extension.extend([0xA5; DIGEST]);
        let der = made.cert[0].as_ref();
        assert!(der.windows(extension.len()).any(|part| part == extension));
    }

    #[test]
    fn a_digest_of_another_length_is_no_answer() {
        assert!(certificate("a.example", &[0; 31]).is_err());
        assert!(certificate("a.example", &[]).is_err());
    }
}
