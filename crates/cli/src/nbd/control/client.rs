//! The commands' side of the control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use scrim_sys::memory::SecretBytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::figures::Figures;
use super::request::Request;
use super::status::Status;
use crate::args::VolumeName;
use crate::error::{CliError, Exit};
use crate::mount::{MountRequest, MountStatus, UmountRequest};
use crate::nbd::runtime::RuntimeDir;

/// Longest answer, in bytes: a table of the largest size that is read.
const ANSWER_MAX: usize = 2 << 20;

/// Longest wait for an answer. Requests to close, to hold, to resume or for another table have no limit: they wait for
/// the storage first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest first line of an answer, in bytes.
const HEAD_MAX: u64 = 64;

/// A connection to the process that serves a volume.
pub(crate) struct Client {
    name: VolumeName,
    stream: UnixStream,
}

/// Connects to an open volume; `None` when no volume of this name is open.
pub(crate) fn find(runtime: &RuntimeDir, name: &VolumeName) -> Result<Option<Client>, CliError> {
    runtime.check_if_there()?;
    match UnixStream::connect(runtime.control_socket(name)) {
        Ok(stream) => Ok(Some(Client {
            name: name.clone(),
            stream,
        })),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(CliError::io(
            format_args!("reach the volume {}", name.as_str()),
            &error,
        )),
    }
}

impl Client {
    /// Connects to an open volume.
    pub(crate) fn connect(runtime: &RuntimeDir, name: &VolumeName) -> Result<Self, CliError> {
        find(runtime, name)?.ok_or_else(|| {
            CliError::new(
                Exit::WrongDevice,
                format!(
                    "no volume named {} is open; `scrim list` shows those that are",
                    name.as_str()
                ),
            )
        })
    }

    /// Asks an open volume for its status.
    pub(crate) fn status(self) -> Result<Status, CliError> {
        parse_json(&self.ask(Request::Status)?)
    }

    /// Asks an open volume for its status, and gives up after `limit`, as a process that is unmounting answers nothing else.
    pub(crate) fn status_within(self, limit: Duration) -> Result<Status, CliError> {
        parse_json(&self.exchange(Request::Status, &[], Some(limit))?)
    }

    /// Asks an open volume for its figures.
    pub(crate) fn figures(self) -> Result<Figures, CliError> {
        parse_json(&self.ask(Request::Statistics)?)
    }

    /// Has the process that serves a volume mount it.
    pub(crate) fn mount(self, wanted: &MountRequest) -> Result<MountStatus, CliError> {
        parse_json(&self.ask_with_json(|len| Request::Mount { len }, wanted)?)
    }

    /// Has the process that serves a volume unmount it.
    pub(crate) fn unmount(self, wanted: &UmountRequest) -> Result<(), CliError> {
        self.ask_with_json(|len| Request::Umount { len }, wanted)
            .map(drop)
    }

    /// Sends a request whose body is JSON, and waits for the answer.
    fn ask_with_json(
        self,
        request: impl FnOnce(usize) -> Request,
        body: &impl Serialize,
    ) -> Result<SecretBytes, CliError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| CliError::io("write the request", &error.into()))?;
        self.ask_with(request(body.len()), &body)
    }

    /// Sends a request without a body, and waits for the answer.
    pub(crate) fn ask(self, request: Request) -> Result<SecretBytes, CliError> {
        self.ask_with(request, &[])
    }

    /// Sends a request with its body, and waits for the answer.
    pub(crate) fn ask_with(self, request: Request, body: &[u8]) -> Result<SecretBytes, CliError> {
        let limit = match request {
            Request::Close | Request::CloseForced | Request::CloseDeferred => None,
            Request::Reload { .. } | Request::Resume | Request::Refresh(..) => None,
            Request::ResumeWithKey { .. } => None,
            Request::Mount { .. } | Request::Umount { .. } => None,
            Request::Hold(_) | Request::Release => None,
            _ => Some(ANSWER_TIMEOUT),
        };
        self.exchange(request, body, limit)
    }

    fn exchange(
        self,
        request: Request,
        body: &[u8],
        limit: Option<Duration>,
    ) -> Result<SecretBytes, CliError> {
        let name = self.name.as_str().to_owned();
        let fail = |error: io::Error| {
            CliError::io(
                format_args!("talk to the process that serves {name}"),
                &error,
            )
        };
        let mut stream = self.stream;
        stream.set_read_timeout(limit).map_err(fail)?;
        stream.set_write_timeout(limit).map_err(fail)?;
        stream
            .write_all(request.to_line().as_bytes())
            .map_err(fail)?;
        match stream.write_all(body) {
            // A request that was refused before it was read has an answer all the same.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(fail(error)),
            _ => {}
        }
        let mut stream = BufReader::with_capacity(1, stream);
        let mut head = String::new();
        let mut start = (&mut stream).take(HEAD_MAX);
        start.read_line(&mut head).map_err(fail)?;
        let (exit, len) = parse_head(&head).ok_or_else(|| {
            CliError::new(
                Exit::WrongDevice,
                format!("the process that serves {name} did not answer; it may have just ended"),
            )
        })?;
        let mut body = SecretBytes::zeroed(len);
        stream.read_exact(body.expose_mut()).map_err(fail)?;
        match exit {
            None => Ok(body),
            Some(exit) => Err(CliError::new(
                exit,
                String::from_utf8_lossy(body.expose()).into_owned(),
            )),
        }
    }
}

fn parse_json<T: DeserializeOwned>(answer: &SecretBytes) -> Result<T, CliError> {
    serde_json::from_slice(answer.expose()).map_err(|error| {
        CliError::new(
            Exit::WrongDevice,
            format!(
                "the process that serves the volume gave an answer that this scrim does not understand: {error}; use \
                 the scrim that opened the volume, or close the volume and open it again with this one"
            ),
        )
    })
}

/// The exit code of an error, and the length of what follows.
fn parse_head(line: &str) -> Option<(Option<Exit>, usize)> {
    let words: Vec<&str> = line.strip_suffix('\n')?.split(' ').collect();
    let (exit, len) = match words[..] {
        ["ok", len] => (None, len),
        ["error", exit, len] => {
            let codes = [
                Exit::Usage,
                Exit::NoKey,
                Exit::OutOfMemory,
                Exit::WrongDevice,
                Exit::Busy,
            ];
            let code: u8 = exit.parse().ok()?;
            let exit = codes.into_iter().find(|exit| *exit as u8 == code)?;
            (Some(exit), len)
        }
        _ => return None,
    };
    let len = len.parse().ok().filter(|&len| len <= ANSWER_MAX)?;
    Some((exit, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_heads_are_believed() {
        assert_eq!(parse_head("ok 5\n"), Some((None, 5)));
        assert_eq!(parse_head("error 5 0\n"), Some((Some(Exit::Busy), 0)));
        for head in [
            "",
            "ok 5",
            "ok\n",
            "ok 99999999\n",
            "error 9 1\n",
            "ok -1\n",
        ] {
            assert_eq!(parse_head(head), None, "{head:?}");
        }
    }
}
