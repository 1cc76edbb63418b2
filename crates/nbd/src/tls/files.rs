//! Certificates and private keys in PEM files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use scrim_sys::memory::SecretBytes;
use zeroize::Zeroize;

use super::error::{FileError, FileFault};

/// Longest file that is read, bytes. A chain that is sent must fit the buffer of a session.
const FILE_MAX: usize = 48 << 10;

/// Longest file of authorities, bytes: a system's bundle has some 250 KiB.
const ROOTS_MAX: usize = 1 << 20;

/// A certificate chain with its private key.
pub(super) fn certified_key(
    certificate: &Path,
    key: &Path,
) -> Result<Arc<CertifiedKey>, FileError> {
    let chain = certificates(certificate, FILE_MAX)?;
    let certified = CertifiedKey::new(chain, private_key(key)?);
    match certified.keys_match() {
        // A key that cannot tell its public half is believed, as rustls does.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(Arc::new(certified))
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

/// The certificates of those whose signature is believed.
pub(super) fn roots(path: &Path) -> Result<Arc<RootCertStore>, FileError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path, ROOTS_MAX)? {
        store.add(certificate).map_err(|error| FileError {
            path: path.to_owned(),
            fault: FileFault::Certificate(error),
        })?;
    }
    Ok(Arc::new(store))
}

fn certificates(path: &Path, most: usize) -> Result<Vec<CertificateDer<'static>>, FileError> {
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

fn private_key(path: &Path) -> Result<Arc<dyn rustls::sign::SigningKey>, FileError> {
    let error = |fault| FileError {
        path: path.to_owned(),
        fault,
    };
    let text = read(path, FILE_MAX)?;
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
