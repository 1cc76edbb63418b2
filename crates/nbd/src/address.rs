//! Addresses on which a server listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::{Endpoint, Uri, UriTls};

/// A place to listen on: a unix socket, or a TCP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A unix socket at this path. Only its owner can connect.
    Unix(PathBuf),
    /// A TCP port. Without TLS it is on the loopback interface, where every user of the machine can
    /// connect.
    Tcp(SocketAddr),
}

impl Address {
    /// The NBD URI by which clients reach `export` here; an empty name is the default export.
    #[must_use]
    pub fn uri(&self, export: &str) -> String {
        self.uri_by(false, export)
    }

    /// As [`Address::uri`], for a server that asks for TLS.
    #[must_use]
    pub fn tls_uri(&self, export: &str) -> String {
        self.uri_by(true, export)
    }

    fn uri_by(&self, tls: bool, export: &str) -> String {
        let endpoint = match self {
            Self::Unix(path) => Endpoint::Unix(path.clone()),
            Self::Tcp(address) => Endpoint::Tcp {
                host: address.ip().to_string(),
                port: address.port(),
            },
        };
        let uri = Uri {
            endpoint,
            tls: tls.then(UriTls::default),
            export: export.to_owned(),
        };
        uri.to_string()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    /// Parses `unix:PATH`, a path with a slash in it, `tcp:IP:PORT` or `IP:PORT`.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(AddressError(text.to_owned())),
                _ => Ok(Self::Unix(path.into())),
            };
        }
        if let Ok(address) = text.strip_prefix("tcp:").unwrap_or(text).parse() {
            return Ok(Self::Tcp(address));
        }
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        Err(AddressError(text.to_owned()))
    }
}

/// A text that is not an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not an address; write unix:PATH or tcp:IP:PORT, such as tcp:127.0.0.1:10809",
            self.0
        )
    }
}

impl std::error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse_and_print() {
        let unix = |path: &str| Ok(Address::Unix(path.into()));
        let tcp = |text: &str| Ok(Address::Tcp(text.parse().unwrap()));
        assert_eq!("unix:a b".parse(), unix("a b"));
        assert_eq!("./s".parse(), unix("./s"));
        assert_eq!("/run/s:1".parse(), unix("/run/s:1"));
        assert_eq!("127.0.0.1:10809".parse(), tcp("127.0.0.1:10809"));
        assert_eq!("tcp:[::1]:0".parse(), tcp("[::1]:0"));
        for text in ["", "unix:", "localhost", "127.0.0.1", "10809", "tcp:"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        assert_eq!(Address::Unix("/run/s".into()).to_string(), "unix:/run/s");
        assert_eq!(tcp("[::1]:7").unwrap().to_string(), "tcp:[::1]:7");
    }

    #[test]
    fn uris_escape_what_would_end_them() {
        let unix = Address::Unix("/tmp/a b?&%.sock".into());
        assert_eq!(
            unix.uri("näme"),
            "nbd+unix:///n%C3%A4me?socket=/tmp/a%20b%3F%26%25.sock"
        );
        let tcp = Address::Tcp("127.0.0.1:10809".parse().unwrap());
        assert_eq!(tcp.uri(""), "nbd://127.0.0.1:10809/");
        assert_eq!(tcp.tls_uri("a b"), "nbds://127.0.0.1:10809/a%20b");
        let unix = Address::Unix("/run/s".into());
        assert_eq!(unix.tls_uri(""), "nbds+unix:///?socket=/run/s");
    }
}
