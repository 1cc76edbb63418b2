//! A socket's bytes, with time limits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::SendFlags;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::broken::Broken;
use crate::limits::Limits;

/// Most bytes that are received at a time.
const RECEIVE: usize = 16 << 10;

/// Adds what has come to `into`, and waits where nothing has; 0 bytes once the other side sends no more.
/// While it waits there is no buffer: most connections wait most of the time.
pub(super) async fn receive(socket: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        socket.readable().await?;
        let had = into.len();
        into.resize(had + RECEIVE, 0);
        let received = receive_now(socket, &mut into[had..]);
        into.truncate(had + *received.as_ref().unwrap_or(&0));
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if into.is_empty() {
                    *into = Vec::new();
                }
            }
            received => return received,
        }
    }
}

/// By way of `poll_read` and not `try_read`: that knows from a short answer that nothing is left, and
/// saves the call that would say so.
fn receive_now(socket: &mut TcpStream, into: &mut [u8]) -> io::Result<usize> {
    let mut context = Context::from_waker(std::task::Waker::noop());
    let mut room = ReadBuf::new(into);
    match Pin::new(socket).poll_read(&mut context, &mut room) {
        Poll::Ready(Ok(())) => Ok(room.filled().len()),
        Poll::Ready(Err(error)) => Err(error),
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
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
