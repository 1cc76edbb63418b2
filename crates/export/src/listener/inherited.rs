//! Sockets that another program has bound, as a service manager does.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, getsockname, sockopt};
use scrim_nbd::Address;
use scrim_nbd::tls::ServerTls;

use super::Listener;

impl Listener {
    /// Takes over a socket that listens already: a unix stream socket at a path, or TCP, which without `tls` must be on
    /// a loopback address. The permissions of a unix socket are its maker's, and its path stays when it is dropped.
    ///
    /// # Errors
    /// [`InheritedError`]: it is no such socket, or the system refuses.
    pub fn inherited(socket: OwnedFd, tls: Option<ServerTls>) -> Result<Self, InheritedError> {
        let number = socket.as_raw_fd();
        let address =
            address_of(&socket, tls.is_some()).map_err(|kind| InheritedError { number, kind })?;
        Ok(Self {
            address,
            socket,
            tls,
            identity: None,
        })
    }
}

fn address_of(socket: &OwnedFd, is_secure: bool) -> Result<Address, Kind> {
    let listens = match sockopt::socket_acceptconn(socket) {
        Err(Errno::NOTSOCK) => return Err(Kind::NotASocket),
        answer => answer?,
    };
    if !listens || sockopt::socket_type(socket)? != SocketType::STREAM {
        return Err(Kind::NotListening);
    }
    let name = getsockname(socket)?;
    let address = match sockopt::socket_domain(socket)? {
        AddressFamily::UNIX => {
            let name = SocketAddrUnix::try_from(name)?;
            let path = name.path_bytes().filter(|path| path.starts_with(b"/"));
            let path = path.ok_or(Kind::NoPath)?;
            Address::Unix(Path::new(std::ffi::OsStr::from_bytes(path)).to_owned())
        }
        AddressFamily::INET | AddressFamily::INET6 => {
            let name = SocketAddr::try_from(name)?;
            if !is_secure && !name.ip().to_canonical().is_loopback() {
                return Err(Kind::NotLoopback(name));
            }
            Address::Tcp(name)
        }
        _ => return Err(Kind::NotListening),
    };
    let flags = fcntl_getfl(socket)?;
    fcntl_setfl(socket, flags | OFlags::NONBLOCK)?;
    Ok(address)
}

/// Reason for which a socket that was handed on cannot be served on.
#[derive(Debug)]
pub struct InheritedError {
    number: RawFd,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    NotASocket,
    NotListening,
    NoPath,
    NotLoopback(SocketAddr),
    System(Errno),
}

impl From<Errno> for Kind {
    fn from(error: Errno) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for InheritedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot serve on the inherited descriptor {}: ",
            self.number
        )?;
        match &self.kind {
            Kind::NotASocket => f.write_str("it is not a socket; use ListenStream= in its unit"),
            Kind::NotListening => f.write_str(
                "it is not a stream socket that listens; use ListenStream= and Accept=no in its unit",
            ),
            Kind::NoPath => f.write_str(
                "its address is not an absolute path, so its mode does not restrict who connects; use \
                 ListenStream=/PATH in its unit",
            ),
            Kind::NotLoopback(address) => write!(
                f,
                "without TLS, a volume is served on this machine only, and {address} is not; use a unix \
                 socket or 127.0.0.1"
            ),
            Kind::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for InheritedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::System(error) => Some(error),
            _ => None,
        }
    }
}
