//! What carries HTTP/1: a socket, with TLS or without.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{Shutdown, sockopt};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::broken::Broken;
use super::kernel::Kernel;
use super::plain::Plain;
use super::pool::Pool;
use super::secure::Secure;
use crate::http::Body;
use crate::limits::Limits;

/// How long a client that has everything is listened to before its connection is closed.
const FAREWELL: Duration = Duration::from_secs(2);

/// And how much of what it says meanwhile, in bytes.
const FAREWELL_MAX: usize = 256 << 10;

/// A connection that carries HTTP/1.
pub(super) enum Transport {
    Plain(Plain),
    Secure(Box<Secure>),
    Kernel(Box<Kernel>),
}

impl Transport {
    /// Adds what has come to `inbox`; 0 bytes once the client sends no more.
    pub(super) async fn receive(
        &mut self,
        inbox: &mut Vec<u8>,
        limits: &Limits,
    ) -> Result<usize, Broken> {
        match self {
            Self::Plain(plain) => plain.receive(inbox).await,
            Self::Secure(secure) => secure.receive(inbox, limits).await,
            Self::Kernel(kernel) => kernel.receive(inbox, limits).await,
        }
    }

    /// Sends a head, and all of a body.
    pub(super) async fn send(
        &mut self,
        head: &[u8],
        body: &mut Body,
        pool: &Pool,
        limits: &Limits,
    ) -> Result<(), Broken> {
        match self {
            Self::Plain(plain) => plain.send(head, body, pool, limits).await,
            Self::Secure(secure) => secure.send(head, body, pool, limits).await,
            Self::Kernel(kernel) => kernel.send(head, body, pool, limits).await,
        }
    }

    /// Whether it can go on after an answer of so many bytes: the kernel may not be able to change a key that
    /// is used up.
    pub(super) fn lasts(&self, length: u64) -> bool {
        match self {
            Self::Plain(_) | Self::Secure(_) => true,
            Self::Kernel(kernel) => kernel.lasts(length),
        }
    }

    /// Closes the connection: after whole answers so that the client knows, else so that it cannot take
    /// what it has for the whole.
    pub(super) async fn end(mut self, ended: Result<(), Broken>, limits: &Limits) {
        let ended = match (&ended, &mut self) {
            (Ok(()), Self::Secure(secure)) => secure.finish(limits).await,
            (Ok(()), Self::Kernel(kernel)) => kernel.finish(limits).await,
            _ => ended,
        };
        if let (Ok(()) | Err(Broken::Tls(_)), Self::Kernel(kernel)) = (&ended, &self) {
            kernel.drain(limits).await;
        }
        match ended {
            // A client that has broken the protocol has been told so, and should hear it.
            Ok(()) | Err(Broken::Tls(_)) => depart(self.socket()).await,
            Err(_) => abort(self.socket()),
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(plain) => plain.socket(),
            Self::Secure(secure) => secure.socket(),
            Self::Kernel(kernel) => kernel.socket(),
        }
    }
}

/// Ends our side and waits a little for the client's: closing a socket with something unread would reset
/// the connection, and the client could lose what is still under way to it.
async fn depart(socket: &TcpStream) {
    if rustix::net::shutdown(socket.as_fd(), Shutdown::Write).is_ok() {
        let _ = timeout(FAREWELL, listen(socket)).await;
    }
}

/// Until the client has ended its side, or has said too much.
async fn listen(socket: &TcpStream) {
    let mut ignored = [0; 512];
    let mut left = FAREWELL_MAX;
    while socket.readable().await.is_ok() {
        tokio::task::coop::consume_budget().await;
        match socket.try_read(&mut ignored) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(len @ 1..) if len < left => left -= len,
            Ok(_) => return,
            // A record that the kernel does not open, or that is no data, stays where it is, with all behind it.
            // Once both sides have ended, nobody is reset for it.
            Err(_) => return ended(socket).await,
        }
    }
}

/// Until the client has ended its side, whatever it says before.
async fn ended(socket: &TcpStream) {
    let wait = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
    while let Ok(ready) = socket.ready(Interest::READABLE).await
        && !ready.is_read_closed()
    {
        let _ = socket.try_io(Interest::READABLE, wait);
    }
}

/// Resets the connection, whatever is still under way.
fn abort(socket: &TcpStream) {
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}
