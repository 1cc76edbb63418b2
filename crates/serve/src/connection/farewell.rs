//! How a connection ends, so that what was sent arrives.
//!
//! A socket that is closed while something is unread, or to which something comes later, resets the connection, and
//! the kernel throws away what it still had for the client. So our side is ended first, and the client is listened to
//! until it has taken everything and has ended its side.

use std::io;
use std::os::fd::AsFd;
use std::pin::pin;
use std::time::Duration;

use rustix::net::{Shutdown, sockopt};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::limits::Limits;

/// How long a client that has everything is listened to before its connection is closed.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// Bytes that a client may say meanwhile. Clients of HTTP/2 say that they have taken something.
const FAREWELL_MAX: usize = 256 << 10;

/// How long it takes the kernel, at most, to queue what it has sealed once there is room.
const QUEUES: Duration = Duration::from_millis(5);

/// Bytes a second that a client takes at least of the rest.
const SLOWEST: u64 = 8 << 10;

/// How often to look whether a client has taken the rest, at first and for one that takes its time.
const LOOK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Ends our side, and waits until the client has everything and has ended its side.
pub(super) async fn depart(socket: &TcpStream, limits: &Limits) {
    if rustix::net::shutdown(socket.as_fd(), Shutdown::Write).is_err() {
        return;
    }
    let mut listening = pin!(listen(socket));
    tokio::select! {
        biased;
        () = listening.as_mut() => return,
        is_taken = taken(socket, limits) => if !is_taken {
            return abort(socket);
        }
    }
    let _ = timeout(FAREWELL, listening).await;
}

/// Waits until the client has taken everything; returns whether it has. It has not if it takes nothing for too long.
pub(super) async fn taken(socket: &TcpStream, limits: &Limits) -> bool {
    let begun = Instant::now();
    let (mut last, mut since) = (usize::MAX, begun);
    let (mut look, mut empty, mut longest) = (LOOK.0, false, None);
    loop {
        let left = unacknowledged(socket);
        if std::mem::replace(&mut empty, left == 0) && empty {
            return true;
        }
        if left != last {
            (last, since) = (left, Instant::now());
        }
        let whole = Duration::from_secs(left as u64 / SLOWEST);
        let longest = *longest.get_or_insert(limits.stall + whole);
        if since.elapsed() > limits.stall || begun.elapsed() > longest {
            return false;
        }
        sleep(if empty { QUEUES } else { look }).await;
        look = (look * 2).min(LOOK.1);
    }
}

/// Bytes that the client has not acknowledged; none where it has gone.
pub(super) fn unacknowledged(socket: &TcpStream) -> usize {
    // A socket that was reset has no peer, and what it had sent counts as unacknowledged for ever.
    match socket.peer_addr() {
        Ok(_) => scrim_sys::tcp::unacknowledged(socket.as_fd()).unwrap_or(0),
        Err(_) => 0,
    }
}

/// Listens until the client has ended its side, or has said too much.
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

/// Waits until the client has ended its side, whatever it says before.
async fn ended(socket: &TcpStream) {
    let wait = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
    while let Ok(ready) = socket.ready(Interest::READABLE).await
        && !ready.is_read_closed()
    {
        let _ = socket.try_io(Interest::READABLE, wait);
    }
}

/// Has the connection reset when it is closed, whatever is still under way.
pub(super) fn abort(socket: &TcpStream) {
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await;
        (ours.unwrap(), listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn who_goes_on_talking_gets_all_that_was_sent() {
        let (mut socket, mut client) = pair().await;
        let mut sent = 0;
        while let Ok(Ok(len)) =
            timeout(Duration::from_millis(20), socket.write(&[7; 64 << 10])).await
        {
            sent += len;
        }
        let ours = async {
            depart(&socket, &Limits::default()).await;
            drop(socket);
        };
        let theirs = async move {
            let (mut got, mut some) = (0, vec![0; 256 << 10]);
            loop {
                client.write_all(b"more").await.unwrap();
                match client.read(&mut some).await.unwrap() {
                    0 => break got,
                    len => got += len,
                }
            }
        };
        let ((), got) = tokio::join!(ours, theirs);
        assert_eq!(got, sent);
    }

    #[tokio::test]
    async fn who_takes_nothing_is_not_waited_for() {
        let (mut socket, client) = pair().await;
        while timeout(Duration::from_millis(20), socket.write(&[7; 64 << 10]))
            .await
            .is_ok()
        {}
        let limits = Limits {
            stall: Duration::from_millis(50),
            ..Limits::default()
        };
        depart(&socket, &limits).await;
        drop((socket, client));
    }
}
