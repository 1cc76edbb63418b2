//! A connection that is lost, and when to try again.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between the first and the second attempt; each further wait is twice as long.
const BACK_OFF_MIN: Duration = Duration::from_millis(50);
/// Longest time between two attempts.
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// The time since a session was lost.
pub(super) struct Outage {
    since: Instant,
    /// Earliest time of the next attempt.
    next_attempt: Instant,
    back_off: Duration,
    /// Latest error that the outage is known by.
    why: Arc<io::Error>,
}

impl Outage {
    /// Begins an outage, with a first attempt at once.
    pub(super) fn begin(now: Instant, why: Arc<io::Error>) -> Self {
        Self {
            since: now,
            next_attempt: now,
            back_off: BACK_OFF_MIN,
            why,
        }
    }

    /// An attempt has failed.
    pub(super) fn attempt_failed(&mut self, now: Instant, why: io::Error) {
        self.why = Arc::new(why);
        self.next_attempt = now + self.back_off;
        self.back_off = (self.back_off * 2).min(BACK_OFF_MAX);
    }

    /// Returns the time until the next attempt.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.next_attempt.saturating_duration_since(now)
    }

    /// Returns whether it has lasted for at least `limit`, so that no thread should wait for the next attempt.
    pub(super) fn is_lasting(&self, now: Instant, limit: Duration) -> bool {
        now.saturating_duration_since(self.since) >= limit
    }

    /// The error of a request that gives up.
    pub(super) fn error(&self) -> io::Error {
        as_error(&self.why)
    }
}

/// The error of a connection, which several requests share. It has no number, as the server's have.
pub(super) fn as_error(why: &Arc<io::Error>) -> io::Error {
    let kind = match why.kind() {
        // It is not the export that has an end.
        io::ErrorKind::UnexpectedEof => io::ErrorKind::ConnectionAborted,
        kind => kind,
    };
    io::Error::new(kind, Shared(Arc::clone(why)))
}

#[derive(Debug)]
struct Shared(Arc<io::Error>);

impl std::fmt::Display for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.kind() {
            io::ErrorKind::UnexpectedEof => f.write_str("the server has closed the connection"),
            io::ErrorKind::TimedOut => f.write_str("the server does not answer"),
            _ => self.0.fmt(f),
        }
    }
}

impl std::error::Error for Shared {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_double_up_to_five_seconds() {
        let now = Instant::now();
        let error = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let mut outage = Outage::begin(now, Arc::new(error()));
        assert_eq!(outage.wait(now), Duration::ZERO);
        let waits: Vec<_> = (0..9)
            .map(|_| {
                outage.attempt_failed(now, error());
                outage.wait(now).as_millis()
            })
            .collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        let limit = Duration::from_secs(30);
        assert!(!outage.is_lasting(now, limit));
        assert!(outage.is_lasting(now + limit, limit));
    }
}
