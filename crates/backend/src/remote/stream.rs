//! A connection to a server as a stream of bytes, with deadlines.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{
    Timeout, set_socket_keepalive, set_socket_timeout, set_tcp_keepcnt, set_tcp_keepidle,
    set_tcp_keepintvl, set_tcp_nodelay, set_tcp_user_timeout,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, sendmsg, shutdown, socket_with,
};
use scrim_nbd::Endpoint;
use scrim_nbd::client::HandshakeError;
use scrim_nbd::tls::{ClientTls, Protection, TlsReader, TlsWriter};

/// Longest time that a call waits before its caller looks at the clock again.
const TICK_MAX: Duration = Duration::from_secs(1);
/// Shortest such time, which a socket's timeout can be.
const TICK_MIN: Duration = Duration::from_millis(10);

/// Address of a server.
#[derive(Debug, Clone)]
pub(super) enum Target {
    Unix(PathBuf),
    /// Every address that the host's name had, in the order in which they are tried.
    Tcp(Vec<SocketAddr>),
}

impl Target {
    /// Looks a host's name up: once, since nothing limits how long that takes.
    pub(super) fn resolve(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Unix(path) => Ok(Self::Unix(path.clone())),
            Endpoint::Tcp { host, port } => {
                let found: Vec<_> = (host.as_str(), *port).to_socket_addrs()?.collect();
                match found.is_empty() {
                    true => Err(io::Error::new(
                        io::ErrorKind::NotFound,
                        "the host's name has no address",
                    )),
                    false => Ok(Self::Tcp(found)),
                }
            }
        }
    }
}

/// A connected stream, from which one thread receives while others send. Its calls wait for a moment at
/// most, and then return `WouldBlock`.
pub(super) enum Stream {
    Plain(OwnedFd),
    Tls {
        reader: Mutex<TlsReader>,
        writer: TlsWriter,
    },
}

impl Stream {
    /// Connects. If the network has gone silent, the kernel reports that after half of `limit`; a server
    /// that is only slow has all of it.
    pub(super) fn connect(target: &Target, limit: Duration, deadline: Instant) -> io::Result<Self> {
        let socket = match target {
            Target::Unix(path) => {
                let address = SocketAddrUnix::new(path)?;
                let socket = socket(AddressFamily::UNIX)?;
                connect_by(&socket, &address, deadline)?;
                socket
            }
            Target::Tcp(addresses) => connect_first(addresses, limit, deadline)?,
        };
        let tick = (limit / 8).clamp(TICK_MIN, TICK_MAX);
        set_socket_timeout(&socket, Timeout::Recv, Some(tick))?;
        set_socket_timeout(&socket, Timeout::Send, Some(tick))?;
        Ok(Self::Plain(socket))
    }

    /// Begins TLS with a server of this name, on a connection on which that has been agreed. No data can have come
    /// since: the client is first to speak.
    ///
    /// # Errors
    /// When data has come, or the server is not the one that it has to be.
    pub(super) fn begin_tls(
        self,
        tls: &ClientTls,
        server: &str,
        deadline: Instant,
    ) -> Result<Self, HandshakeError> {
        let Self::Plain(socket) = self else {
            return Err(HandshakeError::Protocol("it has begun TLS already"));
        };
        let look = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        if matches!(recv(&socket, &mut [0; 1], look), Ok((_, 1..))) {
            return Err(HandshakeError::Injected);
        }
        let go_on = &mut |error| wait_on(error, deadline);
        let (reader, writer) = tls.handshake_while(server, socket, go_on)?;
        Ok(Self::Tls {
            reader: Mutex::new(reader),
            writer,
        })
    }

    /// Returns the protection of the connection's traffic; `None` if it is not encrypted.
    pub(super) fn protection(&self) -> Option<Protection> {
        match self {
            Self::Plain(_) => None,
            Self::Tls { writer, .. } => writer.protection(),
        }
    }

    /// Receives the bytes that have come, or waits for a moment.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => match recv(socket, buffer, RecvFlags::empty()) {
                Ok((_, len)) => Ok(len),
                Err(error) => Err(error.into()),
            },
            Self::Tls { reader, .. } => {
                let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                reader.receive(buffer)
            }
        }
    }

    /// Sends all of both parts. After an error nothing can be sent any more: a part may have been sent.
    ///
    /// # Errors
    /// `TimedOut` when the deadline has passed.
    pub(super) fn send_all(&self, parts: [&[u8]; 2], deadline: Instant) -> io::Result<()> {
        match self {
            Self::Plain(socket) => send_plain(socket, parts, deadline),
            Self::Tls { writer, .. } => {
                writer.write_all_while(&parts, &mut |error| wait_on(error, deadline))
            }
        }
    }

    /// Sends `bytes` if that need not wait, and nothing after them.
    pub(super) fn say_last(&self, bytes: &[u8]) {
        match self {
            Self::Plain(socket) => {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                let _ = rustix::net::send(socket, bytes, flags);
                let _ = shutdown(socket, Shutdown::Write);
            }
            Self::Tls { writer, .. } => writer.say_last(bytes),
        }
    }

    /// Ends the stream: every thread that waits for it returns at once.
    pub(super) fn cut(&self) {
        match self {
            Self::Plain(socket) => {
                let _ = shutdown(socket, Shutdown::Both);
            }
            Self::Tls { writer, .. } => writer.cut(),
        }
    }
}

fn socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// Connects, waiting until the deadline at most.
fn connect_by(
    socket: &OwnedFd,
    address: &impl rustix::net::addr::SocketAddrArg,
    deadline: Instant,
) -> io::Result<()> {
    let left = remaining(deadline)?;
    set_socket_timeout(socket, Timeout::Send, Some(left))?;
    match connect(socket, address) {
        // What a socket with a timeout says when that has passed.
        Err(Errno::AGAIN | Errno::INPROGRESS) => Err(io::ErrorKind::TimedOut.into()),
        done => Ok(done?),
    }
}

fn connect_first(
    addresses: &[SocketAddr],
    limit: Duration,
    deadline: Instant,
) -> io::Result<OwnedFd> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for (tried, address) in addresses.iter().enumerate() {
        // One that does not answer leaves time for the others.
        let others = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = remaining(deadline)? / others;
        let socket = socket(family(address))?;
        match connect_by(&socket, address, Instant::now() + share) {
            Ok(()) => {
                watch(&socket, limit)?;
                return Ok(socket);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn family(address: &SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// Has the kernel notice when the other side no longer acknowledges.
fn watch(socket: &OwnedFd, limit: Duration) -> io::Result<()> {
    set_tcp_nodelay(socket, true)?;
    let silence = limit / 2;
    let millis = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
    set_tcp_user_timeout(socket, millis.max(1))?;
    let probe = Duration::from_secs((silence.as_secs() / 3).clamp(1, 60));
    set_tcp_keepidle(socket, probe)?;
    set_tcp_keepintvl(socket, probe)?;
    set_tcp_keepcnt(socket, 3)?;
    Ok(set_socket_keepalive(socket, true)?)
}

/// Returns the time that is left.
///
/// # Errors
/// `TimedOut` when no time is left.
pub(super) fn remaining(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(io::ErrorKind::TimedOut.into())
    } else {
        Ok(left)
    }
}

/// Checks whether to try again after an error: only the short timeout of a call has passed, and there is time left.
///
/// # Errors
/// Returns the error itself, or `TimedOut`.
pub(super) fn wait_on(error: io::Error, deadline: Instant) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => remaining(deadline).map(|_| ()),
        _ => Err(error),
    }
}

/// Receives at least one byte.
///
/// # Errors
/// `UnexpectedEof` at the end, `TimedOut` when the deadline has passed.
pub(super) fn receive_some(
    stream: &Stream,
    buffer: &mut [u8],
    deadline: Instant,
) -> io::Result<usize> {
    loop {
        match stream.receive(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                // A server that sends single bytes does not get more time by that.
                remaining(deadline)?;
                return Ok(len);
            }
            Err(error) => wait_on(error, deadline)?,
        }
    }
}

fn send_plain(socket: &OwnedFd, parts: [&[u8]; 2], deadline: Instant) -> io::Result<()> {
    let [mut head, mut data] = parts;
    while !head.is_empty() || !data.is_empty() {
        let slices = [head, data].map(IoSlice::new);
        let mut nothing = SendAncillaryBuffer::default();
        match sendmsg(socket, &slices, &mut nothing, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                let of_head = sent.min(head.len());
                head = head.get(of_head..).unwrap_or_default();
                data = data.get(sent - of_head..).unwrap_or_default();
            }
            Err(error) => wait_on(error.into(), deadline)?,
        }
    }
    Ok(())
}

/// A stream within a handshake, which has a deadline as a whole.
pub(super) struct Timed<'a> {
    pub(super) stream: &'a Stream,
    pub(super) deadline: Instant,
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        receive_some(self.stream, buffer, self.deadline)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.send_all([bytes, &[]], self.deadline)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
