//! Reasons for which connections under TLS end.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError};

/// A reason for which a connection under TLS cannot go on.
#[derive(Debug, Clone, PartialEq)]
pub enum TlsError {
    /// The other side's certificate, records or messages were refused, or it refused ours.
    Protocol(rustls::Error),
    /// The name given for a server is not a DNS name or IP address.
    ServerName(String),
    /// The other side sent a message in pieces where no message of that length exists.
    Fragments,
    /// The other side makes this one send more than it takes.
    Flooded,
    /// The key has encrypted as much as is safe, and TLS 1.2 cannot change it; connect again.
    Exhausted,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(error) => {
                write!(f, "{error}")?;
                advice(error).map_or(Ok(()), |advice| write!(f, "; {advice}"))
            }
            Self::ServerName(name) => write!(
                f,
                "{name:?} is no DNS name or IP address, and no certificate can be for it; name the \
                 server as its certificate does"
            ),
            Self::Fragments => write!(f, "a message after the handshake came in pieces"),
            Self::Flooded => write!(f, "the other side asks for more replies than it takes"),
            Self::Exhausted => write!(
                f,
                "the key has encrypted as much as is safe; connect again, or use TLS 1.3, which \
                 changes keys"
            ),
        }
    }
}

/// Advice on the errors that people meet.
fn advice(error: &rustls::Error) -> Option<&'static str> {
    Some(match error {
        rustls::Error::NoCertificatesPresented => {
            "give the client a certificate that the CA of --tls-ca has signed"
        }
        rustls::Error::InvalidCertificate(reason) => match reason {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "another CA has signed it: name that one"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "make a new one, or set the clock"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "connect to a name that it has as subjectAltName, or give one in the URI as \
                 tls-hostname=NAME"
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                "make one for this purpose (serverAuth or clientAuth)"
            }
            _ => return None,
        },
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => "the server asks for a client certificate",
            AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                "the other side does not know this side's CA"
            }
            AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
                "the other side does not accept this side's certificate"
            }
            _ => return None,
        },
        rustls::Error::InvalidMessage(_) => "what came is not TLS",
        _ => return None,
    })
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Protocol(error) => Some(error),
            Self::ServerName(_) | Self::Fragments | Self::Flooded | Self::Exhausted => None,
        }
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Protocol(error)
    }
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}
