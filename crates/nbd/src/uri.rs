//! NBD URIs: the address of an export, by the NBD project's `doc/uri.md`.

mod error;
mod parameters;
mod text;

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::wire::EXPORT_NAME_MAX;

use error::Problem;
use parameters::Parameters;
use text::{decoded, may_be_host, percent_encoded};

pub use error::UriError;
pub use parameters::UriTls;

/// The port of a server whose URI names no port.
pub const DEFAULT_PORT: u16 = 10809;

/// An export and the server that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri {
    /// Address of the server.
    pub endpoint: Endpoint,
    /// Settings of the encryption (`nbds`); `None` for a connection in the clear (`nbd`).
    pub tls: Option<UriTls>,
    /// The export's name; empty is the default export.
    pub export: String,
}

/// Address of an NBD server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket at this path.
    Unix(PathBuf),
    /// A TCP port of a host.
    Tcp {
        /// A name or an address; an IPv6 address without its brackets.
        host: String,
        /// The port, usually [`DEFAULT_PORT`].
        port: u16,
    },
}

impl Uri {
    /// Returns whether a text is meant as an NBD URI, well-formed or not, and not as a path.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        if is_of_qemu(text) {
            return true;
        }
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        // An unknown scheme, such as nbd+vsock, is not a path either.
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

/// Returns whether a text is an address as qemu has it beside URIs: `nbd:HOST:PORT` or `nbd:unix:PATH`, and perhaps
/// `:exportname=EXPORT`. `nbd:/FILE` is a file in a volume that is called `nbd`.
fn is_of_qemu(text: &str) -> bool {
    let Some(address) = text.strip_prefix("nbd:") else {
        return false;
    };
    let address = address.split(":exportname=").next().unwrap_or_default();
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match address.rsplit_once(':') {
        _ if address.starts_with("unix:") => true,
        Some((host, port)) => !host.is_empty() && !host.contains('/') && is_port(port),
        None => false,
    }
}

fn parse(text: &str) -> Result<Uri, Problem> {
    if is_of_qemu(text) {
        return Err(Problem::OfQemu);
    }
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
    let parameters = Parameters::parse(query.unwrap_or_default())?;
    let export = String::from_utf8(decoded(path)?).map_err(|_| Problem::ExportName)?;
    if export.len() > EXPORT_NAME_MAX || export.contains('\0') {
        return Err(Problem::ExportName);
    }
    let endpoint = match (unix, parameters.socket.clone()) {
        (true, Some(socket)) if authority.is_empty() => Endpoint::Unix(socket),
        (true, Some(_)) => return Err(Problem::HostOfSocket),
        (true, None) => return Err(Problem::NoSocket),
        (false, Some(_)) => return Err(Problem::SocketOfHost),
        (false, None) => host_and_port(authority)?,
    };
    Ok(Uri {
        endpoint,
        tls: parameters.tls(tls)?,
        export,
    })
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
            // An IPv6 address without brackets: its end cannot be told from the port.
            Some((_, port)) if port.contains(':') => return Err(Problem::Host),
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    let host = String::from_utf8(decoded(host)?).map_err(|_| Problem::Host)?;
    if !may_be_host(&host) {
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

/// Prints the URI as it is parsed, the port always named.
impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.tls.is_some() { "nbds" } else { "nbd" };
        let export = percent_encoded(self.export.as_bytes(), b"/");
        let mut mark = '?';
        match &self.endpoint {
            Endpoint::Unix(path) => {
                let path = percent_encoded(path.as_os_str().as_bytes(), b"/");
                write!(f, "{family}+unix:///{export}?socket={path}")?;
                mark = '&';
            }
            Endpoint::Tcp { host, port } if host.contains(':') => {
                let host = percent_encoded(host.as_bytes(), b":");
                write!(f, "{family}://[{host}]:{port}/{export}")?;
            }
            Endpoint::Tcp { host, port } => {
                let host = percent_encoded(host.as_bytes(), b"");
                write!(f, "{family}://{host}:{port}/{export}")?;
            }
        }
        let parameters = self.tls.iter().flat_map(UriTls::shown);
        for (name, value) in parameters {
            write!(f, "{mark}{name}={value}")?;
            mark = '&';
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
