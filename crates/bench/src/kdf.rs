//! Measures key derivation on this machine, and shows it as `cryptsetup benchmark` does.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use scrim_luks::kdf::{
    Argon2Cost, Argon2Kind, Hash, Kdf, KdfError, MachineLimits, calibrate_argon2,
};

use crate::{Better, Pinned, Progress, SeriesId, Stopwatch, Study, Watch, turns};

/// A passphrase and a salt to measure with.
const SAMPLE: &[u8; 32] = b"a passphrase or salt to measure ";

/// The hashes that cryptsetup measures PBKDF2 with.
pub const USUAL_HASHES: [Hash; 5] = [
    Hash::Sha1,
    Hash::Sha256,
    Hash::Sha512,
    Hash::Ripemd160,
    Hash::Whirlpool,
];

/// Functions to measure, and how.
pub struct KdfPlan {
    /// PBKDF2 with each of these.
    pub hashes: Vec<Hash>,
    /// Time for which PBKDF2 with one hash is measured in one round.
    pub slice: Duration,
    /// Argon2 of these kinds.
    pub argon2: Vec<Argon2Kind>,
    /// Length of the derived key in bytes.
    pub key_bytes: usize,
    /// Time that Argon2 is to take.
    pub target: Duration,
    /// Most memory of Argon2 in KiB.
    pub memory_kib: u32,
    pub lanes: u32,
}

/// Figures of key derivation; `Display` prints cryptsetup's lines.
pub struct KdfOutcome {
    pbkdf2: Vec<(Hash, f64)>,
    argon2: Vec<(Argon2Kind, Argon2Cost)>,
    key_bytes: usize,
    target: Duration,
}

/// Measures `plan`: PBKDF2 on one thread, in the rounds of `study`, and then for each kind of Argon2
/// the cost that takes as long as it may. Every figure is a series of `study`: `pbkdf2_sha256` in
/// iterations a second, `argon2id_memory` in KiB and `argon2id_passes`.
///
/// # Errors
/// [`KdfError`] for parameters that the functions do not take, or without the memory.
pub fn measure(
    plan: &KdfPlan,
    study: &mut Study,
    watch: &mut Watch<'_>,
) -> Result<KdfOutcome, KdfError> {
    let mut outcome = KdfOutcome {
        pbkdf2: Vec::new(),
        argon2: Vec::new(),
        key_bytes: plan.key_bytes,
        target: plan.target,
    };
    let interrupted = pbkdf2(plan, study, watch, &mut outcome)?.is_break();
    let limits = MachineLimits::read();
    for (done, kind) in plan.argon2.iter().enumerate() {
        let progress = Progress {
            what: name(*kind).to_owned(),
            round: 1,
            rounds: 1,
            part: done as f64 / plan.argon2.len() as f64,
        };
        if interrupted || watch(&progress).is_break() {
            study.warn(format!("interrupted: {} was not measured", name(*kind)));
            continue;
        }
        let cost = calibrate_argon2(*kind, plan.lanes, plan.memory_kib, plan.target, &limits)?;
        record_argon2(study, *kind, cost, plan.target);
        outcome.argon2.push((*kind, cost));
    }
    Ok(outcome)
}

fn pbkdf2(
    plan: &KdfPlan,
    study: &mut Study,
    watch: &mut Watch<'_>,
    outcome: &mut KdfOutcome,
) -> Result<ControlFlow<()>, KdfError> {
    // Iterations of one thread, as other programs have no more.
    let limits = MachineLimits {
        cpus: 1,
        ..MachineLimits::read()
    };
    let mut key = vec![0; plan.key_bytes];
    let mut derive = |hash: Hash, iterations: u64| {
        let iterations = u32::try_from(iterations).unwrap_or(u32::MAX);
        let kdf = Kdf::Pbkdf2 { hash, iterations };
        kdf.derive_within(&limits, SAMPLE, SAMPLE, &mut key)
    };
    let _pinned = Pinned::here();
    let mut stopwatch = Stopwatch::new(plan.slice);
    let mut contenders = Vec::new();
    for hash in &plan.hashes {
        // What is refused is refused for each number of iterations.
        derive(*hash, 1)?;
        let turns = stopwatch.turns(|turns| drop(derive(*hash, turns)));
        let workload = format!("PBKDF2-{hash}, {}-bit key, one thread", plan.key_bytes * 8);
        let name = format!("pbkdf2_{hash}");
        let series = study.series(name, "iterations/s", Better::Higher, workload);
        contenders.push((*hash, turns, series));
    }
    let steps = study.rounds() * contenders.len();
    let mut flow = ControlFlow::Continue(());
    for (step, turn) in turns(study.rounds(), 1, contenders.len()).enumerate() {
        let (hash, turns, series) = contenders[turn.contender];
        let progress = Progress {
            what: format!("PBKDF2-{hash}"),
            round: turn.round + 1,
            rounds: study.rounds(),
            part: step as f64 / steps as f64,
        };
        flow = watch(&progress);
        if flow.is_break() {
            let all: Vec<SeriesId> = contenders.iter().map(|(_, _, series)| *series).collect();
            study.end_after(turn.round, &all);
            break;
        }
        let slice = stopwatch.time(turns, |turns| drop(derive(hash, turns)));
        study.record(series, slice.per_second());
    }
    let medians = contenders.iter();
    let medians = medians.filter_map(|(hash, _, series)| Some((*hash, study.median(*series)?)));
    outcome.pbkdf2 = medians.collect();
    Ok(flow)
}

fn record_argon2(study: &mut Study, kind: Argon2Kind, cost: Argon2Cost, target: Duration) {
    let name = name(kind);
    let workload = format!(
        "what fits into {} ms on {} lanes",
        target.as_millis(),
        cost.lanes
    );
    for (what, unit, value) in [
        ("memory", "KiB", cost.memory_kib),
        ("passes", "passes", cost.time),
    ] {
        let series = study.series(format!("{name}_{what}"), unit, Better::Higher, &*workload);
        study.record(series, f64::from(value));
    }
}

fn name(kind: Argon2Kind) -> &'static str {
    match kind {
        Argon2Kind::Argon2i => "argon2i",
        Argon2Kind::Argon2id => "argon2id",
    }
}

impl KdfOutcome {
    /// Returns the iterations of PBKDF2 a second with a hash, if that was measured.
    #[must_use]
    pub fn pbkdf2_rate(&self, hash: Hash) -> Option<f64> {
        let found = self.pbkdf2.iter().find(|(measured, _)| *measured == hash);
        found.map(|(_, rate)| *rate)
    }

    /// Returns the cost that fits into the plan's time, if that was measured.
    #[must_use]
    pub fn argon2_cost(&self, kind: Argon2Kind) -> Option<Argon2Cost> {
        let found = self.argon2.iter().find(|(measured, _)| *measured == kind);
        found.map(|(_, cost)| *cost)
    }
}

impl fmt::Display for KdfOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.key_bytes * 8;
        for (hash, rate) in &self.pbkdf2 {
            writeln!(
                f,
                "PBKDF2-{:<9} {rate:7.0} iterations per second for {bits}-bit key",
                hash.name()
            )?;
        }
        for (kind, cost) in &self.argon2 {
            writeln!(
                f,
                "{:<10} {:4} iterations, {:5} memory, {:1} parallel threads (CPUs) for {bits}-bit \
                 key (requested {} ms time)",
                name(*kind),
                cost.time,
                cost.memory_kib,
                cost.lanes,
                self.target.as_millis()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    fn plan() -> KdfPlan {
        KdfPlan {
            hashes: vec![Hash::Sha256, Hash::Sha1],
            slice: Duration::from_micros(100),
            argon2: vec![Argon2Kind::Argon2id],
            key_bytes: 32,
            target: Duration::from_millis(1),
            memory_kib: 64,
            lanes: 1,
        }
    }

    #[test]
    fn the_lines_are_cryptsetups() {
        let outcome = KdfOutcome {
            pbkdf2: vec![(Hash::Sha1, 1_026_003.4), (Hash::Whirlpool, 293_554.0)],
            argon2: vec![(
                Argon2Kind::Argon2i,
                Argon2Cost {
                    time: 4,
                    memory_kib: 339_564,
                    lanes: 4,
                },
            )],
            key_bytes: 32,
            target: Duration::from_secs(2),
        };
        // As cryptsetup 2.6.1 prints them.
        let wanted = "\
PBKDF2-sha1      1026003 iterations per second for 256-bit key
PBKDF2-whirlpool  293554 iterations per second for 256-bit key
argon2i       4 iterations, 339564 memory, 4 parallel threads (CPUs) for 256-bit key (requested 2000 ms time)
";
        assert_eq!(outcome.to_string(), wanted);
    }

    #[test]
    fn everything_is_a_series_too() {
        let mut study = Study::new(Machine::default(), 2);
        let outcome = measure(&plan(), &mut study, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(outcome.to_string().lines().count(), 3);
        let report = study.finish();
        let names: Vec<_> = report
            .results
            .iter()
            .map(|r| (&*r.name, r.samples.len()))
            .collect();
        let wanted = [
            ("pbkdf2_sha256", 2),
            ("pbkdf2_sha1", 2),
            ("argon2id_memory", 1),
            ("argon2id_passes", 1),
        ];
        assert_eq!(names, wanted);
    }

    #[test]
    fn an_interruption_keeps_what_there_is() {
        let mut study = Study::new(Machine::default(), 3);
        let mut slices = 0;
        let outcome = measure(&plan(), &mut study, &mut |progress| {
            assert!(progress.round <= 2);
            slices += 1;
            if slices > 3 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let outcome = outcome.unwrap();
        // One whole round of two, and no Argon2.
        assert_eq!(outcome.to_string().lines().count(), 2);
        let report = study.finish();
        assert!(
            report
                .results
                .iter()
                .all(|series| series.samples.len() == 1)
        );
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let mut study = Study::new(Machine::default(), 1);
        let wrong = KdfPlan {
            memory_kib: 1,
            lanes: 4,
            ..plan()
        };
        assert!(measure(&wrong, &mut study, &mut |_| ControlFlow::Continue(())).is_err());
    }
}
