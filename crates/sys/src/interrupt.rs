//! Breaking off a system call in which another thread waits.
//!
//! A thread that waits for a device without a time limit ends its wait when it is sent a signal. The signal is SIGURG,
//! which a process that does not expect it ignores, with a handler that does nothing: the call fails with `EINTR`.

use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::ptr;
use std::sync::OnceLock;
use std::thread::JoinHandle;

const SIGNAL: libc::c_int = libc::SIGURG;

/// Breaks off the system call in which a thread waits. A thread that is not in a call, or enters one just then, notices
/// nothing, so the caller sets a flag first and repeats this until the thread has seen it.
///
/// # Errors
/// As `sigaction(2)`.
pub fn interrupt<T>(thread: &JoinHandle<T>) -> io::Result<()> {
    install()?;
    // SAFETY: a thread whose handle exists has been neither joined nor detached, so its number is valid. The signal has
    // a handler that does nothing.
    match unsafe { libc::pthread_kill(thread.as_pthread_t(), SIGNAL) } {
        // A thread that has just ended is no failure.
        0 | libc::ESRCH => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Option<i32>> = OnceLock::new();
    let error = INSTALLED.get_or_init(|| {
        // SAFETY: all its fields are numbers and pointers that may be null.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int) = ignore;
        action.sa_sigaction = handler as usize;
        // Without SA_RESTART, so that the call ends.
        // SAFETY: `action` is a whole `sigaction`, and its handler may run at any time, since it does nothing.
        let result = unsafe { libc::sigaction(SIGNAL, &raw const action, ptr::null_mut()) };
        match result {
            0 => None,
            _ => io::Error::last_os_error().raw_os_error(),
        }
    });
    match error {
        None => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(*error)),
    }
}

extern "C" fn ignore(_signal: libc::c_int) {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_thread_that_waits_for_a_pipe_is_woken() {
        static SEEN: AtomicBool = AtomicBool::new(false);
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let waiting = std::thread::spawn(move || {
            let result = rustix::io::read(&reader, &mut [0; 1]);
            SEEN.store(true, Ordering::SeqCst);
            result
        });
        while !SEEN.load(Ordering::SeqCst) {
            interrupt(&waiting).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        interrupt(&waiting).unwrap();
        assert_eq!(waiting.join().unwrap(), Err(rustix::io::Errno::INTR));
    }
}
