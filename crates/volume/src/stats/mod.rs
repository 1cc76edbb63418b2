//! Counts of a volume's requests, and the time that they took.
//!
//! Counters are kept by each lane for itself, so that threads do not fight over them. Clocks are read
//! for one request of [`SAMPLED`] only: twice and at each change of stage.

mod histogram;
mod trace;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::data_path::Direction;
use crate::gate::{LANES, lane_of_this_thread};

pub(crate) use histogram::Histogram;
pub use histogram::Spread;
pub(crate) use trace::{Stage, Trace};

/// Number of requests of a thread of which one is measured. A prime, so that no rhythm of requests escapes it.
pub const SAMPLED: u32 = 17;

/// Statistics of a volume since it was opened.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// Statistics of requests that read.
    pub read: DirectionStatistics,
    /// Writes, and zeros that were written.
    pub write: DirectionStatistics,
}

/// Statistics of one direction.
#[derive(Debug, Clone, Default)]
pub struct DirectionStatistics {
    /// Requests that have ended, well or badly.
    pub requests: u64,
    /// Requests of those that have failed.
    pub failed: u64,
    /// Bytes of the requests that have succeeded.
    pub bytes: u64,
    /// Requests that are being carried out now.
    pub in_flight: u64,
    /// Number of times a request, or a part of one, went from one thread to another.
    pub handovers: u64,
    /// Bytes that were copied beside the cipher and the kernel.
    pub copied_bytes: u64,
    /// Requests that were split over processors.
    pub split: u64,
    /// Time from a request's beginning to its end.
    pub latency: Spread,
    /// Part of that time spent in queues and for locks.
    pub waiting: Spread,
    /// Part of that time spent for the cipher.
    pub cipher: Spread,
    /// Part of that time spent for the storage.
    pub backend: Spread,
}

/// Counters of one volume.
pub(crate) struct Counters {
    lanes: Box<[Lane]>,
    read: Times,
    write: Times,
}

#[repr(align(128))]
#[derive(Default)]
struct Lane {
    read: Counts,
    write: Counts,
}

#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
    handovers: AtomicU64,
    copied_bytes: AtomicU64,
    split: AtomicU64,
}

struct Times {
    latency: Histogram,
    waiting: Histogram,
    cipher: Histogram,
    backend: Histogram,
}

/// Measurements of one request, or of a part of one.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) trace: Trace,
    pub(crate) handovers: u32,
    pub(crate) copied_bytes: usize,
    pub(crate) split: bool,
}

impl Record {
    /// Starts the record of a part of the same request that goes on elsewhere.
    pub(crate) fn part(&self) -> Self {
        Self {
            trace: self.trace.part(),
            ..Self::default()
        }
    }

    /// Adds the record of a part.
    pub(crate) fn add(&mut self, part: &Self) {
        self.trace.add(&part.trace);
        self.handovers += part.handovers;
        self.copied_bytes += part.copied_bytes;
        self.split |= part.split;
    }
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            lanes: (0..LANES).map(|_| Lane::default()).collect(),
            read: Times::new(),
            write: Times::new(),
        }
    }

    /// Counts a request as begun, and starts its record.
    pub(crate) fn begin(&self, direction: Direction) -> Record {
        self.counts(direction).begun.fetch_add(1, Ordering::Relaxed);
        let trace = if is_sampled() {
            Trace::started()
        } else {
            Trace::off()
        };
        Record {
            trace,
            ..Record::default()
        }
    }

    /// Takes back a request that was counted as begun: it will be made in another way.
    pub(crate) fn take_back(&self, direction: Direction) {
        self.counts(direction).begun.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a request as ended; `bytes` is `None` if it failed.
    pub(crate) fn end(&self, direction: Direction, bytes: Option<usize>, record: &Record) {
        let counts = self.counts(direction);
        let add = |counter: &AtomicU64, more: u64| {
            if more > 0 {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        };
        add(&counts.ended, 1);
        match bytes {
            Some(bytes) => add(&counts.bytes, bytes as u64),
            None => add(&counts.failed, 1),
        }
        add(&counts.handovers, record.handovers.into());
        add(&counts.copied_bytes, record.copied_bytes as u64);
        add(&counts.split, record.split.into());
        if let Some((latency, stages)) = record.trace.end() {
            let times = match direction {
                Direction::Read => &self.read,
                Direction::Write => &self.write,
            };
            times.latency.record(latency);
            times.waiting.record(stages.waiting);
            times.cipher.record(stages.cipher);
            times.backend.record(stages.backend);
        }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        Statistics {
            read: self.of(&self.read, |lane| &lane.read),
            write: self.of(&self.write, |lane| &lane.write),
        }
    }

    fn of(&self, times: &Times, counts: impl Fn(&Lane) -> &Counts) -> DirectionStatistics {
        let sum = |counter: fn(&Counts) -> &AtomicU64| -> u64 {
            let values = self.lanes.iter().map(|lane| counter(counts(lane)));
            values.map(|value| value.load(Ordering::Relaxed)).sum()
        };
        // First those that have ended: of the others there may be more by then, never fewer.
        let requests = sum(|counts| &counts.ended);
        DirectionStatistics {
            requests,
            failed: sum(|counts| &counts.failed),
            bytes: sum(|counts| &counts.bytes),
            in_flight: sum(|counts| &counts.begun).saturating_sub(requests),
            handovers: sum(|counts| &counts.handovers),
            copied_bytes: sum(|counts| &counts.copied_bytes),
            split: sum(|counts| &counts.split),
            latency: times.latency.spread(),
            waiting: times.waiting.spread(),
            cipher: times.cipher.spread(),
            backend: times.backend.spread(),
        }
    }

    fn counts(&self, direction: Direction) -> &Counts {
        let lane = &self.lanes[lane_of_this_thread()];
        match direction {
            Direction::Read => &lane.read,
            Direction::Write => &lane.write,
        }
    }
}

impl Times {
    fn new() -> Self {
        Self {
            latency: Histogram::new(),
            waiting: Histogram::new(),
            cipher: Histogram::new(),
            backend: Histogram::new(),
        }
    }
}

fn is_sampled() -> bool {
    thread_local!(static COUNT: Cell<u32> = const { Cell::new(0) });
    COUNT.with(|count| {
        let now = count.get();
        count.set((now + 1) % SAMPLED);
        now == 0
    })
}
