//! Latency of responses under load, by the source of the files: a folder, or an encrypted volume whose data
//! goes through queues or not.
//!
//! Each way is a server of its own, with the same files on the same storage. All are asked at the same rate,
//! half of what the slowest of them can do: so the tail shows what the way adds, and not the length of a queue
//! that no server could empty. A response's time counts from when its request was due, so that a server which
//! stops for a moment answers for all requests that would have come meanwhile.
//!
//! Series are named `serve_WAY_p50`, `_p99` and `_p999`, in µs, and `serve_WAY_capacity`; ways are `dir`,
//! `volume_queued`, `volume_inline` and `volume_auto`. The ratio `serve_WAY_vs_dir_p99` compares a volume with
//! the folder, and `serve_inline_vs_queued_p99` the two data paths.

mod fixture;
mod outcome;
mod page;
mod plan;

use std::ops::ControlFlow;

pub use outcome::{Latencies, Times};
pub use page::page;
pub use plan::{DataPath, Plan, Way};

use self::fixture::{Fixture, Server};
use self::outcome::QUANTILES;
use super::{ServeError, once};
use crate::pin::{Pinned, apart};
use crate::web::Crowd;
use crate::{Better, Progress, SeriesId, Study, Watch, turns};

/// Bytes of the file that is asked for, by default.
pub const BYTES: u64 = 64 << 10;
/// Connections, each with at most one request in flight: enough that a response which is slow does not hold up
/// those that are due meanwhile.
const CONNECTIONS: usize = 32;
/// Turns by which the rate is found.
const TRIALS: usize = 3;
/// The part of what the slowest can do that all are asked for.
const LOAD: f64 = 0.5;
/// Fewest responses in a round by which a quantile of 99.9 % is more than its slowest few.
const ENOUGH: f64 = 2000.0;
/// A way and where its samples go.
struct Contender {
    way: Way,
    server: Server,
    capacity: SeriesId,
    quantiles: [SeriesId; QUANTILES.len()],
}

/// Measures in the rounds of `study`. `watch` hears how far it is before each turn, and can end it; what whole
/// rounds have given is kept then.
///
/// # Errors
/// When a way cannot be made or served.
pub fn measure(
    plan: &Plan,
    study: &mut Study,
    watch: &mut Watch<'_>,
) -> Result<Latencies, ServeError> {
    let (_, client) = apart();
    let fixture = Fixture::make(plan, study)?;
    let mut contenders = Vec::new();
    let mut outcome = Latencies::default();
    {
        // What this thread starts stays off its own processor.
        let _beside = Pinned::beside(client).map_err(|_| study.warn(Pinned::MISSING));
        for &way in &plan.ways {
            let server = fixture.serve(plan, way)?;
            let (bytes, protection) = once(&server.url, &server.trust)?;
            outcome.bytes = bytes;
            outcome.protection = protection;
            outcome.ways.push(Times::of(way.words()));
            contenders.push(contender(way, server, &outcome, study));
        }
    }
    let _pinned = Pinned::on(client).map_err(|_| study.warn(Pinned::MISSING));
    if capacities(plan, &contenders, study, &mut outcome, watch)?.is_break() {
        return Ok(outcome);
    }
    if outcome.rate * plan.time.as_secs_f64() < ENOUGH {
        study.warn(format!(
            "few responses: a round has {:.0} of each way, so that p99.9 is its slowest few; give more --seconds",
            outcome.rate * plan.time.as_secs_f64()
        ));
    }
    rounds(plan, &contenders, study, &mut outcome, watch)?;
    compare(&contenders, study);
    Ok(outcome)
}

fn contender(way: Way, server: Server, outcome: &Latencies, study: &mut Study) -> Contender {
    let name = way.name();
    let workload = format!(
        "{} bytes from {}, {}, {CONNECTIONS} connections",
        outcome.bytes,
        way.words(),
        outcome.protection
    );
    let capacity = study.series(
        format!("serve_{name}_capacity"),
        "requests/s",
        Better::Higher,
        format!("{workload}, as fast as it can"),
    );
    let quantiles = QUANTILES.map(|(words, _, suffix)| {
        let workload = format!("{words} of {workload}, half of what the slowest can do");
        study.series(
            format!("serve_{name}_{suffix}"),
            "µs",
            Better::Lower,
            workload,
        )
    });
    Contender {
        way,
        server,
        capacity,
        quantiles,
    }
}

/// New connections to it, over each of which something has come.
fn gather(server: &Server) -> Result<Crowd, ServeError> {
    let url = &server.url;
    Ok(Crowd::gather(url, url, Some(&server.trust), CONNECTIONS)?)
}

/// Finds out what each can do, and so at which rate all are asked.
fn capacities(
    plan: &Plan,
    contenders: &[Contender],
    study: &mut Study,
    outcome: &mut Latencies,
    watch: &mut Watch<'_>,
) -> Result<ControlFlow<()>, ServeError> {
    for turn in turns(TRIALS, 1, contenders.len()) {
        let contender = &contenders[turn.contender];
        let progress = Progress {
            what: format!("{}, as fast as it can", contender.way.words()),
            round: 0,
            rounds: study.rounds(),
            part: 0.0,
        };
        if watch(&progress).is_break() {
            outcome.ways.clear();
            return Ok(ControlFlow::Break(()));
        }
        let tally = gather(&contender.server)?.ask_again_and_again(plan.time / 2)?;
        let rate = tally.answers as f64 / tally.wall.as_secs_f64().max(1e-9);
        study.record(contender.capacity, rate);
    }
    let mut slowest = f64::INFINITY;
    for (contender, times) in contenders.iter().zip(&mut outcome.ways) {
        times.capacity = study.median(contender.capacity).unwrap_or_default();
        slowest = slowest.min(times.capacity);
    }
    outcome.rate = (slowest * LOAD).max(1.0);
    Ok(ControlFlow::Continue(()))
}

fn rounds(
    plan: &Plan,
    contenders: &[Contender],
    study: &mut Study,
    outcome: &mut Latencies,
    watch: &mut Watch<'_>,
) -> Result<(), ServeError> {
    let count = study.rounds();
    for (step, turn) in turns(count, 1, contenders.len()).enumerate() {
        let contender = &contenders[turn.contender];
        let progress = Progress {
            what: contender.way.words(),
            round: turn.round + 1,
            rounds: count,
            part: step as f64 / (count * contenders.len()) as f64,
        };
        if watch(&progress).is_break() {
            let series: Vec<_> = contenders.iter().flat_map(|one| one.quantiles).collect();
            study.end_after(turn.round, &series);
            for times in &mut outcome.ways {
                times.truncate(turn.round);
            }
            return Ok(());
        }
        let mut crowd = gather(&contender.server)?;
        let latencies = crowd.ask_at(outcome.rate, plan.time, &mut |_| Ok(()))?;
        let times = &mut outcome.ways[turn.contender];
        for (place, (_, part, _)) in QUANTILES.into_iter().enumerate() {
            let micros = latencies.quantile(part);
            study.record(contender.quantiles[place], micros);
            times.micros[place].push(micros);
        }
    }
    Ok(())
}

/// Compares each volume with the folder, and the data path without queues with that of queues.
fn compare(contenders: &[Contender], study: &mut Study) {
    let find = |way| contenders.iter().find(|contender| contender.way == way);
    let mut pairs = Vec::new();
    if let Some(folder) = find(Way::Folder) {
        let volumes = contenders.iter().filter(|one| one.way != Way::Folder);
        pairs.extend(
            volumes.map(|volume| (format!("{}_vs_dir", volume.way.name()), volume, folder)),
        );
    }
    let [inline, queued] = [DataPath::Inline, DataPath::Queued].map(|path| find(Way::Volume(path)));
    if let (Some(inline), Some(queued)) = (inline, queued) {
        pairs.push(("inline_vs_queued".to_owned(), inline, queued));
    }
    for (name, ours, peer) in pairs {
        for (place, (_, _, suffix)) in QUANTILES.into_iter().enumerate() {
            let name = format!("serve_{name}_{suffix}");
            study.ratio(&name, ours.quantiles[place], peer.quantiles[place], None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::Machine;
    use crate::web::Suite;

    #[test]
    fn ways_are_read_as_they_are_written() {
        for text in ["dir", "volume:queued", "volume:inline", "volume:auto"] {
            assert_eq!(text.parse::<Way>().unwrap().words(), text);
        }
        for wrong in ["", "Dir", "volume", "volume:", "volume:inline "] {
            assert!(wrong.parse::<Way>().is_err(), "{wrong}");
        }
        let way: Way = "volume:inline".parse().unwrap();
        assert_eq!(way.name(), "volume_inline");
    }

    #[test]
    fn a_program_that_does_not_serve_is_named() {
        let plan = Plan {
            program: PathBuf::from("/bin/false"),
            ways: vec![Way::Folder],
            bytes: 1000,
            suite: Suite::Aes128,
            time: Duration::from_millis(1),
        };
        let mut study = Study::new(Machine::default(), 1);
        let error = measure(&plan, &mut study, &mut |_| ControlFlow::Continue(()));
        let said = error.unwrap_err().to_string();
        assert!(said.contains("ended without a word"), "{said}");
    }
}
