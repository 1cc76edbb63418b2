//! Errors of TLS connections.

use std::fmt;
use std::io;

use rustls::AlertDescription;

use super::record::{OpenFault, SealFault};

/// Error that ends a TLS connection, or prevents it.
#[derive(Debug, Clone, PartialEq)]
pub enum TlsError {
    /// The first bytes are not TLS.
    NotTls {
        /// True if they begin as a request of HTTP does.
        http: bool,
    },
    /// The handshake failed, by an error of the client or an alert from it.
    Handshake(rustls::Error),
    /// The client's handshake messages exceed this number of bytes.
    HandshakeTooLong(usize),
    /// A record could not be decrypted, or was malformed.
    Record(OpenFault),
    /// A message after the handshake was invalid; this alert is sent for it.
    Message(AlertDescription),
    /// The client ended the connection with this alert.
    Alert(AlertDescription),
    /// The client sent too many records without data in a row.
    Flooded,
    /// A record could not be encrypted.
    Seal(SealFault),
    /// The output of [`Session::control`](super::Session::control) has to be sent first.
    ControlFirst,
    /// The connection has ended already.
    Ended,
    /// rustls or AWS-LC behaved against their documentation.
    Library,
}

impl TlsError {
    /// Alert for the client; `None` if the client has ended the connection, or if rustls has made the alert because the
    /// handshake failed.
    #[must_use]
    pub fn alert(&self) -> Option<AlertDescription> {
        Some(match self {
            Self::Record(fault) => fault.alert(),
            Self::Message(alert) => *alert,
            Self::Flooded => AlertDescription::UnexpectedMessage,
            Self::Seal(_) | Self::Library => AlertDescription::InternalError,
            Self::NotTls { .. }
            | Self::Handshake(_)
            | Self::HandshakeTooLong(_)
            | Self::Alert(_)
            | Self::ControlFirst
            | Self::Ended => return None,
        })
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTls { http: true } => {
                write!(f, "the client sent HTTP without TLS; it must use https://")
            }
            Self::NotTls { http: false } => write!(f, "the client does not speak TLS"),
            Self::Handshake(error) => {
                write!(f, "the TLS handshake failed: {error}")?;
                advice(error).map_or(Ok(()), |advice| write!(f, "; {advice}"))
            }
            Self::HandshakeTooLong(most) => {
                write!(f, "the client's TLS handshake is longer than {most} bytes")
            }
            Self::Record(fault) => write!(f, "{fault}"),
            Self::Message(alert) => {
                write!(
                    f,
                    "the client sent an unexpected or malformed TLS message ({alert:?})"
                )
            }
            Self::Alert(alert) => write!(f, "the client ended the connection ({alert:?})"),
            Self::Flooded => write!(f, "the client sent too many TLS records without data"),
            Self::Seal(SealFault::Spent) => write!(
                f,
                "the key has encrypted as much as is safe, and it cannot be changed; the client must connect again"
            ),
            Self::Seal(fault) => write!(f, "{fault}"),
            Self::ControlFirst => write!(f, "a TLS control record has to be sent before more data"),
            Self::Ended => write!(f, "the TLS connection has ended"),
            Self::Library => write!(
                f,
                "the TLS library is in an unexpected state; please report this"
            ),
        }
    }
}

/// Advice about common errors.
fn advice(error: &rustls::Error) -> Option<&'static str> {
    Some(match error {
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA => {
                "the client does not trust the certificate's issuer: serve the whole chain; for a private authority, \
                 install its root in the client"
            }
            AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
                "the client does not accept the certificate"
            }
            AlertDescription::CertificateExpired => {
                "the client considers the certificate expired: renew it, or set the client's clock"
            }
            _ => return None,
        },
        rustls::Error::General(reason) if reason.contains("server certificate") => {
            "there is no certificate for the name that the client asked for"
        }
        rustls::Error::PeerIncompatible(_) => {
            "the client must support TLS 1.2 or 1.3 with a modern cipher suite"
        }
        _ => return None,
    })
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Handshake(error) => Some(error),
            Self::Record(fault) => Some(fault),
            Self::Seal(fault) => Some(fault),
            _ => None,
        }
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Handshake(error)
    }
}

impl From<OpenFault> for TlsError {
    fn from(fault: OpenFault) -> Self {
        Self::Record(fault)
    }
}

impl From<SealFault> for TlsError {
    fn from(fault: SealFault) -> Self {
        Self::Seal(fault)
    }
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}
