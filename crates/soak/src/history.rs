//! Random histories of a volume on a disk that fails.
//!
//! A seed makes a volume, one to three threads with their requests, faults, and a power cut
//! somewhere among them. Every read is judged by a model, and so is the whole volume after the
//! cut, for several outcomes of it. Some histories then go on with what was left.

use scrim_seeded::Random;

use crate::broken::Broken;
use crate::canary::Canary;
use crate::ground::{Front, Ground};
use crate::life::Life;

/// Counts of what histories have gone through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of histories.
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
    /// Requests to volumes.
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

/// Returns whether there is a LUKS header before the data in the history of a seed.
#[must_use]
pub fn has_header(seed: u64) -> bool {
    Ground::choose(&mut Random::new(seed)).front != Front::Nothing
}

/// Runs the history of a seed. With a canary the disk is lied about, and the history should break.
///
/// # Errors
/// The first promise that was not kept.
pub fn run(seed: u64, canary: Option<Canary>) -> Result<Tally, Broken> {
    let mut random = Random::new(seed);
    let ground = Ground::choose(&mut random);
    let broken = |what: String, trace: Vec<String>, threads: usize| Broken {
        seed,
        what,
        trace,
        // The order of threads does not follow from the seed, so it takes luck, or several
        // attempts.
        replay: match threads {
            1 => format!("cargo xtask soak --seed {seed} --histories 1"),
            _ => format!("cargo xtask soak --seed {seed} --repeat 1000"),
        },
    };
    let refused = |what| broken(what, Vec::new(), 1);
    let mut disk = ground.disk(seed).map_err(refused)?;
    let mut tally = Tally {
        histories: 1,
        luks: u64::from(ground.front != Front::Nothing),
        ..Tally::default()
    };
    let mut saved = None;
    let generations = if random.one_in(3) { 2 } else { 1 };
    for generation in 0..generations {
        let mut life = Life::choose(ground, disk, canary, saved, &mut random).map_err(refused)?;
        let lived = life.live();
        let left = lived.and_then(|()| life.judge(&mut random));
        disk = left.map_err(|what| {
            let mut trace = life.trace();
            trace.insert(0, format!("generation {generation}: {}", life.describe()));
            broken(what, trace, life.threads())
        })?;
        saved = life.saved();
        tally.add(life.tally());
    }
    tally.threaded = tally.threaded.min(1);
    Ok(tally)
}
