//! Listening sockets. From the first moment only permitted clients can connect: the owner of a unix socket, and without
//! TLS processes of this machine to TCP.

mod inherited;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with, sockopt,
};

use crate::limits;
use crate::status::Peer;
use scrim_nbd::Address;
use scrim_nbd::tls::ServerTls;

pub use inherited::InheritedError;

/// A bound socket. Clients can connect, and wait until a server accepts them. Dropping it removes
/// a unix socket's path.
pub struct Listener {
    address: Address,
    socket: OwnedFd,
    /// TLS, if clients must begin it.
    tls: Option<ServerTls>,
    /// Device and inode of a unix socket's path: only our own socket is removed in the end.
    identity: Option<(u64, u64)>,
}

impl Listener {
    /// Listens on `address`, without TLS: so TCP is for this machine only. A TCP port of 0 lets the
    /// kernel choose one.
    ///
    /// # Errors
    /// When the address is in use or not a loopback address, or the system refuses.
    pub fn bind(address: &Address) -> Result<Self, BindError> {
        Self::listen(address, None)
    }

    /// Listens on `address`, of this machine or for others, for clients that begin TLS.
    ///
    /// # Errors
    /// When the address is in use, or the system refuses.
    pub fn bind_tls(address: &Address, tls: ServerTls) -> Result<Self, BindError> {
        Self::listen(address, Some(tls))
    }

    fn listen(address: &Address, tls: Option<ServerTls>) -> Result<Self, BindError> {
        let error = |kind| BindError {
            address: address.clone(),
            kind,
        };
        match address {
            Address::Unix(path) => bind_unix(path, tls).map_err(error),
            Address::Tcp(wanted) => bind_tcp(wanted, tls).map_err(error),
        }
    }

    /// The server's side of TLS, if clients must begin it.
    pub(crate) fn tls(&self) -> Option<&ServerTls> {
        self.tls.as_ref()
    }

    /// Address at which it listens, with the port that was chosen.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Accepts the next client that waits; `None` if no client waits.
    pub(crate) fn accept(&self) -> io::Result<Option<(OwnedFd, Peer)>> {
        let socket = match accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            // No client waits, this one has gone, or a signal came; the next poll tells.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let peer = match &self.address {
            Address::Unix(_) => {
                // The kernel may choose less; any size works.
                let _ = sockopt::set_socket_send_buffer_size(&socket, limits::SOCKET_BUFFER);
                Peer::Unix(sockopt::socket_peercred(&socket)?.uid.as_raw())
            }
            Address::Tcp(_) => {
                sockopt::set_tcp_nodelay(&socket, true)?;
                // A client whose machine has vanished must not keep its place for ever.
                sockopt::set_socket_keepalive(&socket, true)?;
                sockopt::set_tcp_keepidle(&socket, limits::KEEPALIVE)?;
                let (interval, count) = limits::KEEPALIVE_AGAIN;
                sockopt::set_tcp_keepintvl(&socket, interval)?;
                sockopt::set_tcp_keepcnt(&socket, count)?;
                let Ok(Some(peer)) = rustix::net::getpeername(&socket) else {
                    return Ok(None);
                };
                Peer::Tcp(peer.try_into()?)
            }
        };
        Ok(Some((socket, peer)))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address
            && self.identity.is_some()
            && identity(path).ok() == self.identity
        {
            // A failure can be ignored: the next server replaces a dead socket.
            let _ = fs::remove_file(path);
        }
    }
}

fn bind_tcp(wanted: &SocketAddr, tls: Option<ServerTls>) -> Result<Listener, BindErrorKind> {
    if tls.is_none() && !wanted.ip().to_canonical().is_loopback() {
        return Err(BindErrorKind::NotLoopback);
    }
    let listener = TcpListener::bind(wanted).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindErrorKind::InUse,
        _ => BindErrorKind::System(source),
    })?;
    listener.set_nonblocking(true)?;
    Ok(Listener {
        address: Address::Tcp(listener.local_addr()?),
        socket: listener.into(),
        tls,
        identity: None,
    })
}

/// Binds a unix socket of mode 0600.
///
/// The mode is set on the socket before it is bound, and Linux gives it to the path, so that there
/// is no moment at which others could connect. A dead socket at the path is replaced; the
/// directory is locked meanwhile, so that of two servers that start at once one is refused.
fn bind_unix(path: &Path, tls: Option<ServerTls>) -> Result<Listener, BindErrorKind> {
    let name = SocketAddrUnix::new(path).map_err(|error| match error {
        Errno::NAMETOOLONG => BindErrorKind::PathTooLong,
        error => BindErrorKind::System(error.into()),
    })?;
    let _lock = lock_directory(path)?;
    remove_dead_socket(path, &name)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &name)?;
    let listener = Listener {
        // Clients in other directories need an absolute path, and so does this process after a change of directory.
        address: Address::Unix(std::path::absolute(path)?),
        identity: Some(identity(path)?),
        socket,
        tls,
    };
    let mode = fs::symlink_metadata(path)?.mode();
    if mode & 0o177 != 0 {
        return Err(BindErrorKind::ModeNotKept);
    }
    listen(&listener.socket, limits::BACKLOG)?;
    Ok(listener)
}

/// Locks the directory that a socket is to be made in. Other servers hold this lock only while they bind.
fn lock_directory(path: &Path) -> Result<File, BindErrorKind> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let directory = File::open(directory)?;
    for _ in 0..LOCK_ATTEMPTS {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(directory),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
    Err(BindErrorKind::DirectoryLocked)
}

const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Removes what is at `path` if it is a socket without a listener.
fn remove_dead_socket(path: &Path, name: &SocketAddrUnix) -> Result<(), BindErrorKind> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
        Ok(found) if !found.file_type().is_socket() => return Err(BindErrorKind::NotASocket),
        Ok(_) => {}
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&probe, name) {
        Err(Errno::CONNREFUSED) => Ok(fs::remove_file(path)?),
        Err(Errno::NOENT) => Ok(()),
        // It listens, or its queue of connections is full.
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS) => Err(BindErrorKind::InUse),
        Err(error) => Err(error.into()),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Reason for which an address cannot be listened on.
#[derive(Debug)]
pub struct BindError {
    pub address: Address,
    pub kind: BindErrorKind,
}

/// The reasons of a [`BindError`].
#[derive(Debug)]
pub enum BindErrorKind {
    /// Another server listens there.
    InUse,
    /// The path exists and is not a socket.
    NotASocket,
    /// The path does not fit a socket address (107 bytes).
    PathTooLong,
    /// The directory stayed locked by another program.
    DirectoryLocked,
    /// The filesystem did not give the socket mode 0600.
    ModeNotKept,
    /// The TCP address can be reached from other machines, and there is no TLS.
    NotLoopback,
    /// Another error of the system.
    System(io::Error),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: ", self.address)?;
        match &self.kind {
            BindErrorKind::InUse => {
                write!(
                    f,
                    "another server listens there; stop it, or choose another address"
                )
            }
            BindErrorKind::NotASocket => write!(
                f,
                "the path exists and is not a socket; remove it, or choose another path"
            ),
            BindErrorKind::PathTooLong => write!(
                f,
                "a socket's path has at most 107 bytes; choose a shorter one"
            ),
            BindErrorKind::DirectoryLocked => write!(
                f,
                "another program keeps the directory locked; end it, or choose another directory"
            ),
            BindErrorKind::ModeNotKept => write!(
                f,
                "the filesystem does not restrict the socket to its owner; choose a directory on \
                 another one"
            ),
            BindErrorKind::NotLoopback => write!(
                f,
                "without TLS, a volume is served on this machine only; give a certificate (--tls-cert), or \
                 use 127.0.0.1 or a unix socket"
            ),
            BindErrorKind::System(error) => match error.kind() {
                io::ErrorKind::NotFound => write!(f, "{error}; create its directory first"),
                io::ErrorKind::PermissionDenied => {
                    write!(f, "{error}; choose a place you may write to")
                }
                _ => error.fmt(f),
            },
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            BindErrorKind::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for BindErrorKind {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<Errno> for BindErrorKind {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}
