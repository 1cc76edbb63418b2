//! A socket's bytes, with time limits.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::net::SendFlags;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::TcpStream;

use super::broken::Broken;
use crate::limits::Limits;

/// Room for what is received at a time: most requests are shorter.
const RECEIVE: usize = 4 << 10;

/// Adds what has come to `into`, and waits where nothing has; 0 bytes once the other side sends no more.
/// While it waits there is no buffer: most connections wait most of the time.
pub(super) async fn receive(socket: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        socket.readable().await?;
        into.reserve(RECEIVE);
        // `read_buf` and not `try_read_buf`: it knows from a short answer that nothing is left, and saves the
        // call that would say so. It is asked once, and loses nothing when it is dropped.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(received) = pin!(socket.read_buf(into)).poll(&mut context) {
            return received;
        }
        if into.is_empty() {
            *into = Vec::new();
        }
    }
}

/// Does something that the socket may not have room for, once it has.
pub(super) async fn when_writable<T>(
    socket: &TcpStream,
    stall: Duration,
    mut act: impl FnMut() -> io::Result<T>,
) -> Result<T, Broken> {
    loop {
        match socket.try_io(Interest::WRITABLE, &mut act) {
            Ok(done) => return Ok(done),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Broken::Client(error)),
        }
        match tokio::time::timeout(stall, socket.writable()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Broken::Client(error)),
            Err(_) => return Err(Broken::Stalled),
        }
    }
}

/// Sends what there is room for now; tells how much.
pub(super) fn send_now(socket: &TcpStream, bytes: &[u8]) -> Result<usize, Broken> {
    match socket.try_write(bytes) {
        Ok(sent) => Ok(sent),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(Broken::Client(error)),
    }
}

/// Sends all of it.
pub(super) async fn send_all(
    socket: &TcpStream,
    mut bytes: &[u8],
    limits: &Limits,
) -> Result<(), Broken> {
    while !bytes.is_empty() {
        let sent = when_writable(socket, limits.stall, || {
            Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
        });
        bytes = &bytes[sent.await?..];
    }
    Ok(())
}
