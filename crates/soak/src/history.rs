//! Random histories of a volume on a disk that fails.
//!
//! A seed makes a volume, one to three threads with their requests, faults, and a power cut
//! somewhere among them. Every read is judged by a model, and so is the whole volume after the
//! cut, for several outcomes of it. Some histories then go on with what was left.

use scrim_seeded::Random;

use crate::broken::Broken;
use crate::canary::Canary;
use crate::fixture::{Fixture, Front};
use crate::life::Life;
use crate::tally::Tally;

/// Returns whether there is a LUKS header before the data in the history of a seed.
#[must_use]
pub fn has_header(seed: u64) -> bool {
    Fixture::choose(&mut Random::new(seed)).front != Front::Nothing
}

/// Runs the history of a seed. With a canary the disk is lied about, and the history should break.
///
/// # Errors
/// The first promise that was not kept.
pub fn run(seed: u64, canary: Option<Canary>) -> Result<Tally, Broken> {
    let mut random = Random::new(seed);
    let fixture = Fixture::choose(&mut random);
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
    let mut disk = fixture.disk(seed).map_err(refused)?;
    let mut tally = Tally {
        histories: 1,
        luks: u64::from(fixture.front != Front::Nothing),
        ..Tally::default()
    };
    let mut saved = None;
    let generations = if random.one_in(3) { 2 } else { 1 };
    for generation in 0..generations {
        let mut life = Life::choose(fixture, disk, canary, saved, &mut random).map_err(refused)?;
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
