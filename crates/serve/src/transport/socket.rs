//! A socket's bytes, with time limits.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::ready;
use std::time::Duration;

use rustix::net::SendFlags;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::error::TransportError;
use crate::limits::Limits;

/// Room for what is received at a time: most requests are shorter.
const RECEIVE: usize = 4 << 10;

/// Time to wait, at first, for room in a socket that is said to be closed for writing and is not: so it is for ever
/// once the kernel's TLS has found a fault in what came, though the error was taken from the socket. It doubles each
/// time, up to [`UNTOLD`]: many such connections of clients that take nothing must not keep the server busy.
const CLOSED: Duration = Duration::from_millis(10);

/// Time to wait for word of room, before it is tried again without.
const UNTOLD: Duration = Duration::from_millis(500);

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

/// Does something that the socket may not have room for, once it has. Only a success ends a stall: a socket that says
/// it has room, and has not, does not. A kernel that is short of memory for sockets may refuse on one that has nothing
/// in flight, and then never say that there is room: so the call is repeated without being told, too.
pub(super) async fn when_writable<T>(
    socket: &TcpStream,
    stall: Duration,
    mut act: impl FnMut() -> io::Result<T>,
) -> Result<T, TransportError> {
    // Most sockets have room, so that there is no need to look at the clock.
    let mut deadline = None;
    let (mut told, mut pause) = (true, CLOSED);
    loop {
        let tried = match told {
            true => socket.try_io(Interest::WRITABLE, &mut act),
            false => act(),
        };
        match tried {
            Ok(done) => return Ok(done),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(TransportError::Client(error)),
        }
        let now = Instant::now();
        let deadline = *deadline.get_or_insert(now + stall);
        if now >= deadline {
            return Err(TransportError::Stalled);
        }
        let ready = socket.ready(Interest::WRITABLE);
        told = match timeout_at(deadline.min(now + UNTOLD), ready).await {
            Ok(Ok(ready)) if ready.is_write_closed() => {
                sleep_until(deadline.min(now + pause)).await;
                pause = (pause * 2).min(UNTOLD);
                true
            }
            Ok(Ok(_)) => true,
            Ok(Err(error)) => return Err(TransportError::Client(error)),
            Err(_) => false,
        };
    }
}

/// Sends as much as there is room for now; returns how much.
pub(super) fn send_now(socket: &TcpStream, bytes: &[u8]) -> Result<usize, TransportError> {
    match socket.try_write(bytes) {
        Ok(sent) => Ok(sent),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(TransportError::Client(error)),
    }
}

/// Sends all of it. With `more`, the kernel waits for what follows and sends it in the same packet.
pub(super) async fn send_all(
    socket: &TcpStream,
    mut bytes: &[u8],
    more: bool,
    limits: &Limits,
) -> Result<(), TransportError> {
    while !bytes.is_empty() {
        let sent = send_some(socket, bytes, more, limits).await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Sends all of it, and takes out what was sent: dropped in the middle of that, it leaves what is left.
pub(super) async fn send_from(
    socket: &TcpStream,
    bytes: &mut Vec<u8>,
    limits: &Limits,
) -> Result<(), TransportError> {
    while !bytes.is_empty() {
        let sent = send_some(socket, bytes, false, limits).await?;
        bytes.drain(..sent);
    }
    Ok(())
}

/// Sends some of it, once there is room; returns the number of bytes.
pub(super) async fn send_some(
    socket: &TcpStream,
    bytes: &[u8],
    more: bool,
    limits: &Limits,
) -> Result<usize, TransportError> {
    let mut flags = SendFlags::NOSIGNAL;
    flags.set(SendFlags::MORE, more);
    let send = || Ok(rustix::net::send(socket, bytes, flags)?);
    when_writable(socket, limits.stall, send).await
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await;
        (ours.unwrap(), listener.accept().await.unwrap().0)
    }

    fn limits(stall: Duration) -> Limits {
        Limits {
            stall,
            ..Limits::default()
        }
    }

    #[tokio::test]
    async fn room_that_is_only_said_to_be_there_does_not_end_a_stall() {
        let (socket, mut client) = pair().await;
        // Whatever arrives, epoll says again that there is room.
        let talk = async {
            while client.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let full = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        tokio::select! {
            () = talk => panic!("the connection broke"),
            ended = when_writable(&socket, Duration::from_millis(100), full) => {
                assert!(matches!(ended, Err(TransportError::Stalled)), "{ended:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_socket_that_is_said_to_be_closed_is_tried_less_and_less_often() {
        let (socket, client) = pair().await;
        rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).unwrap();
        drop(client);
        let mut tries = 0;
        let full = || {
            tries += 1;
            Err::<(), _>(io::ErrorKind::WouldBlock.into())
        };
        let ended = when_writable(&socket, Duration::from_secs(1), full).await;
        assert!(matches!(ended, Err(TransportError::Stalled)), "{ended:?}");
        assert!((3..=12).contains(&tries), "{tries} tries");
    }

    #[tokio::test]
    async fn sending_that_is_dropped_half_way_leaves_what_is_left() {
        let (socket, mut client) = pair().await;
        let all: Vec<u8> = (0..=255).cycle().take(8 << 20).collect();
        let mut left = all.clone();
        let patient = limits(Duration::from_secs(60));
        let sending = send_from(&socket, &mut left, &patient);
        let dropped = tokio::time::timeout(Duration::from_millis(50), sending).await;
        assert!(dropped.is_err() && !left.is_empty() && left.len() < all.len());
        let mut came = Vec::new();
        let (sent, ()) = tokio::join!(send_from(&socket, &mut left, &patient), async {
            while came.len() < all.len() {
                client.read_buf(&mut came).await.unwrap();
            }
        });
        sent.unwrap();
        assert!(left.is_empty() && came == all);
    }
}
