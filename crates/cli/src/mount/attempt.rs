//! An attempt to mount, which ends if the storage stays silent or this process is asked to end.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use scrim_export::fuse::{Mounted, OtherMount, STALL, StallLimit};
use scrim_volume::Volume;

use crate::error::{CliError, Exit};
use crate::process::child::wait_unless;
use crate::process::program::{Output, Said, start};
use crate::process::signals::asked_to_end;

/// Pause between two looks at whether this process was asked to end.
const LOOK: Duration = Duration::from_millis(100);

/// Time for a program to end that was killed.
const KILLED: Duration = Duration::from_secs(1);

/// An attempt to mount what a served plaintext contains.
pub(super) struct Attempt {
    limit: StallLimit,
    /// The program that was killed because the attempt was over.
    killed: Option<Child>,
}

impl Attempt {
    /// Begins an attempt on the plaintext that `own` serves.
    pub(super) fn on(own: &Mounted) -> Self {
        Self {
            limit: own.stall_limit(STALL).of_requests_only(),
            killed: None,
        }
    }

    /// Returns whether the storage has left requests without an answer for too long.
    pub(super) fn is_over(&mut self) -> bool {
        self.limit.is_over()
    }

    /// Runs a program to its end, and reads one of its outputs.
    pub(super) fn run(
        &mut self,
        name: &str,
        mut command: Command,
        output: Output,
        directory: &Path,
    ) -> Result<(ExitStatus, Said), CliError> {
        let fail = |error: std::io::Error| CliError::io(format_args!("start {name}"), &error);
        command.stdin(Stdio::null());
        let (mut child, said) = start(command, output).map_err(fail)?;
        let is_over = || self.is_over() || asked_to_end();
        if let Some(status) = wait_unless(&mut child, is_over).map_err(fail)? {
            return Ok((status, said));
        }
        self.kill(child);
        Err(match asked_to_end() {
            true => interrupted(),
            false => stalled(name, directory),
        })
    }

    /// Kills a program. One that waits for the plaintext ends only when that is taken away.
    pub(super) fn kill(&mut self, mut child: Child) {
        let _ = child.kill();
        self.killed = Some(child);
    }

    /// Takes away what a program that was killed has left, after the plaintext was taken away. `is_type` knows the type of
    /// its mount.
    pub(super) fn clean_up(self, directory: &Path, is_type: impl Fn(&str) -> bool) {
        let Some(mut child) = self.killed else {
            return;
        };
        let deadline = Instant::now() + KILLED;
        if !matches!(
            wait_unless(&mut child, || Instant::now() >= deadline),
            Ok(Some(_))
        ) {
            // It is removed from the table of processes whenever it ends.
            let _ = std::thread::Builder::new().spawn(move || child.wait());
        }
        // It may have mounted just before it was killed.
        drop(OtherMount::find(directory, is_type));
    }
}

/// Reads from the volume on a thread of its own, which stays behind while the storage is silent.
pub(crate) fn read_in_time<T: Send + 'static>(
    volume: &Arc<Volume>,
    directory: &Path,
    read: impl FnOnce(&Volume) -> T + Send + 'static,
) -> Result<T, CliError> {
    let (done, wait) = mpsc::channel();
    let volume = Arc::clone(volume);
    std::thread::Builder::new()
        .name("mount-look".to_owned())
        .spawn(move || {
            // Nobody receives it once the wait is over.
            let _ = done.send(read(&volume));
        })
        .map_err(|error| CliError::io("start a thread", &error))?;
    let deadline = Instant::now() + STALL;
    loop {
        match wait.recv_timeout(LOOK) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) if asked_to_end() => return Err(interrupted()),
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(_) => return Err(stalled("the look for a file system", directory)),
        }
    }
}

/// The error of an attempt that a signal has ended.
pub(super) fn interrupted() -> CliError {
    CliError::new(Exit::Usage, "interrupted; nothing is mounted")
}

/// The error of an attempt that the storage has held up too long.
pub(super) fn stalled(name: &str, directory: &Path) -> CliError {
    CliError::new(
        Exit::WrongDevice,
        format!(
            "{}: {name} was ended, because the storage has answered nothing for {} s; nothing is mounted; see that the \
             storage answers again, and give the command again",
            directory.display(),
            STALL.as_secs()
        ),
    )
}
