//! Messages for the operator of the server.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum time between two messages of one kind: clients can cause any number of faults.
const INTERVAL: Duration = Duration::from_secs(10);

/// Callback that receives a sentence about a fault, for the server's operator.
pub type OnFault = Arc<dyn Fn(&str) + Send + Sync>;

/// Passes a worker's messages of one kind on, at most one in each [`INTERVAL`].
pub(crate) struct Operator {
    on_fault: OnFault,
    last: Cell<Option<Instant>>,
}

impl Operator {
    pub(crate) fn new(on_fault: OnFault) -> Self {
        Self {
            on_fault,
            last: Cell::default(),
        }
    }

    pub(crate) fn tell(&self, text: impl FnOnce() -> String) {
        let now = Instant::now();
        let is_soon = |last| now < last + INTERVAL;
        if self.last.get().is_some_and(is_soon) {
            return;
        }
        self.last.set(Some(now));
        (self.on_fault)(&text());
    }
}
