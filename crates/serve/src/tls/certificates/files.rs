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

use super::{Certificate, FileError, FileFault};

/// Longest file that is read, bytes. A client takes a chain of at most 64 KiB.
const FILE_MAX: usize = 64 << 10;

impl Certificate {
    /// Reads a chain, the server's own certificate first, and the private key of that one, both in PEM.
    /// They may be in one file. That the certificate has expired is no error: ask [`Certificate::expiry`].
    ///
    /// # Errors
    /// When a file cannot be read or used, or certificate and key do not belong together.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, FileError> {
        let certified = CertifiedKey::new(chain(certificate)?, private_key(key)?);
        match certified.keys_match() {
            // A key that cannot tell its public half is believed, as rustls does.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
                Self::new(certified).ok_or_else(|| unusable(certificate))
            }
            Err(rustls::Error::InconsistentKeys(_)) => Err(FileError {
                path: key.to_owned(),
                fault: FileFault::OtherCertificate(certificate.to_owned()),
            }),
            Err(_) => Err(unusable(certificate)),
        }
    }
}

fn unusable(certificate: &Path) -> FileError {
    FileError {
        path: certificate.to_owned(),
        fault: FileFault::Certificate,
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = read(path)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.expose()).collect();
    match parsed {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(FileError {
            path: path.to_owned(),
            fault: FileFault::NoCertificate,
        }),
    }
}

fn private_key(path: &Path) -> Result<Arc<dyn SigningKey>, FileError> {
    let error = |fault| FileError {
        path: path.to_owned(),
        fault,
    };
    let text = read(path)?;
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

/// Whether a key file says that its key is encrypted, in either of the ways that OpenSSL writes.
fn is_encrypted(text: &[u8]) -> bool {
    let marks: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"ENCRYPTED\n"];
    marks
        .iter()
        .any(|mark| text.windows(mark.len()).any(|window| window == *mark))
}

/// A whole file, wiped when it is dropped: it may have a key.
fn read(path: &Path) -> Result<SecretBytes, FileError> {
    let error = |fault| FileError {
        path: path.to_owned(),
        fault,
    };
    // One byte more, so that a longer one is refused and not cut.
    let mut text = SecretBytes::zeroed(FILE_MAX + 1);
    let mut file = File::open(path).map_err(|e| error(FileFault::Read(e)))?;
    let mut len = 0;
    while len <= FILE_MAX {
        match file.read(&mut text.expose_mut()[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(error(FileFault::Read(e))),
        }
    }
    if len > FILE_MAX {
        return Err(error(FileFault::TooLong(FILE_MAX)));
    }
    text.truncate(len);
    Ok(text)
}
