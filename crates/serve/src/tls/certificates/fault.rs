//! Certificates of our own that cannot be made.

use std::fmt;

/// Reason for which a self-signed certificate was not made.
#[derive(Debug)]
pub enum SelfSignedError {
    /// A name is no DNS name or IP address.
    Name(String),
    /// AWS-LC or rcgen could not make the key or the certificate.
    Make(rcgen::Error),
    /// The certificate that was made cannot be used.
    Use,
}

impl fmt::Display for SelfSignedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "{name:?} is neither a DNS name nor an IP address, so a certificate cannot be for it; leave it out"
            ),
            Self::Make(error) => write!(
                f,
                "a self-signed certificate cannot be made: {error}; name files with a certificate and \
                 its key instead"
            ),
            Self::Use => write!(
                f,
                "a self-signed certificate cannot be used; name files with a certificate and its key \
                 instead"
            ),
        }
    }
}

impl std::error::Error for SelfSignedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Make(error) => Some(error),
            Self::Name(_) | Self::Use => None,
        }
    }
}
