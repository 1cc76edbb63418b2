//! Processes in the background. The process that reads the passphrase and unlocks the volume is the one that serves
//! it, so that no key ever passes from one process to another.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use scrim_sys::process::{Inherited, Side, fork};

use super::service_manager::Manager;
use super::signals::Hangup;
use crate::error::{CliError, Exit};
use crate::terminal;

/// The process that waits for this one to serve; 0 if no process waits.
static STARTER: AtomicI32 = AtomicI32::new(0);

/// Returns whether the command that waits for this process has been ended, so that its result is not wanted any more.
pub(crate) fn is_abandoned() -> bool {
    let starter = STARTER.load(Ordering::Relaxed);
    starter != 0 && getppid().map(Pid::as_raw_pid) != Some(starter)
}

/// The process that will serve, and its way to say that it does.
pub(crate) struct Daemon {
    ready: OwnedFd,
    inherited: Inherited,
}

/// Begins the life of a process that serves a volume: in the background, or in the foreground with the service manager
/// that started it, if any. This comes before any secret is read.
pub(crate) fn begin(foreground: bool) -> Result<(Option<Daemon>, Hangup, Manager), CliError> {
    let begun = match foreground {
        true => (None, Hangup::here(), Manager::of_this_process()),
        false => (Some(Daemon::start()?), Hangup::Reloads, Manager::nobody()),
    };
    allocate_without_io();
    Ok(begun)
}

/// Lets this process, with the threads and programs that it starts from now on, allocate memory without waiting for I/O.
///
/// The kernel may keep data for a file system on a loop or NBD device whose requests this process serves. Where memory is
/// scarce, an allocation of this process could wait for that data to be written, which this process itself has to do.
fn allocate_without_io() {
    // It needs CAP_SYS_RESOURCE and Linux 5.6. Users without it have no kernel file system on such a device.
    let _ = rustix::process::configure_io_flusher_behavior(true);
}

impl Daemon {
    /// Splits off the process that will serve; the one that was started waits for it and ends with
    /// its exit code, or with 0 once it says [`Daemon::detach`]. Until then the new process has the
    /// terminal: it asks and reports like any command.
    fn start() -> Result<Self, CliError> {
        let fail = |error: io::Error| CliError::io("start a process in the background", &error);
        let inherited = Inherited::look();
        let (wait, ready) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|e| fail(e.into()))?;
        let starter = getpid().as_raw_pid();
        match fork().map_err(fail)? {
            Side::Child => {
                STARTER.store(starter, Ordering::Relaxed);
                Ok(Self { ready, inherited })
            }
            Side::Parent(child) => {
                drop(ready);
                match child.wait_until_ready(wait).map_err(fail)? {
                    None => {
                        terminal::state_result(0);
                        exit(0)
                    }
                    Some(code) => exit(i32::from(code)),
                }
            }
        }
    }

    /// Leaves the terminal and lets the command end.
    pub(crate) fn detach(self) -> Result<(), CliError> {
        STARTER.store(0, Ordering::Relaxed);
        let detach = || -> io::Result<()> {
            let null = File::options().read(true).write(true).open("/dev/null")?;
            terminal::flush()?;
            rustix::process::setsid()?;
            std::env::set_current_dir("/")?;
            dup2_stdin(&null)?;
            dup2_stdout(&null)?;
            dup2_stderr(&null)?;
            terminal::keep_warnings();
            // A lock or a pipe of the process that started us must not live on in the background.
            self.inherited.close();
            File::from(self.ready).write_all(&[1])
        };
        detach().map_err(|error| CliError::io("go into the background", &error))
    }
}

/// The signals that ask a process to end.
pub(crate) const ENDING: [i32; 3] = [
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGHUP,
];

/// Ignores the signals that would end this process, from now on to the end of the command.
pub(crate) fn defer_signals() -> Result<(), CliError> {
    let ignored = Arc::default();
    for signal in ENDING {
        signal_hook::flag::register(signal, Arc::clone(&ignored))
            .map_err(|error| CliError::io("defer signals", &error))?;
    }
    Ok(())
}

/// Has this process end as soon as `parent` does, which has started it. Fails if `parent` has ended already.
pub(crate) fn end_with_parent(parent: i32) -> Result<(), CliError> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|error| CliError::io("end with the parent process", &error.into()))?;
    if getppid().map(Pid::as_raw_pid) != Some(parent) {
        return Err(CliError::usage(format!(
            "--end-with-parent: process {parent} has not started this one, or has ended"
        )));
    }
    Ok(())
}

/// Keeps the secrets that this process will have out of core dumps, and away from other processes.
pub(crate) fn protect() -> Result<(), CliError> {
    scrim_sys::process::forbid_dumps().map_err(|error| {
        CliError::new(
            Exit::WrongDevice,
            format!("cannot forbid core dumps: {error}; nothing was read"),
        )
    })
}
