//! Figures of the data paths.

use super::load::Workload;
use super::setup::Contender;

/// Place of a volume, as seen from the requesters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Venue {
    /// In another process, behind NBD on a unix socket.
    Served,
    /// In the same process, on the requester's processor.
    InProcess,
    /// On a block device, which dm-crypt and this process encrypt side by side.
    Device,
}

impl Venue {
    /// Name of the venue as a part of series' names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::InProcess => "in_process",
            Self::Device => "device",
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Served => "through a served volume",
            Self::InProcess => "in process",
            Self::Device => "on a block device",
        }
    }
}

/// The figures of one run, medians over its rounds.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Rows by venue, workload and contender, in the order in which they are shown.
    pub rows: Vec<Row>,
    /// MB/s that plain requests and AES allow together, and by the report's arithmetic.
    pub(super) bounds: Vec<(Venue, Workload, f64, Option<f64>)>,
    /// MB/s of AES alone, encrypting and decrypting.
    pub cipher: Option<(f64, f64)>,
    /// Figures of `auto` by size, depth and direction.
    pub auto: Vec<AutoCell>,
    /// The table exchanged under load.
    pub switching: Option<Switching>,
    /// Short requests beside long ones.
    pub neighbour: Option<Neighbour>,
}

/// The 99 % quantiles of short requests, in µs: medians over the rounds.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour {
    /// Bytes of the long requests.
    pub long: usize,
    /// Without any other requests.
    pub alone: f64,
    /// Beside long requests on the same processor.
    pub beside: f64,
}

/// One workload on one set-up.
#[derive(Clone, Debug)]
pub struct Row {
    /// Place of the volume.
    pub venue: Venue,
    /// Table and cipher of the volume.
    pub contender: Contender,
    /// Kind of its requests: reads, writes or both.
    pub workload: Workload,
    /// MB/s, reads and writes together.
    pub rate: f64,
    /// Mean latency in µs.
    pub mean: f64,
    /// Median latency in µs.
    pub p50: f64,
    /// The 99 % quantile of latency in µs.
    pub p99: f64,
    /// Hand-overs a request, where they are known.
    pub handovers: Option<f64>,
}

/// `auto` beside the other two.
#[derive(Clone, Debug)]
pub struct AutoCell {
    /// Bytes of a request.
    pub block: usize,
    /// Requests in flight at a time.
    pub depth: usize,
    /// Direction: reads or writes.
    pub workload: Workload,
    /// MB/s of inline, queued and auto.
    pub rates: [f64; 3],
    /// Auto over the better of the others in the same round.
    pub ratio: f64,
}

/// A load while the table is exchanged again and again.
#[derive(Clone, Debug)]
pub struct Switching {
    /// Milliseconds that one figure stands for.
    pub bucket: u32,
    /// MB/s, from beginning to end.
    pub rates: Vec<f64>,
    /// Places in `rates` in which the table was exchanged, and for inline or not.
    pub switches: Vec<(usize, bool)>,
    /// Time that the exchange took, in µs: the median.
    pub took: f64,
    /// The longest request of a window with an exchange, in µs: the median.
    pub worst: f64,
    /// The longest of an equal window without, in µs: the median.
    pub worst_without: f64,
}

impl Outcome {
    /// Returns the rows of a venue for a workload.
    pub(super) fn rows_of(&self, venue: Venue, workload: Workload) -> Vec<&Row> {
        let rows = self.rows.iter();
        rows.filter(|row| row.venue == venue && row.workload == workload)
            .collect()
    }

    /// The workloads that a venue has.
    pub(super) fn workloads_of(&self, venue: Venue) -> Vec<Workload> {
        let all = Workload::ALL.into_iter();
        all.filter(|&workload| !self.rows_of(venue, workload).is_empty())
            .collect()
    }
}
