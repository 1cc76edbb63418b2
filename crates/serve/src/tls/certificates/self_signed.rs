//! A certificate for trying things out, which the server itself has signed.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;
use zeroize::Zeroize;

use super::{Certificate, SelfSignedError};

const DAY: u64 = 24 * 60 * 60;

const VALIDITY_DAYS: u64 = 90;

/// The names that lead to the machine itself.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

impl Certificate {
    /// Makes a key (P-256), which never leaves the process, and a certificate for it that is valid for 90
    /// days, for `localhost`, `127.0.0.1`, `::1` and these DNS names and IP addresses.
    ///
    /// # Errors
    /// When a name is neither, or AWS-LC cannot make a key.
    pub fn self_signed(names: &[String]) -> Result<Self, SelfSignedError> {
        let mut all: Vec<String> = LOCAL.map(str::to_owned).into();
        for name in names {
            if rustls::pki_types::ServerName::try_from(name.as_str()).is_err() {
                return Err(SelfSignedError::Name(name.clone()));
            }
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        let certified = make(all).map_err(SelfSignedError::Make)?;
        certified.and_then(Self::new).ok_or(SelfSignedError::Use)
    }
}

fn make(names: Vec<String>) -> Result<Option<CertifiedKey>, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "scrim, self-signed");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    // A client whose clock is slow by less than a day takes it as well.
    params.not_before = epoch + Duration::from_secs(now.saturating_sub(DAY));
    params.not_after = epoch + Duration::from_secs(now + VALIDITY_DAYS * DAY);
    let certificate = params.self_signed(&key)?;
    let mut private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let signing = any_supported_type(&private);
    private.zeroize();
    Ok(signing
        .ok()
        .map(|signing| CertifiedKey::new(vec![certificate.der().clone()], signing)))
}
