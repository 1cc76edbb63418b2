//! The carrier of HTTP/1: a socket, with TLS or without.

use tokio::net::TcpStream;

use super::broken::Broken;
use super::farewell::{Talk, abort, depart, taken};
use super::kernel::Kernel;
use super::plain::Plain;
use super::pool::Purse;
use super::secure::Secure;
use crate::http::Body;
use crate::limits::Limits;

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
        purse: Purse<'_>,
        limits: &Limits,
    ) -> Result<(), Broken> {
        match self {
            Self::Plain(plain) => plain.send(head, body, purse, limits).await,
            Self::Secure(secure) => secure.send(head, body, purse, limits).await,
            Self::Kernel(kernel) => kernel.send(head, body, purse, limits).await,
        }
    }

    /// Returns whether it can go on after an answer of `length` bytes: the kernel may not be able to change a key that
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
            // What the kernel has sealed and not queued yet is lost when our side ends.
            if !taken(kernel.socket(), limits).await {
                return abort(kernel.socket());
            }
        }
        match ended {
            // A client that has broken the protocol has been told so, and should hear it.
            Ok(()) | Err(Broken::Tls(_)) => depart(self.socket(), Talk::Upload, limits).await,
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
