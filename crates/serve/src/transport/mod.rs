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

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
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

/// A connection that carries HTTP/1, by the implementation of its records.
pub(crate) enum Transport {
    Plain(Plain),
    Secure(Box<Secure>),
    Kernel(Box<Kernel>),
}

impl Transport {
    /// Appends received data to `inbox`; returns 0 at the end of the client's data.
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

    /// Sends the head and the body of an answer.
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

    /// Fails if the client has closed its side or is gone, without reading what it may have sent. A client that waits for
    /// an answer rarely closes its side, and nothing else tells that a program has ended.
    pub(crate) fn check_client(&self) -> Result<(), TransportError> {
        let mut events = [PollFd::new(self.socket(), PollFlags::RDHUP)];
        let now = Timespec::default();
        match poll(&mut events, Some(&now)) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => Err(TransportError::Client(
                io::ErrorKind::ConnectionReset.into(),
            )),
            Err(error) => Err(TransportError::Client(error.into())),
        }
    }

    /// Returns whether the connection can continue after an answer of `length` bytes: the kernel may be unable to change a
    /// key that is used up.
    pub(crate) fn can_continue_after(&self, length: u64) -> bool {
        match self {
            Self::Plain(_) | Self::Secure(_) => true,
            Self::Kernel(kernel) => kernel.can_continue_after(length),
        }
    }

    /// Closes the connection: after complete answers with a lingering close, otherwise with a reset, so that the client
    /// does not take a truncated answer for the whole.
    pub(crate) async fn end(mut self, ended: Result<(), TransportError>, limits: &Limits) {
        let ended = match (&ended, &mut self) {
            (Ok(()), Self::Secure(secure)) => secure.finish(limits).await,
            (Ok(()), Self::Kernel(kernel)) => kernel.finish(limits).await,
            _ => ended,
        };
        if let (Ok(()) | Err(TransportError::Tls(_)), Self::Kernel(kernel)) = (&ended, &self) {
            // Records that the kernel has encrypted and not queued yet would be lost by a shutdown.
            if !wait_acknowledged(kernel.socket(), limits).await {
                return reset_on_close(kernel.socket());
            }
        }
        match ended {
            // The client that broke the protocol should receive the alert.
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
