//! Sending and receiving on a socket, with time limits.

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

/// Limit on the bytes of a body in memory that are sent together: only then are they counted as sent.
pub(super) const MEMORY_MAX: usize = 128 << 10;

/// Bytes of buffer for one receive: most requests are shorter.
const RECEIVE_BYTES: usize = 4 << 10;

/// First pause before another attempt on a socket that polls as closed for writing but is not. The kernel's TLS leaves a
/// socket in this state after a fault in the input, even once the error was read. The pause doubles up to
/// [`RETRY_INTERVAL`], so that many such connections do not keep the server busy.
const CLOSED_PAUSE: Duration = Duration::from_millis(10);

/// Time after which an operation is tried again without an event.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Appends received bytes to `into`; waits if there are none, and returns 0 at the end of the input. While it waits it
/// holds no buffer: most connections wait most of the time.
pub(super) async fn receive(socket: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<usize> {
    poll_fn(|context| {
        ready!(socket.poll_read_ready(context))?;
        into.reserve(RECEIVE_BYTES);
        // `read_buf` and not `try_read_buf`: after a short read it clears the readiness and saves another call. It loses
        // nothing when it is dropped.
        let received = pin!(socket.read_buf(into)).poll(context);
        if received.is_pending() && into.is_empty() {
            *into = Vec::new();
        }
        received
    })
    .await
}

/// Repeats an operation until the socket's send queue has capacity for it, and fails after `stall`. Only a success ends
/// the stall; an event without capacity does not. A kernel that is short of memory for sockets may refuse an operation on
/// a socket with an empty queue, and then never send an event: so the operation is also repeated without one.
pub(super) async fn when_writable<T>(
    socket: &TcpStream,
    stall: Duration,
    mut act: impl FnMut() -> io::Result<T>,
) -> Result<T, TransportError> {
    // Usually the first attempt succeeds, and the clock is not read.
    let mut deadline = None;
    let (mut has_event, mut pause) = (true, CLOSED_PAUSE);
    loop {
        let tried = match has_event {
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
        has_event = match timeout_at(deadline.min(now + RETRY_INTERVAL), ready).await {
            Ok(Ok(ready)) if ready.is_write_closed() => {
                sleep_until(deadline.min(now + pause)).await;
                pause = (pause * 2).min(RETRY_INTERVAL);
                true
            }
            Ok(Ok(_)) => true,
            Ok(Err(error)) => return Err(TransportError::Client(error)),
            Err(_) => false,
        };
    }
}

/// Sends as much as fits into the send queue now; returns the number of bytes.
pub(super) fn send_now(socket: &TcpStream, bytes: &[u8]) -> Result<usize, TransportError> {
    match socket.try_write(bytes) {
        Ok(sent) => Ok(sent),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(TransportError::Client(error)),
    }
}

/// Sends all bytes. With `more`, the kernel waits for what follows and sends it in the same packet.
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

/// Sends all bytes and removes what was sent: if the future is dropped, `bytes` has the rest.
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

/// Waits for capacity and sends some bytes; returns their number.
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
    async fn an_event_without_capacity_does_not_end_a_stall() {
        let (socket, mut client) = pair().await;
        // Whenever something arrives, epoll reports the socket as writable again.
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
    async fn a_socket_that_polls_as_closed_is_tried_less_and_less_often() {
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
    async fn a_send_that_is_dropped_half_way_leaves_the_rest() {
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
