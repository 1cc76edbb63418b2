//! Bytes between a client's socket and HTTP: records of TLS made here or by the kernel, or plain TCP; buffers, timeouts,
//! and the end of a connection. [`Transport`] carries HTTP/1.

mod batch;
mod error;
mod fill;
mod kernel;
mod lingering_close;
mod plain;
mod pool;
mod secure;
mod send_file;
mod socket;

use tokio::net::TcpStream;

pub(crate) use error::TransportError;
pub(crate) use kernel::Kernel;
use lingering_close::wait_acknowledged;
pub(crate) use lingering_close::{
    DiscardLimit, LINGER_TIMEOUT, lingering_close, reset_on_close, unacknowledged_bytes,
};
pub(crate) use plain::Plain;
pub(crate) use pool::{Pool, PoolHandle};
pub(crate) use secure::Secure;
pub(crate) use send_file::check_intact;

use crate::http::Body;
use crate::limits::Limits;

/// A connection that carries HTTP/1.
pub(crate) enum Transport {
    Plain(Plain),
    Secure(Box<Secure>),
    Kernel(Box<Kernel>),
}

impl Transport {
    /// Adds what has come to `inbox`; 0 bytes once the client sends no more.
    pub(crate) async fn receive(
        &mut self,
        inbox: &mut Vec<u8>,
        limits: &Limits,
    ) -> Result<usize, TransportError> {
        match self {
            Self::Plain(plain) => plain.receive(inbox).await,
            Self::Secure(secure) => secure.receive(inbox, limits).await,
            Self::Kernel(kernel) => kernel.receive(inbox, limits).await,
        }
    }

    /// Sends a head, and all of a body.
    pub(crate) async fn send(
        &mut self,
        head: &[u8],
        body: &mut Body,
        pool: PoolHandle<'_>,
        limits: &Limits,
    ) -> Result<(), TransportError> {
        match self {
            Self::Plain(plain) => plain.send(head, body, pool, limits).await,
            Self::Secure(secure) => secure.send(head, body, pool, limits).await,
            Self::Kernel(kernel) => kernel.send(head, body, pool, limits).await,
        }
    }

    /// Returns whether it can go on after an answer of `length` bytes: the kernel may not be able to change a key that
    /// is used up.
    pub(crate) fn lasts(&self, length: u64) -> bool {
        match self {
            Self::Plain(_) | Self::Secure(_) => true,
            Self::Kernel(kernel) => kernel.lasts(length),
        }
    }

    /// Closes the connection: after whole answers so that the client knows, else so that it cannot take
    /// what it has for the whole.
    pub(crate) async fn end(mut self, ended: Result<(), TransportError>, limits: &Limits) {
        let ended = match (&ended, &mut self) {
            (Ok(()), Self::Secure(secure)) => secure.finish(limits).await,
            (Ok(()), Self::Kernel(kernel)) => kernel.finish(limits).await,
            _ => ended,
        };
        if let (Ok(()) | Err(TransportError::Tls(_)), Self::Kernel(kernel)) = (&ended, &self) {
            // What the kernel has sealed and not queued yet is lost when our side ends.
            if !wait_acknowledged(kernel.socket(), limits).await {
                return reset_on_close(kernel.socket());
            }
        }
        match ended {
            // A client that has broken the protocol has been told so, and should hear it.
            Ok(()) | Err(TransportError::Tls(_)) => {
                lingering_close(self.socket(), DiscardLimit::Unlimited, limits).await;
            }
            Err(_) => reset_on_close(self.socket()),
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
