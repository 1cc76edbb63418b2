//! Reasons for which a connection under TLS ends.

use std::fmt;
use std::io;

use rustls::AlertDescription;

use super::record::{OpenFault, SealFault};

/// Reason for which a connection under TLS cannot go on, or could not begin.
#[derive(Debug, Clone, PartialEq)]
pub enum TlsError {
    /// The first bytes are not TLS. `http` tells that they look like a request without TLS.
    NotTls {
        /// True if they begin as a request of HTTP does.
        http: bool,
    },
    /// The handshake failed: the client's messages were refused, or it refused ours.
    Handshake(rustls::Error),
    /// The client sent more bytes than any handshake has.
    HandshakeTooLong(usize),
    /// A record was refused.
    Record(OpenFault),
    /// A message after the handshake was refused, with this alert.
    Message(AlertDescription),
    /// The client ended the connection with this alert.
    Alert(AlertDescription),
    /// The client sends records without data in them.
    Flooded,
    /// No record could be sealed.
    Seal(SealFault),
    /// The bytes that [`Session::control`](super::Session::control) names have to be sent first.
    ControlFirst,
    /// The connection ended before.
    Ended,
    /// rustls or AWS-LC did what their documentation excludes.
    Library,
}

impl TlsError {
    /// Alert for the client; `None` when the client has ended the connection, and when the handshake failed, for which
    /// rustls has made the alert.
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
                write!(
                    f,
                    "the client speaks HTTP without TLS; it must ask for https://"
                )
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
                    "the client sent a message that has no place here ({alert:?})"
                )
            }
            Self::Alert(alert) => write!(f, "the client ended the connection ({alert:?})"),
            Self::Flooded => write!(f, "the client sends records without data"),
            Self::Seal(SealFault::Spent) => write!(
                f,
                "the key has encrypted as much as is safe; the client must connect again, or use \
                 TLS 1.3, which changes keys"
            ),
            Self::Seal(fault) => write!(f, "{fault}"),
            Self::ControlFirst => write!(f, "another record has to be sent first"),
            Self::Ended => write!(f, "the connection has ended"),
            Self::Library => write!(f, "the TLS library is in an unexpected state"),
        }
    }
}

/// Advice about the errors that people meet.
fn advice(error: &rustls::Error) -> Option<&'static str> {
    Some(match error {
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA => "the client does not know who signed the certificate",
            AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
                "the client does not accept the certificate"
            }
            AlertDescription::CertificateExpired => {
                "the client takes the certificate for expired: renew it, or set the client's clock"
            }
            _ => return None,
        },
        rustls::Error::General(reason) if reason.contains("server certificate") => {
            "no certificate is for the name that the client asked for"
        }
        rustls::Error::PeerIncompatible(_) => "the client needs TLS 1.2 or 1.3 and a modern suite",
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
