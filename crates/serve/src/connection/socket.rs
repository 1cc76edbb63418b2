//! A socket's bytes, with time limits.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::ready;
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
    poll_fn(|context| {
        ready!(socket.poll_read_ready(context))?;
        into.reserve(RECEIVE);
        // `read_buf` and not `try_read_buf`: it knows from a short answer that nothing is left, and saves the
        // call that would say so. It loses nothing when it is dropped.
        let received = pin!(socket.read_buf(into)).poll(context);
        if received.is_pending() && into.is_empty() {
            *into = Vec::new();
        }
        received
    })
    .await
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

/// Sends all of it. With `more`, the kernel waits for what follows and sends it in the same packet.
pub(super) async fn send_all(
    socket: &TcpStream,
    mut bytes: &[u8],
    more: bool,
    limits: &Limits,
) -> Result<(), Broken> {
    let mut flags = SendFlags::NOSIGNAL;
    flags.set(SendFlags::MORE, more);
    while !bytes.is_empty() {
        let send = || Ok(rustix::net::send(socket, bytes, flags)?);
        let sent = when_writable(socket, limits.stall, send).await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}
