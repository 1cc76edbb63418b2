//! Choice between polling a connection's socket and sleeping.
//!
//! A thread that sleeps for the next request is woken in 5 to 70 µs, which is more than serving
//! 4 KiB takes. One that polls notices at once, but takes a processor. So polling is short, only
//! after a request, and only while it pays:
//!
//! - The *window* of a connection, the time it polls before it sleeps, grows while requests come
//!   soon after it has ended, up to [`limits::POLL`], and shrinks to nothing while they come much
//!   later: the rule by which KVM polls for a halted guest. An idle client costs nothing.
//! - Between looks the processor is offered to other threads, so that a client on the same
//!   processor can go on. Where another program takes the offer, for a whole slice of time, the
//!   machine is busy: then the window stays closed for a multiple of that time, because a thread
//!   that sleeps is given the processor as soon as it is woken, and one that waits for its turn is
//!   not.
//! - At most half of the processors poll at a time for one server.

use std::time::{Duration, Instant};

use crate::budget::Budget;
use crate::limits;

/// The shortest window above zero.
const FIRST: Duration = Duration::from_micros(10);

/// A yielded processor that comes back later than this was used by another program than the client.
const SLICE: Duration = Duration::from_micros(40);

/// Time for which the window stays closed, as a multiple of the time for which the processor was
/// lost: so polling loses at most one part in this many of the time to others.
const CLOSED_FACTOR: u32 = 32;

/// The longest time that the window stays closed.
const CLOSED_MAX: Duration = Duration::from_secs(1);

/// The window of one connection.
#[derive(Debug)]
pub(crate) struct Window {
    length: Duration,
    /// Earliest time at which the window may open.
    closed_until: Instant,
}

impl Window {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            length: Duration::ZERO,
            closed_until: now,
        }
    }

    /// Time to poll before sleeping.
    pub(crate) fn length(&self, now: Instant) -> Duration {
        if now < self.closed_until {
            Duration::ZERO
        } else {
            self.length
        }
    }

    /// Learns from a request that came `waited` after the one before it was answered.
    pub(crate) fn learn(&mut self, waited: Duration) {
        if waited <= self.length {
            return;
        }
        self.length = if waited <= limits::POLL {
            (self.length * 2).clamp(FIRST, limits::POLL)
        } else if self.length > FIRST {
            self.length / 2
        } else {
            Duration::ZERO
        };
    }

    /// Learns that the processor, offered at `offered`, came back at `now`; returns whether it is
    /// still right to poll.
    pub(crate) fn offered(&mut self, offered: Instant, now: Instant) -> bool {
        let lost = now.saturating_duration_since(offered);
        if lost > SLICE {
            self.closed_until = now + lost.saturating_mul(CLOSED_FACTOR).min(CLOSED_MAX);
        }
        lost <= SLICE
    }
}

/// Lets about a microsecond go by (0.5 to 3, by processor). Looking more often would only fight the
/// client over the socket's locks, while it puts the next request in.
pub(crate) fn pause() {
    for _ in 0..PAUSES {
        std::hint::spin_loop();
    }
}

const PAUSES: u32 = 64;

/// Connections that may poll at a time: half of the processors this process may use, at least one.
pub(crate) fn pollers() -> Budget {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Budget::new((processors / 2).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_while_requests_come_soon_and_closes_when_they_do_not() {
        let now = Instant::now();
        let mut window = Window::new(now);
        let soon = limits::POLL;
        let late = limits::POLL * 50;
        assert_eq!(window.length(now), Duration::ZERO);
        window.learn(soon);
        assert_eq!(window.length(now), FIRST);
        for _ in 0..20 {
            window.learn(soon);
        }
        assert_eq!(window.length(now), limits::POLL);
        for _ in 0..20 {
            window.learn(late);
        }
        assert_eq!(window.length(now), Duration::ZERO);
    }

    #[test]
    fn a_busy_machine_closes_the_window_for_a_while() {
        let now = Instant::now();
        let mut window = Window::new(now);
        window.learn(limits::POLL);
        assert!(window.offered(now, now + SLICE));
        assert_eq!(window.length(now), FIRST);
        let back = now + SLICE * 2;
        assert!(!window.offered(now, back));
        assert_eq!(window.length(back), Duration::ZERO);
        let open = back + SLICE * 2 * CLOSED_FACTOR;
        assert_eq!(window.length(open), FIRST, "tried again");
        let back = open + Duration::from_secs(60);
        assert!(!window.offered(open, back));
        assert_eq!(window.length(back + CLOSED_MAX), FIRST, "not for ever");
    }
}
