//! Negotiated parameters of a connection.

use rustls::server::UnbufferedServerConnection;
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion};

/// Application protocol, as negotiated by ALPN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `http/1.1`, or no protocol was negotiated.
    Http11,
    /// HTTP/2, `h2` in ALPN.
    Http2,
    /// `acme-tls/1`: a certificate authority checks the certificate (RFC 8737). There is no application data; the
    /// connection ends.
    AcmeTls,
}

impl Protocol {
    /// The name in ALPN.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http11 => "http/1.1",
            Self::Http2 => "h2",
            Self::AcmeTls => "acme-tls/1",
        }
    }

    fn of(name: Option<&[u8]>) -> Option<Self> {
        let Some(name) = name else {
            return Some(Self::Http11);
        };
        [Self::Http11, Self::Http2, Self::AcmeTls]
            .into_iter()
            .find(|protocol| protocol.name().as_bytes() == name)
    }
}

/// Negotiated parameters of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The version: `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The cipher suite, by its registered name.
    pub suite: &'static str,
    /// Application protocol that ALPN selected.
    pub protocol: Protocol,
    /// True if an earlier session was resumed, without a certificate.
    pub resumed: bool,
    /// Group of the key exchange, such as `X25519MLKEM768`; `None` if a resumed session used its key without one.
    pub group: Option<&'static str>,
}

pub(super) const TLS13: &str = "TLSv1.3";
pub(super) const TLS12: &str = "TLSv1.2";

impl Facts {
    pub(super) fn of(connection: &UnbufferedServerConnection) -> Option<Self> {
        let version = match connection.protocol_version()? {
            ProtocolVersion::TLSv1_3 => TLS13,
            ProtocolVersion::TLSv1_2 => TLS12,
            _ => return None,
        };
        let suite = match connection.negotiated_cipher_suite()?.suite() {
            // The registered names, which are rustls' own for all but those of TLS 1.3.
            CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
            CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
            suite => suite.as_str()?,
        };
        Some(Self {
            version,
            suite,
            protocol: Protocol::of(connection.alpn_protocol())?,
            resumed: connection.handshake_kind()? == HandshakeKind::Resumed,
            group: connection
                .negotiated_key_exchange_group()
                .and_then(|group| group.name().as_str()),
        })
    }

    /// Returns true for TLS 1.3, false for TLS 1.2.
    #[must_use]
    pub fn tls13(&self) -> bool {
        self.version == TLS13
    }
}
