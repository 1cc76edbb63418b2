//! Self-protection of a process that holds keys: no core dumps, no tracing by others, and a way into the
//! background that keeps the key in one process.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};

/// Makes the process undumpable: no core file, no `ptrace` and no reading of `/proc/PID/mem` by
/// another process of the same user.
///
/// # Errors
/// As `prctl(2)` and `setrlimit(2)`.
pub fn forbid_dumps() -> io::Result<()> {
    // Read now, and kept: before Linux 6.4 it is in /proc/self/auxv alone, which an undumpable process cannot read.
    let _ = rustix::param::page_size();
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    )?;
    Ok(())
}

/// Side of [`fork`] on which the caller is.
pub enum Side {
    /// The process that was started; waits for the other.
    Parent(Child),
    /// The new process, which goes on with the work.
    Child,
}

/// The process on the other side of [`fork`].
pub struct Child(rustix::process::Pid);

impl Child {
    /// Waits for the child to say `ready` through the pipe (one byte) or to end.
    ///
    /// Returns `None` when it is ready, else its exit code (128 + signal when it was killed).
    ///
    /// # Errors
    /// As `read(2)` and `waitpid(2)`.
    pub fn wait_until_ready(self, ready: OwnedFd) -> io::Result<Option<u8>> {
        let mut byte = [0u8; 1];
        if std::fs::File::from(ready).read(&mut byte)? == 1 {
            return Ok(None);
        }
        let waited = rustix::process::waitpid(Some(self.0), rustix::process::WaitOptions::empty())?;
        let Some((_, status)) = waited else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let code = status
            .exit_status()
            .or_else(|| status.terminating_signal().map(|signal| 128 + signal))
            .and_then(|code| u8::try_from(code).ok());
        Ok(Some(code.unwrap_or(1)))
    }
}

/// Forks. The child has its own copy of everything, so this is called before any secret is read.
///
/// # Errors
/// As `fork(2)`; `Unsupported` when the process already has more than one thread, whose locks the
/// child would inherit without their owners.
pub fn fork() -> io::Result<Side> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: this is the only thread, so the child's copy of every lock and allocator is whole.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        pid => rustix::process::Pid::from_raw(pid)
            .map(|pid| Side::Parent(Child(pid)))
            .ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}

/// Has a program that `command` starts be killed (SIGKILL) when the thread that starts it ends, in whatever way.
pub fn end_with_this_thread(command: &mut Command) {
    let starter = rustix::process::getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The starter may have ended before the signal was asked for.
        match rustix::process::getppid() == Some(starter) {
            true => Ok(()),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    };
    // SAFETY: the closure runs in the new process and makes two system calls; it takes no lock and no memory.
    unsafe { command.pre_exec(ask) };
}

/// Descriptors beside standard input, output and error that a process was started with.
pub struct Inherited(Vec<libc::c_int>);

impl Inherited {
    /// Number up to which to look: shells and `make` pass on low numbers.
    const END: libc::c_int = 1024;

    /// Finds the descriptors that are open now. One that is closed on `exec` was opened by this process,
    /// or taken over, and does not count.
    #[must_use]
    pub fn look() -> Self {
        // SAFETY: F_GETFD only asks, and fails on a number that is not open.
        let flags = |&number: &libc::c_int| unsafe { libc::fcntl(number, libc::F_GETFD) };
        Self((3..Self::END).filter(|number| flags(number) == 0).collect())
    }

    /// Closes the descriptors that were found.
    pub fn close(self) {
        for number in self.0 {
            // SAFETY: it came with the start of this process, which has not taken it, so nothing here
            // owns it.
            unsafe { libc::close(number) };
        }
    }
}
