//! Certificates and private keys in PEM files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use scrim_sys::memory::SecretBytes;
use zeroize::Zeroize;

use super::{FileError, FileFault};

/// A chain, its owner's certificate first, and the private key of that one, from files of at most `most` bytes
/// each. They may be in one file.
///
/// # Errors
/// When a file cannot be read or used, or certificate and key do not belong together.
pub fn certified_key(
    certificate: &Path,
    key: &Path,
    most: usize,
) -> Result<CertifiedKey, FileError> {
    let certified = CertifiedKey::new(certificates(certificate, most)?, private_key(key, most)?);
    match certified.keys_match() {
        // A key that cannot tell its public half is believed, as rustls does.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(certified)
        }
        Err(rustls::Error::InconsistentKeys(_)) => Err(FileError {
            path: key.to_owned(),
            fault: FileFault::OtherCertificate(certificate.to_owned()),
        }),
        Err(error) => Err(FileError {
            path: certificate.to_owned(),
            fault: FileFault::Certificate(error),
        }),
    }
}

/// The certificates of a file of at most `most` bytes, in their order.
///
/// # Errors
/// When it cannot be read, or has none.
pub fn certificates(path: &Path, most: usize) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = read(path, most)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.expose()).collect();
    match parsed {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(FileError {
            path: path.to_owned(),
            fault: FileFault::NoCertificate,
        }),
    }
}

fn private_key(path: &Path, most: usize) -> Result<Arc<dyn SigningKey>, FileError> {
    let error = |fault| FileError {
        path: path.to_owned(),
        fault,
    };
    let text = read(path, most)?;
    let mut key = PrivateKeyDer::from_pem_slice(text.expose()).map_err(|reason| {
        error(match reason {
            PemError::NoItemsFound if is_encrypted(text.expose()) => FileFault::EncryptedKey,
            _ => FileFault::NoKey,
        })
    })?;
    let signing = any_supported_type(&key);
    key.zeroize();
    signing.map_err(|_| {
        error(if is_encrypted(text.expose()) {
            FileFault::EncryptedKey
        } else {
            FileFault::KeyKind
        })
    })
}

/// Returns whether a key file says that its key is encrypted, in either of the ways that OpenSSL writes.
fn is_encrypted(text: &[u8]) -> bool {
    let marks: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"ENCRYPTED\n"];
    marks
        .iter()
        .any(|mark| text.windows(mark.len()).any(|window| window == *mark))
}

/// A whole file, wiped when it is dropped: it may have a key.
fn read(path: &Path, most: usize) -> Result<SecretBytes, FileError> {
    let error = |fault| FileError {
        path: path.to_owned(),
        fault,
    };
    // One byte more, so that a longer one is refused and not cut.
    let mut text = SecretBytes::zeroed(most + 1);
    let mut file = File::open(path).map_err(|e| error(FileFault::Read(e)))?;
    let mut len = 0;
    while len <= most {
        match file.read(&mut text.expose_mut()[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(error(FileFault::Read(e))),
        }
    }
    if len > most {
        return Err(error(FileFault::TooLong(most)));
    }
    text.truncate(len);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use base64::prelude::{BASE64_STANDARD, Engine as _};
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    const MOST: usize = 16 << 10;

    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let block = |label: &str, der: &[u8]| {
            let text = BASE64_STANDARD.encode(der);
            format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
        };
        let key = block("PRIVATE KEY", &key.serialize_der());
        (block("CERTIFICATE", certificate.der()), key)
    }

    fn fault_of<T>(result: Result<T, FileError>) -> FileFault {
        result.err().unwrap().fault
    }

    #[test]
    fn a_pair_is_read_from_two_files_and_from_one() {
        let folder = tempfile::tempdir().unwrap();
        let [both, certificate, key] =
            ["both", "certificate", "key"].map(|n| folder.path().join(n));
        let (certificate_pem, key_pem) = pair();
        fs::write(
            &both,
            format!("{key_pem}{certificate_pem}{certificate_pem}"),
        )
        .unwrap();
        fs::write(&certificate, certificate_pem).unwrap();
        fs::write(&key, key_pem).unwrap();
        assert_eq!(
            certified_key(&certificate, &key, MOST).unwrap().cert.len(),
            1
        );
        assert_eq!(certified_key(&both, &both, MOST).unwrap().cert.len(), 2);
        assert_eq!(certificates(&both, MOST).unwrap().len(), 2);
    }

    #[test]
    fn a_fault_says_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let ((certificate, key), (other, _)) = (pair(), pair());
        let [certificate, key, other] = [
            path("certificate", &certificate),
            path("key", &key),
            path("other", &other),
        ];
        let encrypted = path(
            "encrypted",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        );

        assert!(matches!(
            fault_of(certificates(&folder.path().join("none"), MOST)),
            FileFault::Read(_)
        ));
        let length = usize::try_from(fs::metadata(&certificate).unwrap().len()).unwrap();
        assert!(certificates(&certificate, length).is_ok());
        assert!(matches!(
            fault_of(certificates(&certificate, length - 1)),
            FileFault::TooLong(most) if most == length - 1
        ));
        assert!(matches!(
            fault_of(certificates(&key, MOST)),
            FileFault::NoCertificate
        ));
        let found = |key: &Path| fault_of(certified_key(&certificate, key, MOST));
        assert!(matches!(found(&certificate), FileFault::NoKey));
        assert!(matches!(found(&encrypted), FileFault::EncryptedKey));
        assert!(matches!(
            fault_of(certified_key(&other, &key, MOST)),
            FileFault::OtherCertificate(path) if path == other
        ));
    }
}
