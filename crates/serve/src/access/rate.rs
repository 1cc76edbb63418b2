//! Rates with a burst.

use std::time::{Duration, Instant};

/// A rate of events that is allowed on average, with a number of them that may come at once (the generic cell rate
/// algorithm: one time is all the state of a client).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    /// Average time between two events.
    interval: Duration,
    /// Time by which events may be early.
    tolerance: Duration,
}

/// Events of one client so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meter {
    /// Time at which the client has its whole burst again; `None` if it always had.
    full: Option<Instant>,
}

impl Rate {
    /// Makes the rate of one event each `interval`, of which `burst` may come at once.
    pub(super) fn new(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            tolerance: interval.saturating_mul(burst.saturating_sub(1)),
        }
    }
}

impl Meter {
    /// Checks whether an event is allowed now.
    ///
    /// # Errors
    /// Time until one is allowed.
    pub(super) fn check(&self, rate: &Rate, now: Instant) -> Result<(), Duration> {
        let early = self.full_from(now).saturating_duration_since(now);
        match early.checked_sub(rate.tolerance) {
            None | Some(Duration::ZERO) => Ok(()),
            Some(wait) => Err(wait),
        }
    }

    /// Counts an event as allowed.
    pub(super) fn count(&mut self, rate: &Rate, now: Instant) {
        self.full = self.full_from(now).checked_add(rate.interval);
    }

    /// Takes the last event back.
    pub(super) fn uncount(&mut self, rate: &Rate) {
        self.full = self.full.and_then(|full| full.checked_sub(rate.interval));
    }

    fn full_from(&self, now: Instant) -> Instant {
        self.full.map_or(now, |full| full.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_is_allowed_and_then_the_rate() {
        let rate = Rate::new(SECOND, 3);
        let (mut meter, start) = (Meter::default(), Instant::now());
        for _ in 0..3 {
            assert_eq!(meter.check(&rate, start), Ok(()));
            meter.count(&rate, start);
        }
        assert_eq!(meter.check(&rate, start), Err(SECOND));
        assert_eq!(meter.check(&rate, start + SECOND / 4), Err(SECOND * 3 / 4));
        let later = start + SECOND;
        assert_eq!(meter.check(&rate, later), Ok(()));
        meter.count(&rate, later);
        assert_eq!(meter.check(&rate, later), Err(SECOND));
        // After a long pause the burst is whole, and not larger.
        let much_later = start + 1000 * SECOND;
        for _ in 0..3 {
            assert_eq!(meter.check(&rate, much_later), Ok(()));
            meter.count(&rate, much_later);
        }
        assert_eq!(meter.check(&rate, much_later), Err(SECOND));
    }

    #[test]
    fn an_event_that_is_taken_back_does_not_count() {
        let rate = Rate::new(SECOND, 1);
        let (mut meter, start) = (Meter::default(), Instant::now());
        meter.count(&rate, start);
        assert!(meter.check(&rate, start).is_err());
        meter.uncount(&rate);
        assert_eq!(meter.check(&rate, start), Ok(()));
    }
}
