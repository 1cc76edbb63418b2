//! Activity of an HTTP/2 connection: requests in flight, and the time of the last progress.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use crate::limits::Limits;

/// Requests in flight of a connection, and the time of its last progress.
pub(super) struct Activity {
    in_flight: Cell<usize>,
    /// Last time when a request began or ended, or the client accepted part of an answer.
    last: Cell<Instant>,
}

/// State of a connection with respect to its time limits.
pub(super) enum Pace {
    Active,
    Idle,
    Stalled,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            in_flight: Cell::new(0),
            last: Cell::new(Instant::now()),
        }
    }

    /// Counts a request, until the result is dropped.
    pub(super) fn begin(self: &Rc<Self>) -> InFlight {
        self.last.set(Instant::now());
        self.in_flight.set(self.in_flight.get() + 1);
        InFlight(Rc::clone(self))
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    pub(super) fn last(&self) -> Instant {
        self.last.get()
    }

    /// Compares the time since the last progress with the limits.
    pub(super) fn pace(&self, limits: &Limits) -> Pace {
        let still = self.last.get().elapsed();
        match self.in_flight.get() {
            0 if still >= limits.idle => Pace::Idle,
            1.. if still >= limits.stall => Pace::Stalled,
            _ => Pace::Active,
        }
    }
}

/// A request whose answer is not complete.
pub(super) struct InFlight(Rc<Activity>);

impl InFlight {
    /// Notes that the client accepted part of the answer.
    pub(super) fn progressed(&self) {
        self.0.last.set(Instant::now());
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.progressed();
        self.0.in_flight.set(self.0.in_flight.get() - 1);
    }
}
