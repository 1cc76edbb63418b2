//! Counters of a worker, which only that worker changes and any thread may read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::http::Meter;
use crate::log::Entry;
use crate::tls::Facts;
use crate::tls::kernel::{PATHS, Path};

/// Bounds of the latencies' buckets: 2⁰ to 2²³ microseconds, and one for all that took longer.
const BUCKETS: usize = 25;

/// A relaxed atomic counter; it orders no other memory access.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one worker, on their own cache lines, so that workers do not share any.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) connections: Counter,
    pub(crate) open: Counter,
    /// Connections by a proxy, for a client that has as many as it may have.
    pub(crate) refused: Counter,
    pub(crate) requests: Requests,
    pub(crate) tls: Tls,
    /// Bytes of answers' content, which are added as they are sent.
    pub(crate) bytes_sent: Counter,
    /// Answers that were begun and not sent completely.
    pub(crate) broken: Counter,
    pub(crate) latencies: Latencies,
}

/// Requests by version of the protocol, answers by class of the status.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) http1: Counter,
    pub(crate) http2: Counter,
    pub(crate) by_class: [Counter; 5],
}

#[derive(Default)]
pub(crate) struct Tls {
    pub(crate) tls12: Counter,
    pub(crate) tls13: Counter,
    /// Handshakes that resumed an earlier session.
    pub(crate) resumed: Counter,
    pub(crate) failed: Counter,
    /// Connections by implementation of their records and reason, in the order of [`Path::all`].
    pub(crate) by_path: [Counter; PATHS],
}

/// Durations of answers, from a request's head to the last byte given to the kernel.
#[derive(Default)]
pub(crate) struct Latencies {
    buckets: [Counter; BUCKETS],
    sum_ns: Counter,
}

impl Counters {
    /// Counts a request that was answered, except its bytes.
    pub(crate) fn record(&self, entry: &Entry) {
        match entry.version {
            "HTTP/2.0" => self.requests.http2.add(1),
            _ => self.requests.http1.add(1),
        }
        self.requests.answered(entry.status);
        self.latencies.record(entry.took);
        if !entry.whole {
            self.broken.add(1);
        }
    }
}

impl Meter for Counters {
    fn add_sent(&self, bytes: u64) {
        self.bytes_sent.add(bytes);
    }
}

impl Requests {
    fn answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, self.by_class.len()) - 1;
        self.by_class[class].add(1);
    }
}

impl Tls {
    pub(crate) fn record(&self, facts: &Facts, path: Path) {
        self.by_path[path.index()].add(1);
        let version = if facts.tls13() {
            &self.tls13
        } else {
            &self.tls12
        };
        version.add(1);
        if facts.resumed {
            self.resumed.add(1);
        }
    }
}

impl Latencies {
    pub(crate) fn record(&self, took: Duration) {
        self.buckets[bucket(took)].add(1);
        self.sum_ns
            .add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// The first bucket whose bound is not below `took`.
fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
    let power = micros
        .max(1)
        .checked_next_power_of_two()
        .map_or(64, u64::trailing_zeros);
    (power as usize).min(BUCKETS - 1)
}

/// All workers' counters, added up at one moment.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Connections that were accepted since the start.
    pub connections: u64,
    /// Connections that are open.
    pub open: u64,
    /// Connections that were refused, since there were too many.
    pub refused: u64,
    /// Requests by HTTP/1.1 and 1.0.
    pub http1: u64,
    pub http2: u64,
    /// Answers by the first digit of their status, from 1 on.
    pub by_class: [u64; 5],
    /// Handshakes of TLS 1.2.
    pub tls12: u64,
    /// Handshakes of TLS 1.3.
    pub tls13: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
    pub failed: u64,
    /// TLS connections by implementation of their records and reason, in the order of
    /// [`Path::all`](crate::tls::kernel::Path::all).
    pub by_path: [u64; PATHS],
    /// Bytes of answers' content, before encryption.
    pub bytes_sent: u64,
    /// Answers that were begun and not sent completely.
    pub broken: u64,
    /// Answers by their duration: up to 2ⁿ µs in the n-th, the rest in the last.
    pub latencies: [u64; BUCKETS],
    /// Sum of those durations, in nanoseconds.
    pub latency_sum: u64,
}

impl Figures {
    pub(crate) fn of<'a>(workers: impl Iterator<Item = &'a Counters>) -> Self {
        let mut all = Self::default();
        for one in workers {
            all.add(one);
        }
        all
    }

    fn add(&mut self, one: &Counters) {
        self.connections += one.connections.get();
        self.open += one.open.get();
        self.refused += one.refused.get();
        self.http1 += one.requests.http1.get();
        self.http2 += one.requests.http2.get();
        for (sum, class) in self.by_class.iter_mut().zip(&one.requests.by_class) {
            *sum += class.get();
        }
        self.tls12 += one.tls.tls12.get();
        self.tls13 += one.tls.tls13.get();
        self.resumed += one.tls.resumed.get();
        self.failed += one.tls.failed.get();
        for (sum, path) in self.by_path.iter_mut().zip(&one.tls.by_path) {
            *sum += path.get();
        }
        self.bytes_sent += one.bytes_sent.get();
        self.broken += one.broken.get();
        for (sum, bucket) in self.latencies.iter_mut().zip(&one.latencies.buckets) {
            *sum += bucket.get();
        }
        self.latency_sum += one.latencies.sum_ns.get();
    }
}

/// Counters of all workers, and of connections that were refused before any worker had them.
pub(crate) struct Tally {
    pub(crate) workers: Vec<Arc<Counters>>,
    /// Connections that were refused when they came.
    pub(crate) refused: AtomicU64,
}

impl Tally {
    pub(crate) fn figures(&self) -> Figures {
        let mut figures = Figures::of(self.workers.iter().map(|counters| &**counters));
        figures.refused += self.refused.load(Ordering::Relaxed);
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_counted_where_its_bound_is() {
        let micros = |count| bucket(Duration::from_micros(count));
        assert_eq!(bucket(Duration::ZERO), 0);
        assert_eq!(bucket(Duration::from_nanos(1)), 0);
        assert_eq!(
            (micros(1), micros(2), micros(3), micros(4), micros(5)),
            (0, 1, 2, 2, 3)
        );
        assert_eq!(micros(1 << 23), 23);
        assert_eq!(micros((1 << 23) + 1), BUCKETS - 1);
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }
}
