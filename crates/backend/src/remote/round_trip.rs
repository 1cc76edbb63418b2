//! The time after which a server answers a short request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Most data of a short request, in bytes: its time is that of the way and of the server, not of the data.
const SHORT: u32 = 16 << 10;
/// Part of the difference by which a slower answer raises the estimate: answers that waited behind others of a full
/// queue say little, and a server that has become slow shows after some hundred requests.
const SLOWER: u64 = 64;
/// Estimate before the first answer.
const UNKNOWN: u64 = 0;

/// Estimate from the answers so far: close to the shortest of the latest, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct RoundTrip(AtomicU64);

impl RoundTrip {
    /// Learns from the answer to a request with `len` bytes of data, either way; not from a flush, which has none.
    pub(super) fn learn(&self, len: u32, took: Duration) {
        if !(1..=SHORT).contains(&len) {
            return;
        }
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        // Of two threads that learn at a time one may be forgotten.
        let known = self.0.load(Ordering::Relaxed);
        let learned = match known {
            UNKNOWN => took,
            known if took <= known => took,
            known => known + (took - known).div_ceil(SLOWER),
        };
        self.0.store(learned, Ordering::Relaxed);
    }

    /// Returns the estimate; `None` before the first short request was answered.
    pub(super) fn estimate(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            UNKNOWN => None,
            nanoseconds => Some(Duration::from_nanos(nanoseconds)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_shortest_of_the_latest_answers_counts() {
        let round_trip = RoundTrip::default();
        assert_eq!(round_trip.estimate(), None);
        round_trip.learn(4096, 2 * MS);
        round_trip.learn(4096, 9 * MS);
        let waited = round_trip.estimate().unwrap();
        assert!((2 * MS..3 * MS).contains(&waited), "{waited:?}");
        round_trip.learn(4096, MS);
        assert_eq!(round_trip.estimate(), Some(MS));
    }

    #[test]
    fn a_server_that_becomes_slow_shows() {
        let round_trip = RoundTrip::default();
        round_trip.learn(4096, MS);
        for _ in 0..500 {
            round_trip.learn(4096, 10 * MS);
        }
        assert!(round_trip.estimate().unwrap() > 9 * MS);
    }

    #[test]
    fn the_time_of_much_data_says_nothing() {
        let round_trip = RoundTrip::default();
        round_trip.learn(1 << 20, MS);
        assert_eq!(round_trip.estimate(), None);
    }
}
