//! Reasons for which a server was not measured.

use std::error::Error;
use std::fmt;
use std::io;

use scrim_nbd::tls::TlsError;

/// Failures between a server and its client.
#[derive(Debug)]
#[non_exhaustive]
pub enum WebError {
    /// Not a URL of this kind.
    Url {
        /// The text as it was given.
        text: String,
    },
    /// A host has no address.
    Host {
        /// The host as it was given.
        host: String,
        /// Error of the look-up.
        error: io::Error,
    },
    /// The connection was not made, or it broke.
    Socket {
        /// The action in words, to follow "cannot".
        doing: &'static str,
        /// Host and port of the server.
        server: String,
        /// Error of the socket.
        error: io::Error,
    },
    /// TLS was not agreed on, or broken.
    Tls {
        /// Host and port of the server.
        server: String,
        /// Error of the TLS session.
        error: TlsError,
    },
    /// A certificate or key cannot be made, read or used.
    Certificate {
        /// The fault, in words.
        text: String,
    },
    /// The server answered something other than the file.
    Answer {
        /// Host and port of the server.
        server: String,
        /// Description of the answer.
        text: String,
    },
}

impl WebError {
    pub(super) fn socket(
        doing: &'static str,
        server: &str,
    ) -> impl FnOnce(io::Error) -> Self + use<> {
        let server = server.to_owned();
        move |error| Self::Socket {
            doing,
            server,
            error,
        }
    }

    pub(super) fn answer(server: &str, text: impl Into<String>) -> Self {
        Self::Answer {
            server: server.to_owned(),
            text: text.into(),
        }
    }
}

impl fmt::Display for WebError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { text } => write!(
                f,
                "{text:?} is no URL to measure; give one such as https://127.0.0.1:8443/file"
            ),
            Self::Host { host, error } => write!(f, "{host}: no address: {error}"),
            Self::Socket {
                doing,
                server,
                error,
            } => write!(f, "{server}: cannot {doing}: {error}"),
            Self::Tls { server, error } => write!(f, "{server}: TLS: {error}"),
            Self::Certificate { text } => f.write_str(text),
            Self::Answer { server, text } => write!(f, "{server}: {text}"),
        }
    }
}

impl Error for WebError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Host { error, .. } | Self::Socket { error, .. } => Some(error),
            Self::Tls { error, .. } => Some(error),
            Self::Url { .. } | Self::Certificate { .. } | Self::Answer { .. } => None,
        }
    }
}
