//! One connection to a server, which blocks and decrypts.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use scrim_nbd::tls::{PLAINTEXT_MAX, Protection, Session, Wire};

use super::error::WebError;
use super::head::Head;
use super::trust::Trust;
use super::url::Url;

/// Time after which a server that does not answer is given up.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes that are received at a time.
const BUFFER: usize = 512 << 10;

/// A connection to a server.
pub struct Connection {
    server: String,
    socket: TcpStream,
    tls: Option<Tls>,
    /// Plaintext that was received; from `start` to `end` it is not used yet.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// State of a connection under TLS, beside its socket.
pub(super) struct Tls {
    session: Session,
    incoming: Wire,
    outgoing: Wire,
}

impl Connection {
    /// Connects, and agrees on TLS where the URL has it; `trust` is needed for that.
    ///
    /// # Errors
    /// When there is no server, or not one that is believed.
    pub fn open(url: &Url, trust: Option<&Trust>) -> Result<Self, WebError> {
        Self::with_receive_buffer(url, trust, None)
    }

    /// As [`Connection::open`], with a receive buffer of `room` bytes in the kernel.
    pub(super) fn with_receive_buffer(
        url: &Url,
        trust: Option<&Trust>,
        room: Option<usize>,
    ) -> Result<Self, WebError> {
        let server = url.authority();
        let socket = connected(&url.address()?, room);
        let socket = socket.map_err(WebError::socket("connect", &server))?;
        let tls = match (url.tls, trust) {
            (false, _) => None,
            (true, Some(trust)) => Some(Tls {
                session: trust.0.session(&url.host).map_err(|error| WebError::Tls {
                    server: server.clone(),
                    error,
                })?,
                incoming: Wire::to_receive(),
                outgoing: Wire::to_send(),
            }),
            (true, None) => return Err(WebError::answer(&server, "nobody says whom to believe")),
        };
        let mut connection = Self {
            server,
            socket,
            tls,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
        };
        connection.shake_hands()?;
        Ok(connection)
    }

    /// Version and cipher suite of the connection; `None` without TLS.
    #[must_use]
    pub fn protection(&self) -> Option<Protection> {
        self.tls.as_ref()?.session.protection()
    }

    /// Asks for a file, and hands its bytes to `sink` as they come. Returns its length.
    ///
    /// # Errors
    /// When the server answers with anything else, less or more, or not at all.
    pub fn download(&mut self, url: &Url, sink: &mut dyn FnMut(&[u8])) -> Result<Head, WebError> {
        self.send(&url.request())?;
        let head = loop {
            let received = &self.buffer[self.start..self.end];
            if let Some(head) = Head::find(received, &self.server)? {
                break head;
            }
            self.receive()?;
        };
        self.start += head.bytes;
        let mut left = head.length;
        loop {
            let have = self.end - self.start;
            let some = usize::try_from(left).unwrap_or(usize::MAX).min(have);
            sink(&self.buffer[self.start..self.start + some]);
            self.start += some;
            left -= some as u64;
            if left == 0 {
                break;
            }
            self.receive()?;
        }
        if self.start != self.end {
            let more = "it sent more than it said";
            return Err(WebError::answer(&self.server, more));
        }
        Ok(head)
    }

    /// Sends all of a request.
    pub(super) fn send(&mut self, request: &[u8]) -> Result<(), WebError> {
        let doing = WebError::socket("send a request", &self.server);
        match &mut self.tls {
            None => self.socket.write_all(request).map_err(doing),
            Some(tls) => {
                let sealed = tls.seal(request, &self.server)?;
                self.socket.write_all(sealed).map_err(doing)
            }
        }
    }

    /// Gives up the bare socket, for a caller that ignores what is said on it.
    pub(super) fn into_socket(self) -> (String, TcpStream) {
        (self.server, self.socket)
    }

    /// Gives up the parts that a crowd needs once a whole answer has come.
    pub(super) fn into_parts(self) -> Result<(String, TcpStream, Option<Tls>), WebError> {
        let received = self.start != self.end
            || self
                .tls
                .as_ref()
                .is_some_and(|tls| !tls.incoming.is_empty());
        if received {
            let more = "it sent something unasked";
            return Err(WebError::answer(&self.server, more));
        }
        Ok((self.server, self.socket, self.tls))
    }

    fn shake_hands(&mut self) -> Result<(), WebError> {
        while let Some(tls) = &mut self.tls {
            let mut none = [0; PLAINTEXT_MAX];
            let opened = tls.session.open(&mut tls.incoming, &mut none);
            let sent = tls.flush(&mut self.socket);
            opened.map_err(|error| WebError::Tls {
                server: self.server.clone(),
                error,
            })?;
            sent.map_err(WebError::socket("shake hands", &self.server))?;
            if !tls.session.is_handshaking() {
                break;
            }
            let got = read(&mut self.socket, tls.incoming.spare());
            let got = got.map_err(WebError::socket("shake hands", &self.server))?;
            if got == 0 {
                return Err(ended(&self.server));
            }
            tls.incoming.advance(got);
        }
        Ok(())
    }

    /// Receives at least one more byte of plaintext, behind what is there.
    fn receive(&mut self) -> Result<(), WebError> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.buffer.len() - self.end < PLAINTEXT_MAX {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let failed = WebError::socket("receive an answer", &self.server);
        let room = &mut self.buffer[self.end..];
        let got = match &mut self.tls {
            None => read(&mut self.socket, room).map_err(failed)?,
            Some(tls) => loop {
                let opened = tls.session.open(&mut tls.incoming, room);
                let opened = opened.map_err(|error| WebError::Tls {
                    server: self.server.clone(),
                    error,
                })?;
                if opened > 0 || tls.session.peer_has_closed() {
                    break opened;
                }
                if let Err(error) = tls.flush(&mut self.socket) {
                    return Err(failed(error));
                }
                match read(&mut self.socket, tls.incoming.spare()) {
                    Ok(0) => break 0,
                    Ok(got) => tls.incoming.advance(got),
                    Err(error) => return Err(failed(error)),
                }
            },
        };
        if got == 0 {
            return Err(ended(&self.server));
        }
        self.end += got;
        Ok(())
    }
}

impl Tls {
    /// A request in records, ready to be sent.
    pub(super) fn seal(&mut self, request: &[u8], server: &str) -> Result<&[u8], WebError> {
        // The last one was sent whole.
        let before = self.outgoing.filled().len();
        self.outgoing.consume(before);
        let sealed = self.session.seal(request, &mut self.outgoing);
        let sealed = sealed.map_err(|error| WebError::Tls {
            server: server.to_owned(),
            error,
        })?;
        match sealed == request.len() {
            true => Ok(self.outgoing.filled()),
            false => Err(WebError::answer(server, "the URL is too long")),
        }
    }

    /// Sends what the handshake wants sent.
    fn flush(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        while self.session.has_pending() {
            self.session.take_pending(&mut self.outgoing);
            socket.write_all(self.outgoing.filled())?;
            let sent = self.outgoing.filled().len();
            self.outgoing.consume(sent);
        }
        Ok(())
    }
}

/// Reads some bytes, and again after a signal: a process that was stopped goes on.
fn read(socket: &mut TcpStream, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

fn ended(server: &str) -> WebError {
    WebError::answer(
        server,
        "it ended the connection before its answer was whole",
    )
}

fn connected(address: &SocketAddr, room: Option<usize>) -> io::Result<TcpStream> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if let Some(room) = room {
        // The window that is offered at the start depends on it.
        sockopt::set_socket_recv_buffer_size(&socket, room)?;
    }
    connect(&socket, address)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server that answers each request on each of `connections` connections with `answer`.
    pub(crate) fn server(answer: Vec<u8>, connections: usize) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for _ in 0..connections {
                let (mut stream, _) = listener.accept().unwrap();
                let answer = answer.clone();
                thread::spawn(move || {
                    let mut request = [0; 1024];
                    while stream.read(&mut request).is_ok_and(|got| got > 0) {
                        if stream.write_all(&answer).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Url::parse(&format!("http://127.0.0.1:{port}/file")).unwrap()
    }

    pub(crate) fn answer(body: &[u8]) -> Vec<u8> {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    }

    #[test]
    fn files_are_downloaded_again_and_again() {
        let body: Vec<u8> = (0..=255).cycle().take(2_000_000).collect();
        let url = server(answer(&body), 1);
        let mut connection = Connection::open(&url, None).unwrap();
        assert_eq!(connection.protection(), None);
        for _ in 0..3 {
            let mut got = Vec::new();
            let head = connection
                .download(&url, &mut |bytes| got.extend_from_slice(bytes))
                .unwrap();
            assert_eq!(head.length, 2_000_000);
            assert!(got == body);
        }
        assert!(connection.into_parts().is_ok());
    }

    #[test]
    fn more_and_less_than_was_said_is_an_error() {
        let mut more = answer(b"body");
        more.extend_from_slice(b"more");
        let url = server(more, 1);
        let error = Connection::open(&url, None)
            .unwrap()
            .download(&url, &mut |_| {})
            .unwrap_err();
        assert!(error.to_string().contains("more than it said"), "{error}");
    }
}
