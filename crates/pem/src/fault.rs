//! Certificates and keys that cannot be used.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A file with a certificate or key that cannot be used.
#[derive(Debug)]
pub struct FileError {
    pub path: PathBuf,
    /// Reason why it cannot be used.
    pub fault: FileFault,
}

/// The reasons of a [`FileError`].
#[derive(Debug)]
pub enum FileFault {
    /// It cannot be read.
    Read(io::Error),
    /// It is longer than the limit, in bytes, that its reader has set.
    TooLong(usize),
    /// It has no certificate in PEM, or what it has is not one.
    NoCertificate,
    /// It has no private key in PEM.
    NoKey,
    /// Its key is encrypted with a passphrase.
    EncryptedKey,
    /// Its key is of a kind that TLS has no use for.
    KeyKind,
    /// Its key belongs to another certificate than the first one in this file.
    OtherCertificate(PathBuf),
    /// A certificate in it cannot be used.
    Certificate(rustls::Error),
    /// Its first certificate is not one that a server can show.
    FirstCertificate,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.fault {
            FileFault::Read(error) => write!(f, "cannot be read: {error}"),
            FileFault::TooLong(limit) => write!(
                f,
                "is longer than {limit} bytes; name a file that holds one certificate chain or key"
            ),
            FileFault::NoCertificate => write!(
                f,
                "holds no certificate; it must have a block that begins with \
                 -----BEGIN CERTIFICATE-----"
            ),
            FileFault::NoKey => write!(
                f,
                "holds no private key; it must have a block that begins with \
                 -----BEGIN PRIVATE KEY-----"
            ),
            FileFault::EncryptedKey => write!(
                f,
                "the private key is encrypted; `openssl pkey -in FILE -out NEW` removes its \
                 passphrase"
            ),
            FileFault::KeyKind => write!(
                f,
                "the private key cannot be used; make one with ECDSA (P-256, P-384), Ed25519 or RSA"
            ),
            FileFault::OtherCertificate(path) => write!(
                f,
                "the private key does not belong to the first certificate in {}; name the pair that \
                 was made together",
                path.display()
            ),
            FileFault::Certificate(error) => {
                write!(f, "a certificate cannot be used: {error}; make a new one")
            }
            FileFault::FirstCertificate => write!(
                f,
                "the first certificate cannot be used; the server's own must come first, X.509 version 3"
            ),
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            FileFault::Read(error) => Some(error),
            FileFault::Certificate(error) => Some(error),
            _ => None,
        }
    }
}
