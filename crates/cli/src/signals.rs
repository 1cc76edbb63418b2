//! What a process that serves a volume is asked by signals: to end, or to look at its device again.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};

use crate::error::CliError;

/// Whether this process was asked to end, by whatever noticed it.
static ASKED_TO_END: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Returns whether this process was asked to end: for work that takes long and waits for no signal.
pub(crate) fn asked_to_end() -> bool {
    ASKED_TO_END.load(Ordering::SeqCst)
}

/// Notes that this process was asked to end.
pub(crate) fn note_end() {
    ASKED_TO_END.store(true, Ordering::SeqCst);
}

/// What SIGHUP asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    /// The terminal that the process belongs to has gone: it ends.
    Ends,
    /// There is no such terminal, so that somebody has sent it: it looks at its device again.
    Reloads,
}

impl Hangup {
    /// What it means to this process as it is now, in the foreground.
    pub(crate) fn here() -> Self {
        match File::open("/dev/tty") {
            Ok(_) => Self::Ends,
            Err(_) => Self::Reloads,
        }
    }
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Nothing,
    ToReload,
    ToEnd,
}

/// Becomes readable when the process is sent SIGTERM, SIGINT or SIGHUP.
pub(crate) struct Signals {
    awake: UnixStream,
    ending: Arc<AtomicBool>,
    reloading: Arc<AtomicBool>,
}

impl Signals {
    pub(crate) fn listen(hangup: Hangup) -> Result<Self, CliError> {
        Self::register(hangup).map_err(|error| CliError::io("listen for signals", &error))
    }

    fn register(hangup: Hangup) -> io::Result<Self> {
        let (awake, wake) = UnixStream::pair()?;
        awake.set_nonblocking(true)?;
        let signals = Self {
            awake,
            ending: Arc::clone(&ASKED_TO_END),
            reloading: Arc::default(),
        };
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            let noted = match (signal, hangup) {
                (SIGHUP, Hangup::Reloads) => &signals.reloading,
                _ => &signals.ending,
            };
            // In this order: who is woken finds the reason.
            flag::register(signal, Arc::clone(noted))?;
            pipe::register(signal, wake.try_clone()?)?;
        }
        Ok(signals)
    }

    /// What was asked for since the last time.
    pub(crate) fn take(&self) -> Asked {
        // Emptied first, so that what comes in between wakes again.
        while (&self.awake).read(&mut [0; 64]).is_ok_and(|len| len > 0) {}
        if self.ending.load(Ordering::SeqCst) {
            Asked::ToEnd
        } else if self.reloading.swap(false, Ordering::SeqCst) {
            Asked::ToReload
        } else {
            Asked::Nothing
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.awake.as_fd()
    }
}
