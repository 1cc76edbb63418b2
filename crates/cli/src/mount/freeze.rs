//! File systems that are frozen while a snapshot of their volume is taken: what they have in memory is in the volume
//! then, and nothing is half written.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use scrim_sys::program::find;

use crate::error::{CliError, Exit};
use crate::process::child::wait_unless;
use crate::process::program::{Output, start};
use crate::terminal::note;

/// Program of util-linux that freezes file systems.
const FSFREEZE: &str = "fsfreeze";

/// Longest wait for a file system to write what it has in memory.
const FREEZING: Duration = Duration::from_secs(30);

/// Longest wait for a file system to be thawed.
const THAWING: Duration = Duration::from_secs(10);

/// A frozen file system of the kernel. It is thawed when this is dropped; requests of its volume must not be held then.
pub(crate) struct Frozen {
    directory: PathBuf,
}

impl Frozen {
    /// Freezes the file system of the kernel that is mounted on a directory.
    pub(super) fn freeze(directory: &Path) -> Result<Self, CliError> {
        let program = find(FSFREEZE).ok_or_else(|| {
            CliError::new(
                Exit::WrongDevice,
                format!(
                    "{}: {FSFREEZE} of util-linux, which freezes file systems, is not here; install it, or unmount first",
                    directory.display()
                ),
            )
        })?;
        let place = directory.to_owned();
        in_time(directory, move || {
            run(&program, "--freeze", &place, FREEZING * 2).map(|()| Self { directory: place })
        })
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let thawed = match find(FSFREEZE) {
            Some(program) => run(&program, "--unfreeze", &self.directory, THAWING),
            None => Err("it is not here".to_owned()),
        };
        if let Err(reason) = thawed {
            let directory = self.directory.display();
            note(format_args!(
                "scrim: warning: {directory}: {FSFREEZE} could not thaw it: {reason}; run `{FSFREEZE} --unfreeze {directory}`"
            ));
        }
    }
}

/// Writes what a mounted file system has in memory to the program that serves it.
pub(super) fn write_back(directory: &Path) -> Result<(), CliError> {
    let place = directory.to_owned();
    in_time(directory, move || {
        let synced = File::open(&place).and_then(|open| Ok(rustix::fs::syncfs(open)?));
        synced.map_err(|error| error.to_string())
    })
}

/// Does work on a thread of its own, which stays behind if it takes too long. What it returns then is dropped.
fn in_time<T: Send + 'static>(
    directory: &Path,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, CliError> {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::Builder::new().name("freeze".to_owned());
    thread
        .spawn(move || drop(done.send(work())))
        .map_err(|error| CliError::io("start a thread", &error))?;
    let reason = match wait.recv_timeout(FREEZING) {
        Ok(Ok(result)) => return Ok(result),
        Ok(Err(reason)) => reason,
        Err(_) => format!(
            "it has not written its data within {} s",
            FREEZING.as_secs()
        ),
    };
    Err(CliError::new(
        Exit::WrongDevice,
        format!(
            "{}: the file system could not be frozen: {reason}; see that its storage answers",
            directory.display()
        ),
    ))
}

/// Runs `fsfreeze`; the error is its last line.
fn run(program: &Path, option: &str, directory: &Path, limit: Duration) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut command = Command::new(program);
    command.arg(option).arg(directory).stdin(Stdio::null());
    let (mut child, said) = start(command, Output::Errors).map_err(text)?;
    let deadline = Instant::now() + limit;
    match wait_unless(&mut child, || Instant::now() > deadline).map_err(text)? {
        Some(status) if status.success() => Ok(()),
        Some(_) => Err(said.last()),
        None => {
            // It may wait for the storage where no signal reaches it.
            let _ = child.kill();
            Err(format!("{FSFREEZE} does not end"))
        }
    }
}
