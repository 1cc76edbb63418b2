//! The end of a connection, made so that what was sent arrives.
//!
//! A socket that is closed while something is unread, or to which something comes later, resets the connection, and
//! the kernel throws away what it still had for the client. So our side is ended first, and the client is listened to
//! until it has taken everything and has ended its side.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{Shutdown, sockopt};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::limits::Limits;

/// Time for which a client that has everything is listened to before its connection is closed.
pub(crate) const FAREWELL: Duration = Duration::from_secs(2);

/// Limit on what a client may say meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Talk {
    /// No limit but the time: a client in the middle of an upload brings a gigabyte before it looks at its answer.
    Upload,
    /// A few frames, such as those by which a client of HTTP/2 says that it has taken something.
    Frames,
}

impl Talk {
    fn bytes(self) -> usize {
        match self {
            Self::Upload => usize::MAX,
            Self::Frames => 256 << 10,
        }
    }
}

/// Bytes of what a client says that are received and thrown away at a time.
const IGNORED: usize = 16 << 10;

/// Time that the kernel needs, at most, to queue what it has sealed once there is room.
const QUEUES: Duration = Duration::from_millis(5);

/// Bytes a second that a client takes at least of the rest.
const SLOWEST: u64 = 8 << 10;

/// Pause between looks whether a client has taken the rest: at first, and for a slow one.
const LOOK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Ends our side, and waits until the client has everything and has ended its side.
pub(super) async fn depart(socket: &TcpStream, talk: Talk, limits: &Limits) {
    if rustix::net::shutdown(socket.as_fd(), Shutdown::Write).is_err() {
        return;
    }
    tokio::select! {
        biased;
        // First, since a client that never stops talking uses up the task's turn, which its clock needs too.
        is_taken = taken(socket, limits) => if !is_taken {
            return abort(socket);
        },
        () = listen(socket, usize::MAX) => return,
    }
    let _ = timeout(FAREWELL, listen(socket, talk.bytes())).await;
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

/// Listens until the client has ended its side, or has said `most` bytes.
async fn listen(socket: &TcpStream, most: usize) {
    let mut left = most;
    while socket.readable().await.is_ok() {
        tokio::task::coop::consume_budget().await;
        match ignore(socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(len @ 1..) if len < left => left -= len,
            Ok(_) => return,
            // A record that the kernel does not open, or that is no data, stays where it is, with all behind it.
            // Once both sides have ended, nobody is reset for it.
            Err(_) => return ended(socket).await,
        }
    }
}

/// Throws away some of what has come; returns how much. Its buffer is not one that each connection keeps.
fn ignore(socket: &TcpStream) -> io::Result<usize> {
    socket.try_read(&mut [0; IGNORED])
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

/// Has the connection reset when it is closed, whatever is still in flight.
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
            depart(&socket, Talk::Upload, &Limits::default()).await;
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
    async fn a_client_that_is_in_the_middle_of_an_upload_hears_its_answer() {
        const UPLOAD: usize = 4 << 20;
        let (mut socket, mut client) = pair().await;
        socket.write_all(b"405").await.unwrap();
        let ours = async {
            depart(&socket, Talk::Upload, &Limits::default()).await;
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
            depart(&socket, Talk::Frames, &Limits::default()).await;
            drop(socket);
        };
        let theirs = async move { while client.write_all(&[7; 64 << 10]).await.is_ok() {} };
        tokio::join!(ours, theirs);
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
        depart(&socket, Talk::Frames, &limits).await;
        drop((socket, client));
    }
}
