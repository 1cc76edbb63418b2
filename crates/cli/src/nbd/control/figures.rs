//! Figures that `stats` shows.

use std::time::Duration;

use scrim_volume::{DirectionStatistics, SAMPLED, Spread, Statistics, Volume};
use serde::{Deserialize, Serialize};

use crate::args::VolumeName;

/// Work of a volume since it was opened.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Name of the volume.
    pub(crate) name: String,
    /// One request in this many is timed.
    pub(crate) timed_one_in: u32,
    /// Number of times that the table was exchanged.
    pub(crate) exchanges: usize,
    /// True if requests are held.
    pub(crate) suspended: bool,
    pub(crate) read: Traffic,
    pub(crate) write: Traffic,
}

/// The requests of one direction.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Traffic {
    /// Requests that have ended, well or badly.
    pub(crate) requests: u64,
    /// Requests that have failed.
    pub(crate) failed: u64,
    /// Bytes of the requests that have not failed.
    pub(crate) bytes: u64,
    /// Requests that are being carried out, or held, now.
    pub(crate) in_flight: u64,
    /// Number of times that a request, or a part of one, went from one thread to another.
    pub(crate) handovers: u64,
    pub(crate) handovers_per_request: f64,
    /// Bytes that were copied in addition to the work of the cipher and the kernel.
    pub(crate) copied_bytes: u64,
    pub(crate) copied_per_byte: f64,
    /// Requests that were split over processors.
    pub(crate) split: u64,
    /// Time from the beginning of a request to its end.
    pub(crate) latency: Times,
    /// Part of `latency` that was spent in queues and waiting for locks.
    pub(crate) waiting: Times,
    /// Part of `latency` that was spent in the cipher.
    pub(crate) cipher: Times,
    /// Part of `latency` that was spent on the storage.
    pub(crate) backend: Times,
}

/// Distribution of the durations of timed requests, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) sum_ns: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    pub(crate) max_ns: u64,
}

impl Figures {
    /// Figures of an open volume, as they are now.
    pub(crate) fn of(name: &VolumeName, volume: &Volume) -> Self {
        Self::new(
            name.as_str(),
            &volume.statistics(),
            volume.generation(),
            volume.is_suspended(),
        )
    }

    pub(crate) fn new(
        name: &str,
        statistics: &Statistics,
        exchanges: usize,
        suspended: bool,
    ) -> Self {
        Self {
            name: name.to_owned(),
            timed_one_in: SAMPLED,
            exchanges,
            suspended,
            read: (&statistics.read).into(),
            write: (&statistics.write).into(),
        }
    }

    /// Each direction with its name.
    pub(crate) fn directions(&self) -> [(&'static str, &Traffic); 2] {
        [("read", &self.read), ("write", &self.write)]
    }
}

impl Traffic {
    /// The whole and its parts, by their names.
    pub(crate) fn stages(&self) -> [(&'static str, &Times); 4] {
        [
            ("total", &self.latency),
            ("waiting", &self.waiting),
            ("cipher", &self.cipher),
            ("backend", &self.backend),
        ]
    }
}

impl From<&DirectionStatistics> for Traffic {
    fn from(statistics: &DirectionStatistics) -> Self {
        let DirectionStatistics {
            requests,
            failed,
            bytes,
            in_flight,
            handovers,
            copied_bytes,
            split,
            ..
        } = *statistics;
        Self {
            requests,
            failed,
            bytes,
            in_flight,
            handovers,
            handovers_per_request: ratio(handovers, requests),
            copied_bytes,
            copied_per_byte: ratio(copied_bytes, bytes),
            split,
            latency: statistics.latency.into(),
            waiting: statistics.waiting.into(),
            cipher: statistics.cipher.into(),
            backend: statistics.backend.into(),
        }
    }
}

impl From<Spread> for Times {
    fn from(spread: Spread) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            count: spread.count,
            sum_ns: nanos(spread.sum),
            p50_ns: nanos(spread.p50),
            p99_ns: nanos(spread.p99),
            p999_ns: nanos(spread.p999),
            max_ns: nanos(spread.max),
        }
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a ratio of counts, rounded as any"
)]
fn ratio(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    }
}
