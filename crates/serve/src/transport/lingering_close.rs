//! Lingering close: the end of a connection such that the client receives what was sent.
//!
//! If a socket is closed while input is unread, or if input arrives afterwards, the kernel resets the connection and
//! discards what it has not delivered. So the sending side is shut down first, and input is read and discarded until
//! the client has acknowledged everything and has closed its side.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{Shutdown, sockopt};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::limits::Limits;

/// Time that a client which has acknowledged everything gets to close its side.
pub(crate) const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Limit on the input that is discarded meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiscardLimit {
    /// No limit but the time: a client in the middle of an upload may send a gigabyte before it reads the answer.
    Unlimited,
    /// Some HTTP/2 control frames, such as WINDOW_UPDATE.
    ControlFrames,
}

impl DiscardLimit {
    fn bytes(self) -> usize {
        match self {
            Self::Unlimited => usize::MAX,
            Self::ControlFrames => 256 << 10,
        }
    }
}

/// Bytes of input that are discarded by one call.
const DISCARD_BYTES: usize = 16 << 10;

/// Longest time that the kernel takes to queue encrypted records once the send queue has capacity.
const QUEUE_DELAY: Duration = Duration::from_millis(5);

/// Minimum rate in bytes per second at which a client must acknowledge the rest.
const MIN_RATE: u64 = 8 << 10;

/// First and longest pause between checks of the unacknowledged bytes.
const CHECK_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Shuts down the sending side, and waits until the client has acknowledged everything and has closed its side.
pub(crate) async fn lingering_close(socket: &TcpStream, discard: DiscardLimit, limits: &Limits) {
    if rustix::net::shutdown(socket.as_fd(), Shutdown::Write).is_err() {
        return;
    }
    tokio::select! {
        biased;
        // First, since a client that never stops sending uses up the task's budget, and timers need budget too.
        is_acknowledged = wait_acknowledged(socket, limits) => if !is_acknowledged {
            return reset_on_close(socket);
        },
        () = discard_input(socket, usize::MAX) => return,
    }
    let _ = timeout(LINGER_TIMEOUT, discard_input(socket, discard.bytes())).await;
}

/// Waits until the client has acknowledged everything; returns false if it makes too little progress.
pub(super) async fn wait_acknowledged(socket: &TcpStream, limits: &Limits) -> bool {
    let begun = Instant::now();
    let (mut last, mut since) = (usize::MAX, begun);
    let (mut pause, mut empty, mut longest) = (CHECK_PAUSE.0, false, None);
    loop {
        let left = unacknowledged_bytes(socket);
        if std::mem::replace(&mut empty, left == 0) && empty {
            return true;
        }
        if left != last {
            (last, since) = (left, Instant::now());
        }
        let whole = Duration::from_secs(left as u64 / MIN_RATE);
        let longest = *longest.get_or_insert(limits.stall + whole);
        if since.elapsed() > limits.stall || begun.elapsed() > longest {
            return false;
        }
        sleep(if empty { QUEUE_DELAY } else { pause }).await;
        pause = (pause * 2).min(CHECK_PAUSE.1);
    }
}

/// Number of bytes that the client has not acknowledged; 0 if the connection is gone.
pub(crate) fn unacknowledged_bytes(socket: &TcpStream) -> usize {
    // A socket that was reset has no peer, and what it had sent stays unacknowledged for ever.
    match socket.peer_addr() {
        Ok(_) => scrim_sys::tcp::unacknowledged(socket.as_fd()).unwrap_or(0),
        Err(_) => 0,
    }
}

/// Discards input until the client has closed its side, or has sent `most` bytes.
async fn discard_input(socket: &TcpStream, most: usize) {
    let mut left = most;
    while socket.readable().await.is_ok() {
        tokio::task::coop::consume_budget().await;
        match discard_available(socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(len @ 1..) if len < left => left -= len,
            Ok(_) => return,
            // A record that the kernel cannot decrypt, or that is not data, stays in the queue with everything behind it.
            // Once both sides are closed, that does not reset the connection.
            Err(_) => return peer_closed(socket).await,
        }
    }
}

/// Discards some of the input that has arrived; returns the number of bytes. The buffer is on the stack, so that an idle
/// connection has none.
fn discard_available(socket: &TcpStream) -> io::Result<usize> {
    socket.try_read(&mut [0; DISCARD_BYTES])
}

/// Waits until the client has closed its side, whatever arrives before.
async fn peer_closed(socket: &TcpStream) {
    let wait = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
    while let Ok(ready) = socket.ready(Interest::READABLE).await
        && !ready.is_read_closed()
    {
        let _ = socket.try_io(Interest::READABLE, wait);
    }
}

/// Makes the close of the socket reset the connection and discard unsent data.
pub(crate) fn reset_on_close(socket: &TcpStream) {
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
    async fn a_client_that_keeps_sending_receives_all_that_was_sent() {
        let (mut socket, mut client) = pair().await;
        let mut sent = 0;
        while let Ok(Ok(len)) =
            timeout(Duration::from_millis(20), socket.write(&[7; 64 << 10])).await
        {
            sent += len;
        }
        let ours = async {
            lingering_close(&socket, DiscardLimit::Unlimited, &Limits::default()).await;
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
    async fn a_client_in_the_middle_of_an_upload_receives_its_answer() {
        const UPLOAD: usize = 4 << 20;
        let (mut socket, mut client) = pair().await;
        socket.write_all(b"405").await.unwrap();
        let ours = async {
            lingering_close(&socket, DiscardLimit::Unlimited, &Limits::default()).await;
            drop(socket);
        };
        let theirs = async move {
            client.write_all(&vec![7; UPLOAD]).await.unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let ((), answer) = tokio::join!(ours, theirs);
        assert_eq!(answer, b"405");
    }

    #[tokio::test]
    async fn a_client_that_floods_its_connection_with_frames_is_reset() {
        let (socket, mut client) = pair().await;
        let ours = async {
            lingering_close(&socket, DiscardLimit::ControlFrames, &Limits::default()).await;
            drop(socket);
        };
        let theirs = async move { while client.write_all(&[7; 64 << 10]).await.is_ok() {} };
        tokio::join!(ours, theirs);
    }

    #[tokio::test]
    async fn a_client_that_accepts_nothing_is_not_waited_for() {
        let (mut socket, client) = pair().await;
        while timeout(Duration::from_millis(20), socket.write(&[7; 64 << 10]))
            .await
            .is_ok()
        {}
        let limits = Limits {
            stall: Duration::from_millis(50),
            ..Limits::default()
        };
        lingering_close(&socket, DiscardLimit::ControlFrames, &limits).await;
        drop((socket, client));
    }
}
