//! NBD URIs: where an export is, by the NBD project's `doc/uri.md`.

use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

/// The port of a server that names none.
pub const DEFAULT_PORT: u16 = 10809;

/// Longest name of an export, in bytes (the specification's limit for strings).
pub const EXPORT_NAME_MAX: usize = 4096;

/// An export and the server that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri {
    /// How to get to the server.
    pub endpoint: Endpoint,
    /// Whether the connection is encrypted (`nbds`).
    pub tls: bool,
    /// The export's name; empty is the default export.
    pub export: String,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket at this path.
    Unix(PathBuf),
    /// A TCP port.
    Tcp {
        /// A name or an address; an IPv6 address without its brackets.
        host: String,
        /// Usually [`DEFAULT_PORT`].
        port: u16,
    },
}

impl Uri {
    /// Whether a text is meant as an NBD URI, well-formed or not, and not as a path.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        // A scheme that does not exist, as nbd+vsock, is no path either.
        scheme.is_some_and(|scheme| {
            let scheme = scheme.to_ascii_lowercase();
            let family = scheme.split('+').next();
            matches!(family, Some("nbd" | "nbds"))
        })
    }
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        parse(text).map_err(UriError)
    }
}

fn parse(text: &str) -> Result<Uri, Problem> {
    let (scheme, rest) = text.split_once("://").ok_or(Problem::Scheme)?;
    let (tls, unix) = match scheme.to_ascii_lowercase().as_str() {
        "nbd" => (false, false),
        "nbds" => (true, false),
        "nbd+unix" => (false, true),
        "nbds+unix" => (true, true),
        _ => return Err(Problem::Scheme),
    };
    if rest.contains('#') {
        return Err(Problem::Fragment);
    }
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, path),
        None => (rest, ""),
    };
    if authority.contains('@') {
        return Err(Problem::User);
    }
    let socket = socket(query)?;
    let export = String::from_utf8(decoded(path)?).map_err(|_| Problem::ExportName)?;
    if export.len() > EXPORT_NAME_MAX || export.contains('\0') {
        return Err(Problem::ExportName);
    }
    let endpoint = match (unix, socket) {
        (true, Some(socket)) if authority.is_empty() => Endpoint::Unix(socket),
        (true, Some(_)) => return Err(Problem::HostOfSocket),
        (true, None) => return Err(Problem::NoSocket),
        (false, Some(_)) => return Err(Problem::SocketOfHost),
        (false, None) => host_and_port(authority)?,
    };
    Ok(Uri {
        endpoint,
        tls,
        export,
    })
}

/// The one parameter that there is.
fn socket(query: Option<&str>) -> Result<Option<PathBuf>, Problem> {
    let mut socket = None;
    let parameters = query.unwrap_or_default().split(['&', ';']);
    for parameter in parameters.filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if name != "socket" {
            return Err(Problem::Parameter(name.to_owned()));
        }
        let path = decoded(value)?;
        if path.is_empty() || path.contains(&0) || socket.is_some() {
            return Err(Problem::NoSocket);
        }
        socket = Some(PathBuf::from(std::ffi::OsString::from_vec(path)));
    }
    Ok(socket)
}

fn host_and_port(authority: &str) -> Result<Endpoint, Problem> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or(Problem::Host)?;
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(port),
            None if rest.is_empty() => None,
            None => return Err(Problem::Host),
        };
        if !host.contains(':') {
            return Err(Problem::Host);
        }
        (host, port)
    } else {
        match authority.split_once(':') {
            // An IPv6 address without brackets: where it ends nobody knows.
            Some((_, port)) if port.contains(':') => return Err(Problem::Host),
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    let host = String::from_utf8(decoded(host)?).map_err(|_| Problem::Host)?;
    let odd = |c: char| c.is_control() || c.is_whitespace() || "/?#@[]".contains(c);
    if host.is_empty() || host.contains(odd) {
        return Err(Problem::Host);
    }
    let port = match port {
        None | Some("") => DEFAULT_PORT,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().map_err(|_| Problem::Port)?
        }
        Some(_) => return Err(Problem::Port),
    };
    if port == 0 {
        return Err(Problem::Port);
    }
    Ok(Endpoint::Tcp { host, port })
}

/// Percent-decodes.
fn decoded(text: &str) -> Result<Vec<u8>, Problem> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = bytes.next().map(char::from)?;
            digit
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        };
        match (digit(), digit()) {
            (Some(high), Some(low)) => decoded.push(high << 4 | low),
            _ => return Err(Problem::Escape),
        }
    }
    Ok(decoded)
}

/// Escapes all but RFC 3986's unreserved characters and those of `allowed`.
fn percent_encoded(bytes: &[u8], allowed: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len());
    for &byte in bytes {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if plain || allowed.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// As it is parsed, the port always named.
impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.tls { "nbds" } else { "nbd" };
        let export = percent_encoded(self.export.as_bytes(), b"/");
        match &self.endpoint {
            Endpoint::Unix(path) => {
                let path = percent_encoded(path.as_os_str().as_bytes(), b"/");
                write!(f, "{family}+unix:///{export}?socket={path}")
            }
            Endpoint::Tcp { host, port } if host.contains(':') => {
                let host = percent_encoded(host.as_bytes(), b":");
                write!(f, "{family}://[{host}]:{port}/{export}")
            }
            Endpoint::Tcp { host, port } => {
                let host = percent_encoded(host.as_bytes(), b"");
                write!(f, "{family}://{host}:{port}/{export}")
            }
        }
    }
}

/// A text that is no NBD URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriError(Problem);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Scheme,
    User,
    Fragment,
    Parameter(String),
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
            Problem::User => f.write_str(
                "it names a user, and there is no logging in; leave out what stands before the @",
            ),
            Problem::Fragment => f.write_str("a # has no meaning here; write it as %23 in a name"),
            Problem::Parameter(name) => write!(
                f,
                "the parameter {} is not known; there is only socket=PATH",
                name.escape_default()
            ),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16, export: &str) -> Uri {
        Uri {
            endpoint: Endpoint::Tcp {
                host: host.to_owned(),
                port,
            },
            tls: false,
            export: export.to_owned(),
        }
    }

    fn unix(path: &str, export: &str) -> Uri {
        Uri {
            endpoint: Endpoint::Unix(path.into()),
            tls: false,
            export: export.to_owned(),
        }
    }

    #[test]
    fn the_specifications_examples_parse() {
        for (text, expected) in [
            ("nbd://example.com", tcp("example.com", 10809, "")),
            ("nbd://example.com/", tcp("example.com", 10809, "")),
            ("nbd://example.com:/e", tcp("example.com", 10809, "e")),
            ("NBD://192.0.2.1:7/disk", tcp("192.0.2.1", 7, "disk")),
            ("nbd://[::1]/a%20b/c", tcp("::1", 10809, "a b/c")),
            ("nbd://[2001:db8::1]:80//x", tcp("2001:db8::1", 80, "/x")),
            ("nbd://[fe80::1%25eth0]:80/", tcp("fe80::1%eth0", 80, "")),
            ("nbd+unix:///?socket=/run/s", unix("/run/s", "")),
            ("nbd+unix://?socket=s", unix("s", "")),
            ("nbd+unix:///n%C3%A4?socket=/a%3Fb", unix("/a?b", "nä")),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        let tls: Uri = "nbds+unix:///e?socket=/s".parse().unwrap();
        assert!(tls.tls && tls.export == "e");
        assert!("nbds://h".parse::<Uri>().unwrap().tls);
    }

    #[test]
    fn what_is_printed_parses_to_the_same() {
        let all = (1..=255u8).collect::<Vec<_>>();
        for uri in [
            tcp("::1", 10809, ""),
            tcp("fe80::1%eth0", 1, "/"),
            tcp("example.com", 65535, "a b?c#d%e&f=g\u{e4}/../h"),
            unix("/tmp/a b?&%#;=.sock", "x"),
            Uri {
                tls: true,
                ..unix("rel", "y")
            },
            Uri {
                endpoint: Endpoint::Unix(std::ffi::OsString::from_vec(all).into()),
                tls: false,
                export: String::new(),
            },
        ] {
            assert_eq!(uri.to_string().parse(), Ok(uri.clone()), "{uri}");
            assert!(Uri::is_meant(&uri.to_string()));
            assert!(!uri.to_string().contains(' '), "one word in a table");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, said) in [
            ("disk.img", "begins with none"),
            ("nbd+vsock://1/e", "begins with none"),
            ("nbd://me@h/", "names a user"),
            ("nbd://h/e#1", "%23"),
            ("nbd://h/?sockt=/s", "parameter sockt"),
            ("nbd://h/?socket=/s", "a host has no socket"),
            ("nbd+unix:///e", "name the socket"),
            ("nbd+unix:///e?socket=", "name the socket"),
            ("nbd+unix:///?socket=/a&socket=/b", "name the socket"),
            ("nbd+unix://run/s?socket=/s", "three slashes"),
            ("nbd:///e", "name a host"),
            ("nbd://::1/e", "in brackets"),
            ("nbd://[::1/e", "in brackets"),
            ("nbd://[::1]x/e", "in brackets"),
            ("nbd://[h]/e", "in brackets"),
            ("nbd://h:0/", "a port"),
            ("nbd://h:65536/", "a port"),
            ("nbd://h:+1/", "a port"),
            ("nbd://h/%", "two hexadecimal"),
            ("nbd://h/%4g", "two hexadecimal"),
            ("nbd://h/%ff", "UTF-8"),
            ("nbd://h/%00", "UTF-8"),
            ("nbd://h%2Fx/", "name a host"),
        ] {
            let error = text.parse::<Uri>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(
            format!("nbd://h/{}", "x".repeat(4097))
                .parse::<Uri>()
                .is_err()
        );
    }

    #[test]
    fn paths_are_no_uris() {
        for path in [
            "disk.img",
            "/nbd/x",
            "./nbd://h",
            "nbd",
            "nbd:x",
            "http://h/",
        ] {
            assert!(!Uri::is_meant(path), "{path}");
        }
        for uri in ["nbd://", "NBDS://x", "nbd+vsock://1", "nbd+unix://"] {
            assert!(Uri::is_meant(uri), "{uri}");
        }
    }
}
