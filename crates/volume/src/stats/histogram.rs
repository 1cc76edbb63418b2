//! Histogram of durations, whose steps grow with the duration.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Steps in each doubling: a quantile is wrong by at most a 16th.
const STEPS: usize = 16;
/// The shortest duration that is told from none: 2⁸ ns.
const FIRST: u32 = 8;
/// Doublings, up to 2³⁴ ns = 17 s; what is longer counts as that.
const DOUBLINGS: usize = 26;
const BUCKETS: usize = DOUBLINGS * STEPS + 1;

pub(crate) struct Histogram {
    counts: Box<[AtomicU64]>,
    /// Sum of all durations, in nanoseconds.
    sum: AtomicU64,
    /// The longest, in nanoseconds.
    max: AtomicU64,
}

/// Distribution of the durations of a number of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spread {
    /// Number of requests measured.
    pub count: u64,
    /// Sum of all durations.
    pub sum: Duration,
    /// Median: half of the requests took no longer.
    pub p50: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
    /// 999 of 1000 took no longer.
    pub p999: Duration,
    /// The longest of all times.
    pub max: Duration,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }

    pub(crate) fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
        self.max.fetch_max(nanos, Ordering::Relaxed);
    }

    pub(crate) fn spread(&self) -> Spread {
        let counts: Vec<u64> = self
            .counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .collect();
        let count: u64 = counts.iter().sum();
        let max = self.max.load(Ordering::Relaxed);
        let quantile = |per_mille: u64| {
            let rank = (count * per_mille).div_ceil(1000).max(1);
            let mut below = 0;
            let reached = counts.iter().position(|&here| {
                below += here;
                below >= rank
            });
            // The end of a bucket, but nothing took longer than the longest.
            Duration::from_nanos(reached.map_or(0, end).min(max))
        };
        Spread {
            count,
            sum: Duration::from_nanos(self.sum.load(Ordering::Relaxed)),
            p50: quantile(500),
            p99: quantile(990),
            p999: quantile(999),
            max: Duration::from_nanos(max),
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "only the lowest bits count"
)]
fn bucket(nanos: u64) -> usize {
    let Some(doubling) = nanos.max(1).ilog2().checked_sub(FIRST) else {
        return 0;
    };
    let step = (nanos >> (doubling + FIRST - STEPS.ilog2())) as usize % STEPS;
    (1 + doubling as usize * STEPS + step).min(BUCKETS - 1)
}

/// Returns the end of a bucket, in nanoseconds.
fn end(bucket: usize) -> u64 {
    let Some(index) = bucket.checked_sub(1) else {
        return 1 << FIRST;
    };
    let base = 1u64 << (FIRST as usize + index / STEPS);
    base + (index % STEPS + 1) as u64 * (base / STEPS as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_lies_below_its_buckets_end_by_a_sixteenth_at_most() {
        let mut nanos = 1u64;
        while nanos < 1 << 34 {
            let end = end(bucket(nanos));
            assert!(nanos <= end, "{nanos} {end}");
            assert!(end <= 256 || end - nanos <= nanos / 16 + 1, "{nanos} {end}");
            nanos += nanos / 37 + 1;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_durations() {
        let histogram = Histogram::new();
        assert_eq!(histogram.spread(), Spread::default());
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let spread = histogram.spread();
        let near = |duration: Duration, micros: f64| {
            let seen = duration.as_secs_f64() * 1e6;
            assert!(seen >= micros && seen <= micros * 1.07, "{seen} {micros}");
        };
        near(spread.p50, 500.0);
        near(spread.p99, 990.0);
        near(spread.p999, 999.0);
        assert_eq!(spread.max, Duration::from_micros(1000));
        assert_eq!(spread.count, 1000);
        assert_eq!(spread.sum, Duration::from_micros(500_500));
    }
}
