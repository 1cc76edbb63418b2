//! Files of either side of a connection.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::sign::CertifiedKey;
use scrim_pem::{FileError, FileFault};

/// Longest file that is read, bytes. A chain that is sent must fit the buffer of a session.
const FILE_MAX: usize = 48 << 10;

/// Longest file of authorities, bytes: a system's bundle has some 250 KiB.
const ROOTS_MAX: usize = 1 << 20;

/// A certificate chain with its private key.
pub(super) fn certified_key(
    certificate: &Path,
    key: &Path,
) -> Result<Arc<CertifiedKey>, FileError> {
    scrim_pem::certified_key(certificate, key, FILE_MAX).map(Arc::new)
}

/// The certificates of trusted authorities.
pub(super) fn roots(path: &Path) -> Result<Arc<RootCertStore>, FileError> {
    let mut store = RootCertStore::empty();
    for certificate in scrim_pem::certificates(path, ROOTS_MAX)? {
        store.add(certificate).map_err(|error| FileError {
            path: path.to_owned(),
            fault: FileFault::Certificate(error),
        })?;
    }
    Ok(Arc::new(store))
}
