//! The signal by which a server ends the waits of all its threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// A flag with an event descriptor that becomes readable, for good, when it is raised.
pub(crate) struct Stop {
    raised: AtomicBool,
    event: OwnedFd,
}

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            raised: AtomicBool::new(false),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Ends every wait, now and later.
    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        // Fails only when the counter is full, and then the event is there already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
