//! A volume's figures over HTTP, for Prometheus: `GET /metrics` on a loopback address and nothing else.
//!
//! A connection carries one request, which has to arrive whole within seconds; the answer is as long as a page. One
//! thread serves a few connections at a time and waits for none of them: a further one takes the place of the oldest.
//! So no client can occupy the thread for more than a moment, or keep others from it by sending nothing.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use scrim_figures::prometheus::{CONTENT_TYPE, PATH};
use scrim_serve::http::{Authority, Head, HeadLimits, Method};

use crate::error::CliError;

/// Time for a client to send its request, and as long again to take the answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest request, in bytes.
const REQUEST_MAX: usize = 4096;
/// Most connections at a time.
const AT_A_TIME: usize = 16;
/// Pause after a client could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// A socket on which no client is served yet.
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
        format!("http://{}{PATH}", self.address)
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
    // The oldest first.
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let mut waiting = vec![
            PollFd::new(stopped, PollFlags::IN),
            PollFd::new(listener, PollFlags::IN),
        ];
        waiting.extend(connections.iter().map(Connection::waits_for));
        let timeout = connections.iter().map(|each| each.deadline).min().map(left);
        if poll(&mut waiting, timeout.as_ref()).is_err() {
            continue;
        }
        if !waiting[0].revents().is_empty() {
            return;
        }
        let comes = !waiting[1].revents().is_empty();
        let ready = waiting[2..].iter();
        let mut ready: Vec<bool> = ready.map(|each| !each.revents().is_empty()).collect();
        let now = Instant::now();
        ready.reverse();
        connections.retain_mut(|each| {
            // A connection that breaks off harms only itself.
            let goes_on = match ready.pop() {
                Some(true) => each.go_on(page).unwrap_or(false),
                _ => true,
            };
            goes_on && now < each.deadline
        });
        if comes {
            match listener
                .accept()
                .and_then(|(stream, _)| Connection::new(stream))
            {
                Ok(connection) => {
                    if connections.len() == AT_A_TIME {
                        connections.remove(0);
                    }
                    connections.push(connection);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }
}

/// A client's connection, which receives its request or sends the answer.
struct Connection {
    stream: TcpStream,
    deadline: Instant,
    request: Vec<u8>,
    /// Part of the answer that is still to be sent.
    answer: Option<Vec<u8>>,
}

impl Connection {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            deadline: Instant::now() + TIMEOUT,
            request: Vec::new(),
            answer: None,
        })
    }

    fn waits_for(&self) -> PollFd<'_> {
        let event = match self.answer {
            None => PollFlags::IN,
            Some(_) => PollFlags::OUT,
        };
        PollFd::new(&self.stream, event)
    }

    /// Receives or sends without waiting; returns whether there is more to be done.
    fn go_on(&mut self, page: &impl Fn() -> String) -> io::Result<bool> {
        if self.answer.is_none()
            && let Some(answer) = self.receive(page)?
        {
            self.answer = Some(answer);
            self.deadline = Instant::now() + TIMEOUT;
        }
        let Some(answer) = &mut self.answer else {
            return Ok(true);
        };
        match self.stream.write(answer) {
            Ok(sent) => drop(answer.drain(..sent)),
            Err(error) if is_for_later(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(!answer.is_empty())
    }

    /// Receives up to the empty line that ends a request's head; returns the answer once the head is there, or cannot come
    /// any more.
    fn receive(&mut self, page: &impl Fn() -> String) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = [0; REQUEST_MAX];
        let buffer = &mut buffer[self.request.len()..];
        let received = match self.stream.read(buffer) {
            Ok(received) => received,
            Err(error) if is_for_later(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        self.request.extend_from_slice(&buffer[..received]);
        let head = &self.request;
        if head.windows(4).any(|four| four == b"\r\n\r\n") {
            return Ok(Some(answer(judge(head).map(|()| page()))));
        }
        let is_over = received == 0 || head.len() == REQUEST_MAX;
        Ok(is_over.then(|| answer(Err(Refusal::BadRequest))))
    }
}

/// Returns whether a call of the socket is to be made again when that can be done.
fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Time until `deadline`, for the system.
fn left(deadline: Instant) -> Timespec {
    let left = deadline.saturating_duration_since(Instant::now());
    Timespec {
        // A few seconds at most.
        tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    BadRequest,
    NotFound,
    MethodNotAllowed,
    Misdirected,
}

/// Checks whether a request is one for the page. A foreign web page may have its own name resolve to this machine, and
/// must not read the figures by that name.
fn judge(head: &[u8]) -> Result<(), Refusal> {
    let limits = HeadLimits {
        head: REQUEST_MAX,
        target: REQUEST_MAX,
        ..HeadLimits::default()
    };
    let Ok(Some(head)) = Head::parse(head, &limits) else {
        return Err(Refusal::BadRequest);
    };
    let request = head.request;
    // A browser names a host in every request; a program of HTTP/1.0 need not.
    let authority = request.host.map(Authority::parse).transpose();
    let authority = authority.map_err(|_| Refusal::BadRequest)?;
    if authority.is_some_and(|authority| !authority.is_loopback()) {
        return Err(Refusal::Misdirected);
    }
    match (request.method, request.target) {
        (Method::Get, PATH) => Ok(()),
        (Method::Get, _) => Err(Refusal::NotFound),
        _ => Err(Refusal::MethodNotAllowed),
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
        Err(Refusal::Misdirected) => (
            "421 Misdirected Request",
            "",
            "ask by localhost or by a loopback address\n".to_owned(),
        ),
    };
    let len = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len}\r\n\
         {allow}Connection: close\r\n\r\n"
    );
    (head + &body).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        // The server may answer before it has read the whole request.
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
        let get = b"GET /metrics HTTP/1.1\r\nHost: localhost:9750\r\n\r\n";
        for _ in 0..3 {
            let answer = ask(metrics.address, get);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.ends_with("\r\n\r\na 1\n"), "{answer}");
        }
        let long = [b'x'; REQUEST_MAX];
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], "404"),
            (b"GET / HTTP/1.0\r\n\r\n", "404"),
            (b"GET /metrics/../x HTTP/1.0\r\n\r\n", "404"),
            (b"GET /metrics HTTP/1.0\r\n\r\n", "200"),
            (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
            (b"POST /metrics HTTP/1.0\r\n\r\n", "405"),
            (b"GET /metrics HTTP/1.1\r\n\r\n", "400"),
            (
                b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
                "400",
            ),
            (b"GET /metrics HTTP/1.1\r\n", "400"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"GET /metrics HTTP/9 HTTP/1.1\r\n\r\n", "400"),
            (b"\xff\xff\r\n\r\n", "400"),
            (b"GET /metrics HTTP/1.1\r\nHOST: [::1]:9750\r\n\r\n", "200"),
            (
                b"GET /metrics HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n",
                "421",
            ),
            (b"GET /metrics HTTP/1.1\r\nHost: a b\r\n\r\n", "400"),
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

    /// Clients that connect and send nothing, or do not read, keep no other client from the page.
    #[test]
    fn silent_connections_hold_up_nobody() {
        let listener = MetricsListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let page = "a 1\n".repeat(1 << 20);
        let metrics = listener.serve(move || page.clone()).unwrap();
        let get = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let mut silent = Vec::new();
        // Each would have kept the thread for seconds.
        for _ in 0..3 {
            for turn in 0..40 {
                let mut stream = TcpStream::connect(metrics.address).unwrap();
                if turn % 2 == 0 {
                    stream.write_all(get).unwrap();
                }
                silent.push(stream);
            }
            let mut stream = TcpStream::connect(metrics.address).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(30)))
                .unwrap();
            stream.write_all(get).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("\na 1\n"), "{} bytes", answer.len());
        }
    }

    #[test]
    fn addresses_of_other_machines_are_refused() {
        for address in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0", "[::ffff:127.0.0.1]:0"] {
            let refused = MetricsListener::bind(address.parse().unwrap());
            assert!(refused.is_err(), "{address}");
        }
    }
}
