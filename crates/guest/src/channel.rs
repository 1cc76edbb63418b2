//! The ports between host and guest: lines of control, and what jobs print.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::{Doing, Error};

/// Names of the ports, in the guest and as sockets of the host.
pub(crate) const PORTS: [&str; 3] = ["control", "stdout", "stderr"];

/// The longest line that a guest says.
const LINE_MAX: usize = 4096;

/// Longest time to wait at a stretch, so that an end of QEMU and an interruption are noticed.
const POLL_TIMEOUT: Duration = Duration::from_millis(50);

/// The output stream that a job prints to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Output,
    Error,
}

/// Sockets for QEMU to connect to.
pub(crate) struct Listeners([UnixListener; 3]);

/// A connection to each port.
pub(crate) struct Channel {
    control: UnixStream,
    output: UnixStream,
    error: UnixStream,
    /// The beginning of a line of which the end has not come.
    line: Vec<u8>,
}

impl Listeners {
    pub(crate) fn bind(folder: &Path) -> Result<Self, Error> {
        let bind = |port: &str| {
            let path = folder.join(port);
            let listener = UnixListener::bind(&path).doing("listen on", &path)?;
            listener.set_nonblocking(true).doing("listen on", &path)?;
            Ok(listener)
        };
        let [control, stdout, stderr] = PORTS;
        Ok(Self([bind(control)?, bind(stdout)?, bind(stderr)?]))
    }

    /// Waits for QEMU to connect to all ports; `go_on` is called from time to time.
    pub(crate) fn accept(
        self,
        mut go_on: impl FnMut() -> Result<(), Error>,
    ) -> Result<Channel, Error> {
        let mut accept = |listener: &UnixListener| {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => break prepared(stream).map_err(failed),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        go_on()?;
                        wait(&[listener.as_fd()]).map_err(failed)?;
                    }
                    Err(error) => break Err(failed(error)),
                }
            }
        };
        let [control, output, error] = &self.0;
        Ok(Channel {
            control: accept(control)?,
            output: accept(output)?,
            error: accept(error)?,
            line: Vec::new(),
        })
    }
}

impl Channel {
    /// Sends a line to the guest.
    pub(crate) fn say(&mut self, line: &str) -> Result<(), Error> {
        // So short that it finds room in the socket.
        self.control
            .write_all(format!("{line}\n").as_bytes())
            .map_err(failed)
    }

    /// Waits for something to come, passes on what jobs print, and returns a line if the guest said
    /// one: then all that was printed before it was passed on.
    pub(crate) fn listen(
        &mut self,
        print: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Option<String>, Error> {
        wait(&[
            self.control.as_fd(),
            self.output.as_fd(),
            self.error.as_fd(),
        ])
        .map_err(failed)?;
        let said = self.line()?;
        for (stream, socket) in [(Stream::Output, &self.output), (Stream::Error, &self.error)] {
            drain(socket, |bytes| print(stream, bytes)).map_err(failed)?;
        }
        Ok(said)
    }

    fn line(&mut self) -> Result<Option<String>, Error> {
        let line = &mut self.line;
        drain(&self.control, |bytes| line.extend_from_slice(bytes)).map_err(failed)?;
        if line.len() > LINE_MAX {
            let long = io::Error::new(ErrorKind::InvalidData, "a line without an end");
            return Err(failed(long));
        }
        let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let said: Vec<_> = line.drain(..=end).collect();
        Ok(Some(String::from_utf8_lossy(&said).trim().to_owned()))
    }
}

/// Reads all that is there. An end is no error: that QEMU is gone is noticed elsewhere.
fn drain(mut socket: &UnixStream, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = [0; 8192];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn wait(sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut polled: Vec<_> = sockets
        .iter()
        .map(|socket| PollFd::new(socket, PollFlags::IN))
        .collect();
    let timeout = Timespec::try_from(POLL_TIMEOUT).map_err(io::Error::other)?;
    match poll(&mut polled, Some(&timeout)) {
        Err(rustix::io::Errno::INTR) | Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn prepared(stream: UnixStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn failed(source: io::Error) -> Error {
    Error::Io {
        doing: "talk to the guest".to_owned(),
        source,
    }
}
