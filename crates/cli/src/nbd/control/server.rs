//! The serving process's side of the control socket: one request at a time, between waits for signals.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, accept_with};
use scrim_export::Listener;
use scrim_export::nbd::Address;
use scrim_sys::memory::SecretBytes;

use super::request::{LINE_MAX, Request};
use crate::error::CliError;

/// Time for a client to send its request, and to take each part of its answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a client could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// Bytes to send back, or an error.
pub(crate) type Answer = Result<SecretBytes, CliError>;

/// The socket that commands come in by; its path is removed when it is dropped.
pub(crate) struct ControlSocket(Listener);

impl ControlSocket {
    /// Takes the place of a socket whose process has gone. A live one is refused: a volume of this
    /// name is open.
    pub(crate) fn bind(path: PathBuf) -> Result<Self, CliError> {
        Ok(Self(Listener::bind(&Address::Unix(path))?))
    }

    /// Answers requests until one has no answer yet, which is returned to be answered when that is
    /// done, or until `stop` becomes readable, or for `limit`, which may change with each answer.
    pub(crate) fn serve(
        &self,
        stop: impl AsFd,
        limit: impl Fn() -> Option<Duration>,
        mut answer: impl FnMut(Request, &SecretBytes) -> Option<Answer>,
    ) -> Option<Caller> {
        let start = Instant::now();
        loop {
            let left = limit().map(|limit| limit.saturating_sub(start.elapsed()));
            // Also while one client comes after the other.
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut waiting = [
                PollFd::new(&self.0, PollFlags::IN),
                PollFd::new(&stop, PollFlags::IN),
            ];
            match poll(&mut waiting, left.as_ref()) {
                Err(_) => continue,
                Ok(0) => return None,
                Ok(_) => {}
            }
            if !waiting[1].revents().is_empty() {
                return None;
            }
            let Ok(stream) = accept_with(&self.0, SocketFlags::CLOEXEC) else {
                // Out of descriptors, perhaps: they come back when a client goes.
                std::thread::sleep(PAUSE);
                continue;
            };
            // A client that breaks the protocol is dropped; it harms no other client.
            let Some((caller, request, body)) = Caller::hear(stream.into()) else {
                continue;
            };
            // A command whose wait has timed out has reported a failure.
            if caller.has_gone() {
                continue;
            }
            match answer(request, &body) {
                Some(answer) => caller.answer(&answer),
                None => return Some(caller),
            }
        }
    }
}

/// A client that waits for its answer.
pub(crate) struct Caller(UnixStream);

impl Caller {
    fn hear(stream: UnixStream) -> Option<(Self, Request, SecretBytes)> {
        stream.set_write_timeout(Some(CLIENT_TIMEOUT)).ok()?;
        if !is_ours(&stream) {
            return None;
        }
        let deadline = Instant::now() + CLIENT_TIMEOUT;
        // A line comes in one piece or not at all, so that nobody holds up the others. With it may come
        // the beginning of a table, which has keys.
        let mut start = SecretBytes::zeroed(LINE_MAX);
        let len = read_before(&stream, start.expose_mut(), deadline).ok()?;
        let line_len = start.expose()[..len]
            .iter()
            .position(|&byte| byte == b'\n')?
            + 1;
        let (line, begun) = start.expose()[..len].split_at(line_len);
        let request = Request::from_line(line)?;
        let mut body = SecretBytes::try_zeroed(request.body_len())?;
        let mut used = begun.len();
        body.expose_mut().get_mut(..used)?.copy_from_slice(begun);
        while used < body.len() {
            match read_before(&stream, &mut body.expose_mut()[used..], deadline).ok()? {
                0 => return None,
                more => used += more,
            }
        }
        Some((Self(stream), request, body))
    }

    /// Returns whether the client has disconnected.
    fn has_gone(&self) -> bool {
        let mut sources = [PollFd::new(&self.0, PollFlags::empty())];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut sources, Some(&now)).is_ok() && sources[0].revents().contains(PollFlags::HUP)
    }

    pub(crate) fn answer(self, answer: &Answer) {
        // A client that has gone does not need it.
        let _ = send(&self.0, answer);
    }
}

/// Reads the bytes that are there, or waits for some until `deadline`.
fn read_before(mut stream: &UnixStream, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(into) {
            // A process that was stopped and goes on.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Checks that the client runs as this user or as root. The folder's mode keeps others out already; this check holds
/// wherever the socket is reached from.
fn is_ours(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid == rustix::process::getuid() || peer.uid.is_root())
}

fn send(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    match answer {
        Ok(body) => {
            stream.write_all(format!("ok {}\n", body.len()).as_bytes())?;
            stream.write_all(body.expose())
        }
        Err(error) => {
            let message = error.to_string();
            let head = format!("error {} {}\n", error.exit as u8, message.len());
            stream.write_all(head.as_bytes())?;
            stream.write_all(message.as_bytes())
        }
    }
}
