//! URL of a served file.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

use super::error::WebError;

/// `http://HOST[:PORT]/PATH`, or the same with `https`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// True if it is `https`.
    pub tls: bool,
    /// The host as in the URL, without brackets.
    pub host: String,
    /// The port, or that of the scheme where the URL names no port.
    pub port: u16,
    /// The path with its query, from the slash on.
    pub path: String,
}

impl Url {
    /// Parses a URL of a file.
    ///
    /// # Errors
    /// [`WebError::Url`] for anything else, and for one with a user, a fragment, a blank or a control sign.
    pub fn parse(text: &str) -> Result<Self, WebError> {
        Self::read(text).ok_or_else(|| WebError::Url {
            text: text.to_owned(),
        })
    }

    fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let tls = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let wrong = |c: char| !c.is_ascii_graphic() || "#@\\".contains(c);
        if rest.contains(wrong) {
            return None;
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => inner.split_once(']')?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None if port.is_empty() => match tls {
                true => 443,
                false => 80,
            },
            None => return None,
        };
        (!host.is_empty()).then(|| Self {
            tls,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
        })
    }

    /// URL of another file of the same server.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..self.clone()
        }
    }

    /// `HOST:PORT`, as it goes into a request.
    #[must_use]
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The first address of its host.
    pub(super) fn address(&self) -> Result<SocketAddr, WebError> {
        let failed = |error| WebError::Host {
            host: self.host.clone(),
            error,
        };
        let mut addresses = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(failed)?;
        addresses
            .next()
            .ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))
    }

    /// A request for the file, on a connection that stays open.
    pub(super) fn request(&self) -> Vec<u8> {
        format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n",
            self.path,
            self.authority()
        )
        .into_bytes()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_written() {
        for (text, port, path) in [
            ("https://127.0.0.1:8443/a/b?c", 8443, "/a/b?c"),
            ("http://localhost:80/", 80, "/"),
            ("https://[::1]:443/x", 443, "/x"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.port, url.path.as_str()), (port, path));
            assert_eq!(url.to_string(), text);
        }
        let short = Url::parse("https://host.example").unwrap();
        assert_eq!(short.to_string(), "https://host.example:443/");
        assert_eq!(short.at("/y").path, "/y");
        assert_eq!(
            Url::parse("http://h/x").unwrap().request(),
            b"GET /x HTTP/1.1\r\nHost: h:80\r\n\r\n"
        );
    }

    #[test]
    fn what_is_none_is_refused_by_name() {
        for text in [
            "",
            "ftp://h/",
            "https:///x",
            "http://h:99999/",
            "http://h:/",
            "http://[::1/",
            "http://[::1]x/",
            "http://u@h/",
            "http://h/a b",
            "http://h/a\r\nX: y",
            "http://h/#top",
        ] {
            let error = Url::parse(text).unwrap_err().to_string();
            assert!(error.contains("is no URL to measure"), "{text}: {error}");
        }
    }
}
