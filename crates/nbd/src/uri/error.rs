//! Reasons for which a text is not an NBD URI.

use std::fmt;

use crate::wire::EXPORT_NAME_MAX;

/// A text that is not an NBD URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriError(pub(super) Problem);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    Scheme,
    OfQemu,
    User,
    Fragment,
    Parameter(String),
    Twice(&'static str),
    PresharedKey,
    Anonymous,
    TlsType,
    TlsOfPlain(&'static str),
    Certificates,
    TlsHostname,
    VerifyPeer,
    NoSocket,
    HostOfSocket,
    SocketOfHost,
    Host,
    Port,
    Escape,
    ExportName,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an NBD URI: ")?;
        match &self.0 {
            Problem::Scheme => {
                f.write_str("it begins with none of nbd://, nbd+unix://, nbds:// and nbds+unix://")
            }
            Problem::OfQemu => f.write_str(
                "it is qemu's own way to write an address; write nbd://HOST:PORT/EXPORT for a host, and \
                 nbd+unix:///EXPORT?socket=PATH for a unix socket",
            ),
            Problem::User => f.write_str(
                "it names a user, and there is no logging in; leave out what stands before the @",
            ),
            Problem::Fragment => f.write_str("a # has no meaning here; write it as %23 in a name"),
            Problem::Parameter(name) => write!(
                f,
                "the parameter {} is not known; there are socket, tls-certificates, tls-hostname and \
                 tls-verify-peer",
                name.escape_default()
            ),
            Problem::Twice(name) => write!(f, "the parameter {name} is there twice"),
            Problem::PresharedKey => f.write_str(
                "pre-shared keys are not supported; use certificates: tls-certificates=FOLDER",
            ),
            Problem::Anonymous => f.write_str(
                "TLS without certificates is not supported; name the server's CA: \
                 tls-certificates=FOLDER",
            ),
            Problem::TlsType => f.write_str("of tls-type there is only x509; leave it out"),
            Problem::TlsOfPlain(name) => write!(
                f,
                "{name} is for encrypted connections; write nbds in the place of nbd, or leave it out"
            ),
            Problem::Certificates => {
                f.write_str("name a folder that holds ca-cert.pem: tls-certificates=FOLDER")
            }
            Problem::TlsHostname => f.write_str(
                "tls-hostname is the DNS name or IP address, without brackets, in the server's \
                 certificate",
            ),
            Problem::VerifyPeer => f.write_str("tls-verify-peer is 1 or 0"),
            Problem::NoSocket => {
                f.write_str("name the socket, once: nbd+unix:///EXPORT?socket=PATH")
            }
            Problem::HostOfSocket => f.write_str(
                "a unix socket has no host; write three slashes: nbd+unix:///EXPORT?socket=PATH",
            ),
            Problem::SocketOfHost => {
                f.write_str("a host has no socket; for a unix socket write nbd+unix:///")
            }
            Problem::Host => {
                f.write_str("name a host, as nbd://HOST:PORT/EXPORT, an IPv6 address in brackets")
            }
            Problem::Port => f.write_str("a port is a number from 1 to 65535"),
            Problem::Escape => f.write_str("a % has two hexadecimal digits behind it"),
            Problem::ExportName => write!(
                f,
                "the name of an export is UTF-8 of at most {EXPORT_NAME_MAX} bytes"
            ),
        }
    }
}

impl std::error::Error for UriError {}
