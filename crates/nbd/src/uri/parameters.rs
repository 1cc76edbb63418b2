//! Parameters behind the question mark: the socket, and the settings of TLS, in the words of the specification
//! and, for the folder, of libnbd.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::error::Problem;
use super::text::{decoded, may_be_host, percent_encoded};

const CERTIFICATES: &str = "tls-certificates";
const HOSTNAME: &str = "tls-hostname";
const VERIFY_PEER: &str = "tls-verify-peer";
const TYPE: &str = "tls-type";

/// Settings of an encrypted connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriTls {
    /// A folder with `ca-cert.pem` and, for servers that ask for them, `client-cert.pem` and
    /// `client-key.pem`.
    pub certificates: Option<PathBuf>,
    /// The DNS name or IP address that the server's certificate must be for, if not the host.
    pub hostname: Option<String>,
    /// True if the server's certificate is verified.
    pub verify_peer: bool,
}

/// The settings of a URI that has no such parameters.
impl Default for UriTls {
    fn default() -> Self {
        Self {
            certificates: None,
            hostname: None,
            verify_peer: true,
        }
    }
}

impl UriTls {
    /// The parameters of these settings, with their values as they stand in a URI.
    pub(super) fn shown(&self) -> Vec<(&'static str, String)> {
        let mut shown = Vec::new();
        if let Some(folder) = &self.certificates {
            let folder = percent_encoded(folder.as_os_str().as_bytes(), b"/");
            shown.push((CERTIFICATES, folder));
        }
        if let Some(name) = &self.hostname {
            shown.push((HOSTNAME, percent_encoded(name.as_bytes(), b":")));
        }
        if !self.verify_peer {
            shown.push((VERIFY_PEER, "0".to_owned()));
        }
        shown
    }
}

/// All parameters of a URI.
#[derive(Default)]
pub(super) struct Parameters {
    pub(super) socket: Option<PathBuf>,
    certificates: Option<PathBuf>,
    hostname: Option<String>,
    verify_peer: Option<bool>,
    /// Name of a parameter that is for encrypted connections only, if there was one.
    of_tls: Option<&'static str>,
}

impl Parameters {
    pub(super) fn parse(query: &str) -> Result<Self, Problem> {
        let mut parsed = Self::default();
        let parameters = query.split(['&', ';']);
        for parameter in parameters.filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            parsed.take(name, &decoded(value)?)?;
        }
        Ok(parsed)
    }

    fn take(&mut self, name: &str, value: &[u8]) -> Result<(), Problem> {
        match name {
            "socket" => match path(value) {
                Some(socket) if self.socket.is_none() => self.socket = Some(socket),
                _ => return Err(Problem::NoSocket),
            },
            CERTIFICATES => {
                let folder = path(value).ok_or(Problem::Certificates)?;
                once(&mut self.certificates, folder, CERTIFICATES)?;
                self.of_tls = Some(CERTIFICATES);
            }
            HOSTNAME => {
                let name = str::from_utf8(value)
                    .ok()
                    .filter(|name| may_be_host(name))
                    .ok_or(Problem::TlsHostname)?;
                once(&mut self.hostname, name.to_owned(), HOSTNAME)?;
                self.of_tls = Some(HOSTNAME);
            }
            VERIFY_PEER => {
                let verify = truth(value).ok_or(Problem::VerifyPeer)?;
                once(&mut self.verify_peer, verify, VERIFY_PEER)?;
                self.of_tls = Some(VERIFY_PEER);
            }
            TYPE => match value {
                b"x509" => self.of_tls = Some(TYPE),
                b"psk" => return Err(Problem::PresharedKey),
                b"anon" => return Err(Problem::Anonymous),
                _ => return Err(Problem::TlsType),
            },
            // The second one names the client that such a key is for.
            "tls-psk-file" | "tls-username" => return Err(Problem::PresharedKey),
            other => return Err(Problem::Parameter(other.to_owned())),
        }
        Ok(())
    }

    /// The settings of TLS, for a URI that asks for it or does not.
    pub(super) fn tls(self, asked: bool) -> Result<Option<UriTls>, Problem> {
        match self.of_tls {
            // A URI with certificates that were ignored would send in the clear what they are there to protect.
            Some(name) if !asked => Err(Problem::TlsOfPlain(name)),
            _ => Ok(asked.then(|| UriTls {
                certificates: self.certificates,
                hostname: self.hostname,
                verify_peer: self.verify_peer.unwrap_or(true),
            })),
        }
    }
}

fn once<T>(place: &mut Option<T>, value: T, name: &'static str) -> Result<(), Problem> {
    match place.replace(value) {
        Some(_) => Err(Problem::Twice(name)),
        None => Ok(()),
    }
}

fn path(value: &[u8]) -> Option<PathBuf> {
    let usable = !value.is_empty() && !value.contains(&0);
    usable.then(|| PathBuf::from(OsString::from_vec(value.to_vec())))
}

/// The specification has two words; the others are libnbd's.
fn truth(value: &[u8]) -> Option<bool> {
    let value = value.to_ascii_lowercase();
    match value.as_slice() {
        b"1" | b"true" | b"t" | b"yes" | b"y" | b"on" => Some(true),
        b"0" | b"false" | b"f" | b"no" | b"n" | b"off" => Some(false),
        _ => None,
    }
}
