//! Counts of what histories have gone through.

/// Counts of what histories have gone through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub histories: u64,
    /// Histories with several threads.
    pub threaded: u64,
    /// Histories with a LUKS header before the data.
    pub luks: u64,
    /// Lives of volumes that began on dm-crypt's queues.
    pub queued: u64,
    /// Requests that were split over processors.
    pub split: u64,
    /// Tables that were put in the place of others.
    pub exchanges: u64,
    /// Requests that were made to volumes.
    pub requests: u64,
    /// Changes of headers that were asked for.
    pub changes: u64,
    /// Power cuts in the middle of something.
    pub cuts: u64,
    /// Requests that failed while there was power.
    pub failures: u64,
    /// Disks that were opened and read after a power cut.
    pub survivors: u64,
}

impl Tally {
    /// Adds the counts of other histories.
    pub fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.threaded += other.threaded;
        self.luks += other.luks;
        self.queued += other.queued;
        self.split += other.split;
        self.exchanges += other.exchanges;
        self.requests += other.requests;
        self.changes += other.changes;
        self.cuts += other.cuts;
        self.failures += other.failures;
        self.survivors += other.survivors;
    }
}
