//! A hold of a volume's requests for a snapshot.

use std::time::{Duration, Instant};

use crate::mount::Frozen;

/// A hold of a volume's requests, while a snapshot is taken. It ends by itself, so that no command that hangs or is
/// killed can keep the requests.
pub(crate) struct Hold {
    /// Time at which it ends.
    until: Instant,
    /// File systems that are thawed when this is dropped, which is after the requests go on.
    _frozen: Vec<Frozen>,
}

impl Hold {
    pub(crate) fn new(limit: Duration, frozen: Vec<Frozen>) -> Self {
        Self {
            until: Instant::now() + limit,
            _frozen: frozen,
        }
    }

    /// Returns whether its time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.until <= Instant::now()
    }
}
