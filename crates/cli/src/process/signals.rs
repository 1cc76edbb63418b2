//! Signals to a process that serves: they ask it to end, to look at its device or its configuration again, or to send
//! new clients elsewhere.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::{flag, low_level::pipe};

use crate::error::CliError;

/// True once this process was asked to end, by a signal or by [`note_end`].
static ASKED_TO_END: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Returns whether this process was asked to end: for work that takes long and waits for no signal.
pub(crate) fn asked_to_end() -> bool {
    ASKED_TO_END.load(Ordering::SeqCst)
}

/// Notes that this process was asked to end.
pub(crate) fn note_end() {
    ASKED_TO_END.store(true, Ordering::SeqCst);
}

/// Effect of SIGHUP on this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    /// The terminal that the process belongs to has gone: it ends.
    Ends,
    /// The process has no such terminal, so another process sent the signal: it looks at its device again.
    Reloads,
}

impl Hangup {
    /// Returns the effect on this process as it is now, in the foreground.
    pub(crate) fn here() -> Self {
        match File::open("/dev/tty") {
            Ok(_) => Self::Ends,
            Err(_) => Self::Reloads,
        }
    }
}

/// Request that signals have made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Nothing,
    ToReload,
    /// Go on, and let health checks send new clients elsewhere, or here again.
    ToSetDraining(bool),
    ToEnd,
}

/// Becomes readable when the process is sent SIGTERM, SIGINT, SIGHUP, or a signal of [`with_draining`](Self::with_draining).
pub(crate) struct Signals {
    awake: UnixStream,
    wake: UnixStream,
    ending: Arc<AtomicBool>,
    reloading: Arc<AtomicBool>,
    /// The last request of SIGUSR1 or SIGUSR2: one of the numbers below, or 0.
    draining: Arc<AtomicUsize>,
}

const DRAIN: usize = 1;
const RESUME: usize = 2;

impl Signals {
    pub(crate) fn listen(hangup: Hangup) -> Result<Self, CliError> {
        Self::register(hangup).map_err(|error| CliError::io("listen for signals", &error))
    }

    fn register(hangup: Hangup) -> io::Result<Self> {
        let (awake, wake) = UnixStream::pair()?;
        awake.set_nonblocking(true)?;
        let signals = Self {
            awake,
            wake,
            ending: Arc::clone(&ASKED_TO_END),
            reloading: Arc::default(),
            draining: Arc::default(),
        };
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            let noted = match (signal, hangup) {
                (SIGHUP, Hangup::Reloads) => &signals.reloading,
                _ => &signals.ending,
            };
            // In this order, so that the thread that is woken finds the reason.
            flag::register(signal, Arc::clone(noted))?;
            signals.wake_on(signal)?;
        }
        Ok(signals)
    }

    /// Listens for SIGUSR1 and SIGUSR2 too, which would end the process otherwise.
    pub(crate) fn with_draining(self) -> Result<Self, CliError> {
        let register = |signal, request| {
            flag::register_usize(signal, Arc::clone(&self.draining), request)?;
            self.wake_on(signal)
        };
        register(SIGUSR1, DRAIN)
            .and_then(|()| register(SIGUSR2, RESUME))
            .map_err(|error| CliError::io("listen for signals", &error))?;
        Ok(self)
    }

    fn wake_on(&self, signal: i32) -> io::Result<()> {
        pipe::register(signal, self.wake.try_clone()?)?;
        Ok(())
    }

    /// Forgets that the process was asked to end, so that [`take`](Self::take) tells of the next such request.
    pub(crate) fn forget_end(&self) {
        self.ending.store(false, Ordering::SeqCst);
    }

    /// Returns the request that was made since the last call.
    pub(crate) fn take(&self) -> Asked {
        // The pipe is emptied first, so that a signal that comes in between wakes the thread again.
        while (&self.awake).read(&mut [0; 64]).is_ok_and(|len| len > 0) {}
        if self.ending.load(Ordering::SeqCst) {
            Asked::ToEnd
        } else if self.reloading.swap(false, Ordering::SeqCst) {
            Asked::ToReload
        } else {
            match self.draining.swap(0, Ordering::SeqCst) {
                DRAIN => Asked::ToSetDraining(true),
                RESUME => Asked::ToSetDraining(false),
                _ => Asked::Nothing,
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.awake.as_fd()
    }
}
