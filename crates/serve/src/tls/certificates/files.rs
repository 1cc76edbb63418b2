//! Certificates and private keys in PEM files.

use std::path::Path;

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
        let unusable = || FileError {
            path: certificate.to_owned(),
            fault: FileFault::FirstCertificate,
        };
        let certified = scrim_pem::certified_key(certificate, key, FILE_MAX).map_err(|error| {
            match error.fault {
                FileFault::Certificate(_) => unusable(),
                _ => error,
            }
        })?;
        Self::new(certified).ok_or_else(unusable)
    }
}
