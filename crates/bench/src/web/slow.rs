//! Clients that take little at a time.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::error::WebError;
use super::trust::Trust;
use super::url::Url;

/// Interval at which each client takes something.
const TURN: Duration = Duration::from_millis(100);
/// Kernel buffer for what a slow client has not taken, in bytes; the kernel doubles it.
const ROOM: usize = 8 << 10;

/// Clients that have asked for a file and take it so slowly that the server has to wait for each of them.
pub struct SlowCrowd {
    sockets: Vec<TcpStream>,
    /// Taken at a time by each.
    portion: Vec<u8>,
    next: usize,
    due: Instant,
    taken: u64,
}

impl SlowCrowd {
    /// Opens `count` connections, each of which takes `rate` bytes a second once they are [let](Self::step).
    ///
    /// # Errors
    /// When one of them is not served.
    pub fn gather(
        url: &Url,
        trust: Option<&Trust>,
        count: usize,
        rate: usize,
    ) -> Result<Self, WebError> {
        let one = || {
            let mut connection = Connection::with_receive_buffer(url, trust, Some(ROOM))?;
            connection.send(&url.request())?;
            let (server, socket) = connection.into_socket();
            socket
                .set_nonblocking(true)
                .map_err(WebError::socket("stop waiting for it", &server))?;
            Ok(socket)
        };
        let sockets: Result<Vec<_>, WebError> = (0..count).map(|_| one()).collect();
        Ok(Self {
            sockets: sockets?,
            portion: vec![0; (rate / 10).max(1)],
            next: 0,
            due: Instant::now(),
            taken: 0,
        })
    }

    /// Lets those clients take something whose turn it is; the thread does other work in between.
    ///
    /// # Errors
    /// When the server has ended a connection.
    pub fn step(&mut self, now: Instant) -> io::Result<()> {
        let count = self.sockets.len();
        if count == 0 {
            return Ok(());
        }
        let apart = TURN / u32::try_from(count).unwrap_or(u32::MAX);
        // A client that has slept does not catch up.
        if now.saturating_duration_since(self.due) > TURN {
            self.due = now;
        }
        if self.due > now {
            return Ok(());
        }
        self.due += apart;
        let socket = &mut self.sockets[self.next];
        self.next = (self.next + 1) % count;
        match socket.read(&mut self.portion) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => {
                self.taken += got as u64;
                Ok(())
            }
            Err(error)
                if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted]
                    .contains(&error.kind()) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Bytes that all of them have taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::tests::{answer, server};
    use super::*;

    #[test]
    fn each_takes_a_little_in_turn() {
        let url = server(answer(&vec![7; 1 << 20]), 4);
        let mut crowd = SlowCrowd::gather(&url, None, 4, 1000).unwrap();
        let start = Instant::now();
        for turn in 1..200 {
            crowd.step(start + TURN * turn).unwrap();
            std::thread::sleep(Duration::from_micros(100));
        }
        assert!((100..=20_000).contains(&crowd.taken()), "{}", crowd.taken());
    }
}
