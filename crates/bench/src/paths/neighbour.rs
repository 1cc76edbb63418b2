//! A neighbour of long requests: the latency of a client that sends short requests now and then, while another
//! on the same processor sends requests as long as they may be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use scrim_volume::Volume;

use super::error::PathsError;
use super::load::Workload;
use super::load::{Disk, Requester, Shape, Slice};
use super::outcome::{Neighbour, Outcome};
use super::place::Place;
use super::plan::Plan;
use super::setup::{Cipher, Contender, SetUp};
use crate::{Better, Pinned, Progress, Study, Watch, turns};

/// Bytes of a long request, where the volume has them: the most that NBD carries.
const LONG: u64 = 32 << 20;
/// Interval of the neighbour's requests.
const EVERY: Duration = Duration::from_millis(1);
/// Slices of one figure: several, so that the slowest of a hundred is one of several.
const SLICES: u32 = 4;
/// Alone, and beside the other.
const CASES: usize = 2;

pub(super) fn measure(
    plan: &Plan,
    study: &mut Study,
    outcome: &mut Outcome,
    watch: &mut Watch<'_>,
) -> Result<(), PathsError> {
    let pinned = Pinned::here();
    if pinned.is_err() {
        study.warn(Pinned::MISSING);
    }
    let place = Place::find(plan, plan.block)?;
    let volume = place.start(Contender::scrim(SetUp::Inline, Cipher::Aes))?;
    let shape = |bytes: u64| Shape {
        workload: Workload::Read,
        block: usize::try_from(bytes.min(place.size)).unwrap_or(plan.block),
        reads: plan.reads,
        size: place.size,
    };
    let (short, long) = (shape(plan.block as u64), shape(LONG));
    let what = "from when a short read was due to its end, 99 of 100, on one processor";
    let mut series = |name: &str| study.series(name, "µs", Better::Lower, what);
    let cases = [series("neighbour_alone_p99"), series("neighbour_p99")];
    let rounds = study.rounds();
    for (step, turn) in turns(rounds, 1, CASES).enumerate() {
        let progress = Progress {
            what: "a neighbour of long requests".to_owned(),
            round: turn.round + 1,
            rounds,
            part: step as f64 / (rounds * CASES) as f64,
        };
        if watch(&progress).is_break() {
            study.end_after(turn.round, &cases);
            break;
        }
        let beside = (turn.contender == 1).then_some(&long);
        let p99 = ask_beside(&volume, &short, beside, plan.slice * SLICES)?;
        study.record(cases[turn.contender], p99);
    }
    study.ratio("neighbour_p99_cost", cases[1], cases[0], None);
    if let (Some(alone), Some(beside)) = (study.median(cases[0]), study.median(cases[1])) {
        let long = long.block;
        outcome.neighbour = Some(Neighbour {
            long,
            alone,
            beside,
        });
    }
    Ok(())
}

/// The 99 % quantile of the latency of short requests, in µs.
fn ask_beside(
    volume: &Volume,
    short: &Shape,
    long: Option<&Shape>,
    length: Duration,
) -> Result<f64, PathsError> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = long.map(|shape| {
            let over = &over;
            scope.spawn(move || {
                let mut requester = Requester::new(shape, 0, 1);
                while !over.load(Ordering::Relaxed) {
                    requester.ask(volume as &dyn Disk, shape)?;
                }
                Ok::<(), PathsError>(())
            })
        });
        let asked = ask_now_and_then(volume, short, length);
        over.store(true, Ordering::Relaxed);
        if let Some(other) = other {
            let ended = other.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        asked
    })
}

fn ask_now_and_then(volume: &Volume, shape: &Shape, length: Duration) -> Result<f64, PathsError> {
    let mut requester = Requester::new(shape, 0, 1);
    let mut took = Vec::new();
    let start = Instant::now();
    while took.is_empty() || start.elapsed() < length {
        // A thread that is woken late has waited as well as one that is served late.
        let due = Instant::now() + EVERY;
        thread::sleep(EVERY);
        requester.ask(volume as &dyn Disk, shape)?;
        took.push(u32::try_from(due.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    Ok(Slice::clocked(took).quantile(0.99))
}
