//! A volume's figures over HTTP, for Prometheus: `GET /metrics` on a loopback address and nothing else.
//!
//! One connection at a time carries one request, which has to come whole within seconds; what is answered
//! is as long as a page. So nobody who connects can have more than a moment of one thread.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::error::CliError;

/// How long a client may take to say what it wants, and as long again to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest request, in bytes.
const REQUEST_MAX: usize = 4096;
/// How long to wait after a client could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// A socket that nobody is served on yet.
pub(crate) struct MetricsListener(TcpListener);

/// Serves until it is dropped.
pub(crate) struct Metrics {
    address: SocketAddr,
    /// The thread ends when this is closed.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsListener {
    /// Listens on a loopback address; others are refused.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, CliError> {
        if !address.ip().is_loopback() {
            return Err(CliError::usage(format!(
                "--metrics {address} could be reached from other machines, without protection; use a \
                 loopback address such as 127.0.0.1:9750"
            )));
        }
        TcpListener::bind(address)
            .map(Self)
            .map_err(|error| CliError::io(format_args!("serve figures on {address}"), &error))
    }

    /// Serves what `page` makes, on a thread of its own.
    pub(crate) fn serve(
        self,
        page: impl Fn() -> String + Send + 'static,
    ) -> Result<Metrics, CliError> {
        let fail = |error: io::Error| CliError::io("serve figures", &error);
        let address = self.0.local_addr().map_err(fail)?;
        // A client that has gone before it is accepted must not be waited for.
        self.0.set_nonblocking(true).map_err(fail)?;
        let (stop, stopped) = UnixStream::pair().map_err(fail)?;
        let thread = thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || serve(&self.0, &stopped, &page))
            .map_err(fail)?;
        Ok(Metrics {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Metrics {
    pub(crate) fn uri(&self) -> String {
        format!("http://{}/metrics", self.address)
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, stopped: &UnixStream, page: &impl Fn() -> String) {
    loop {
        let mut waiting = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
        ];
        if poll(&mut waiting, None).is_err() {
            continue;
        }
        if !waiting[1].revents().is_empty() {
            return;
        }
        match listener.accept() {
            // One that breaks off harms only itself.
            Ok((stream, _)) => drop(converse(&stream, page)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

fn converse(mut stream: &TcpStream, page: &impl Fn() -> String) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut room = [0; REQUEST_MAX];
    let Some(len) = read_head(stream, &mut room)? else {
        return stream.write_all(&answer(Err(Refusal::BadRequest)));
    };
    let answer = answer(judge(&room[..len]).map(|()| page()));
    stream.write_all(&answer)
}

/// Reads up to the empty line that ends a request's head; `None` if there is none where it has to be.
fn read_head(mut stream: &TcpStream, room: &mut [u8]) -> io::Result<Option<usize>> {
    let deadline = Instant::now() + PATIENCE;
    let mut used = 0;
    while used < room.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut room[used..]) {
            Ok(0) => return Ok(None),
            Ok(more) => used += more,
            // A process that was stopped and goes on.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if room[..used].windows(4).any(|four| four == b"\r\n\r\n") {
            return Ok(Some(used));
        }
    }
    Ok(None)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    BadRequest,
    NotFound,
    MethodNotAllowed,
}

/// Whether a request is one for the page.
fn judge(head: &[u8]) -> Result<(), Refusal> {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| Refusal::BadRequest)?;
    let mut words = line.split(' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) => {
            match (method, target) {
                ("GET", "/metrics") => Ok(()),
                ("GET", _) => Err(Refusal::NotFound),
                _ => Err(Refusal::MethodNotAllowed),
            }
        }
        _ => Err(Refusal::BadRequest),
    }
}

fn answer(page: Result<String, Refusal>) -> Vec<u8> {
    let (status, allow, body) = match page {
        Ok(page) => ("200 OK", "", page),
        Err(Refusal::BadRequest) => ("400 Bad Request", "", "no HTTP request\n".to_owned()),
        Err(Refusal::NotFound) => ("404 Not Found", "", "there is /metrics only\n".to_owned()),
        Err(Refusal::MethodNotAllowed) => (
            "405 Method Not Allowed",
            "Allow: GET\r\n",
            "GET only\n".to_owned(),
        ),
    };
    let len = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {len}\r\n{allow}Connection: close\r\n\r\n"
    );
    (head + &body).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        // It may answer before it has taken all.
        let _ = stream.write_all(request);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn one_page_is_served_and_nothing_else() {
        let listener = MetricsListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let metrics = listener.serve(|| "a 1\n".to_owned()).unwrap();
        let get = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        for _ in 0..3 {
            let answer = ask(metrics.address, get);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.ends_with("\r\n\r\na 1\n"), "{answer}");
        }
        let long = [b'x'; REQUEST_MAX];
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"GET /metrics/../x HTTP/1.0\r\n\r\n", "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"GET /metrics HTTP/1.1\r\n", "400"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"GET /metrics HTTP/9 HTTP/1.1\r\n\r\n", "400"),
            (b"\xff\xff\r\n\r\n", "400"),
            (&long, "400"),
        ] {
            let answer = ask(metrics.address, request);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{answer}"
            );
        }
        assert!(ask(metrics.address, get).contains("200 OK"));
    }

    #[test]
    fn addresses_of_other_machines_are_refused() {
        for address in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0", "[::ffff:127.0.0.1]:0"] {
            let refused = MetricsListener::bind(address.parse().unwrap());
            assert!(refused.is_err(), "{address}");
        }
    }
}
