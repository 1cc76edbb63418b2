//! The table exchanged under load, again and again: queued, inline, queued.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use scrim_volume::{Change, DataPath, Volume};

use super::error::PathsError;
use super::load::{Disk, Requester, Shape};
use super::outcome::{Outcome, Switching};
use super::place::Place;
use super::plan::Plan;
use super::setup::{Cipher, Contender, SetUp};
use crate::stat::median;
use crate::{Better, Progress, Study, Watch};

/// Time that one figure of the series stands for.
const BUCKET: Duration = Duration::from_millis(50);
/// Buckets of a window; the table is exchanged in the middle one.
const WINDOW: usize = 3;
/// Windows of a round: without an exchange, with one, and both again the other way.
const WINDOWS: usize = 4;
/// Time for which an exchange waits for requests in flight.
const PATIENCE: Duration = Duration::from_secs(10);

/// Requests that ended in one bucket.
#[derive(Clone, Copy, Default)]
struct Bucket {
    requests: u64,
    /// The longest of these requests, in nanoseconds.
    longest: u64,
}

/// Exchanges that were made.
#[derive(Default)]
struct Exchanges {
    /// Buckets in which an exchange was made, and whether it was for inline.
    made: Vec<(usize, bool)>,
    /// Times of the exchanges, in µs.
    took: Vec<f64>,
    /// Windows that are over.
    windows: usize,
}

pub(super) fn measure(
    plan: &Plan,
    study: &mut Study,
    outcome: &mut Outcome,
    watch: &mut Watch<'_>,
) -> Result<(), PathsError> {
    let place = Place::find(plan, plan.block)?;
    let queued = contender(SetUp::Queued);
    let volume = place.start(queued)?;
    let workloads = plan.workloads();
    let shape = Shape {
        workload: workloads[workloads.len() - 1],
        block: plan.block,
        reads: plan.reads,
        size: place.size,
    };
    let rounds = study.rounds();
    let start = Instant::now();
    let over = AtomicBool::new(false);
    let (exchanges, loads) = thread::scope(|scope| {
        let requesters = Requester::several(&shape, plan.depth).into_iter();
        let threads: Vec<_> = requesters
            .map(|one| scope.spawn(|| keep_asking(one, &volume, &shape, start, &over)))
            .collect();
        let exchanges = exchange(&volume, &place, rounds, start, watch);
        over.store(true, Ordering::Relaxed);
        let loads = threads.into_iter().map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        (exchanges, loads.collect::<Result<Vec<_>, _>>())
    });
    let (exchanges, buckets) = (exchanges?, together(&loads?));
    report(plan, study, outcome, &exchanges, &buckets);
    Ok(())
}

fn contender(set_up: SetUp) -> Contender {
    Contender::scrim(set_up, Cipher::Aes)
}

fn keep_asking(
    mut requester: Requester,
    volume: &Volume,
    shape: &Shape,
    start: Instant,
    over: &AtomicBool,
) -> Result<Vec<Bucket>, PathsError> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut before = Instant::now();
    while !over.load(Ordering::Relaxed) {
        requester.ask(volume as &dyn Disk, shape)?;
        let after = Instant::now();
        let index = bucket_at(after - start);
        if index >= buckets.len() {
            buckets.resize(index + 1, Bucket::default());
        }
        let bucket = &mut buckets[index];
        bucket.requests += 1;
        let took = u64::try_from((after - before).as_nanos()).unwrap_or(u64::MAX);
        bucket.longest = bucket.longest.max(took);
        before = after;
    }
    Ok(buckets)
}

fn bucket_at(elapsed: Duration) -> usize {
    usize::try_from(elapsed.as_millis() / BUCKET.as_millis()).unwrap_or(usize::MAX)
}

fn together(loads: &[Vec<Bucket>]) -> Vec<Bucket> {
    let longest = loads.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = vec![Bucket::default(); longest];
    for load in loads {
        for (all, one) in all.iter_mut().zip(load) {
            all.requests += one.requests;
            all.longest = all.longest.max(one.longest);
        }
    }
    all
}

/// Exchanges the table in every other window.
fn exchange(
    volume: &Volume,
    place: &Place,
    rounds: usize,
    start: Instant,
    watch: &mut Watch<'_>,
) -> Result<Exchanges, PathsError> {
    let mut exchanges = Exchanges::default();
    let all = rounds * WINDOWS;
    for window in 0..all {
        let progress = Progress {
            what: "the table is exchanged under load".to_owned(),
            round: window / WINDOWS + 1,
            rounds,
            part: window as f64 / all as f64,
        };
        if watch(&progress).is_break() {
            break;
        }
        if window % 2 == 1 {
            let middle = window * WINDOW + WINDOW / 2;
            sleep_until(start + BUCKET * u32::try_from(middle).unwrap_or(u32::MAX));
            let path = match window % WINDOWS {
                1 => DataPath::Inline,
                _ => DataPath::Queued,
            };
            let now = Instant::now();
            let table = contender(SetUp::Queued).table(place.size)?;
            volume
                .load(table, path, Change::OfService, |_| Ok(place.backend()))
                .map_err(PathsError::request)?;
            volume.resume(PATIENCE).map_err(PathsError::request)?;
            exchanges.took.push(now.elapsed().as_secs_f64() * 1e6);
            let index = bucket_at(now - start);
            exchanges.made.push((index, path == DataPath::Inline));
        }
        let end = (window + 1) * WINDOW;
        sleep_until(start + BUCKET * u32::try_from(end).unwrap_or(u32::MAX));
        exchanges.windows = window + 1;
    }
    Ok(exchanges)
}

fn sleep_until(moment: Instant) {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
}

fn report(
    plan: &Plan,
    study: &mut Study,
    outcome: &mut Outcome,
    exchanges: &Exchanges,
    buckets: &[Bucket],
) {
    let (rounds, planned) = (exchanges.windows / WINDOWS, study.rounds());
    let mut series = |name: &str, what: &str| study.series(name, "µs", Better::Lower, what);
    let took = series(
        "switch_time",
        "from a new table's text to requests on it, under load",
    );
    let with = series(
        "switch_window_max",
        "the longest request of the windows in which the table is exchanged",
    );
    let without = series(
        "quiet_window_max",
        "the longest request of as many equal windows in which it is not",
    );
    let rate = study.series(
        "switch_throughput",
        "MB/s",
        Better::Higher,
        "the load while the table is exchanged, one sample for each 50 ms",
    );
    let peak = study.series(
        "switch_longest",
        "µs",
        Better::Lower,
        "the longest request of the same load, one sample for each 50 ms",
    );
    let mut longest: [Vec<f64>; 2] = Default::default();
    for round in 0..rounds {
        let longest_of = |first: usize| {
            let windows = [first, first + 2].into_iter();
            let places = windows.flat_map(|window| {
                let start = (round * WINDOWS + window) * WINDOW;
                start..start + WINDOW
            });
            let buckets = places.filter_map(|place| buckets.get(place));
            let most = buckets.map(|bucket| bucket.longest).max().unwrap_or(0);
            most as f64 / 1e3
        };
        let (quiet, exchanged) = (longest_of(0), longest_of(1));
        longest[0].push(quiet);
        longest[1].push(exchanged);
        study.record(without, quiet);
        study.record(with, exchanged);
        let times = exchanges.took.get(round * 2..round * 2 + 2).unwrap_or(&[]);
        study.record(took, times.iter().copied().fold(0.0, f64::max));
    }
    let whole = rounds * WINDOWS * WINDOW;
    let buckets = buckets.get(..whole).unwrap_or(buckets);
    let rates = buckets.iter().map(|bucket| {
        let bytes = bucket.requests as f64 * plan.block as f64;
        bytes / 1e6 / BUCKET.as_secs_f64()
    });
    let rates: Vec<f64> = rates.collect();
    for (bucket, one) in buckets.iter().zip(&rates) {
        study.record(rate, *one);
        study.record(peak, bucket.longest as f64 / 1e3);
    }
    if rounds < planned {
        study.end_after(rounds, &[took, with, without]);
    }
    study.ratio("switch_window_max_cost", with, without, None);
    if rounds > 0 {
        outcome.switching = Some(Switching {
            bucket: u32::try_from(BUCKET.as_millis()).unwrap_or(u32::MAX),
            rates,
            switches: exchanges.made.clone(),
            took: median(&exchanges.took).unwrap_or(0.0),
            worst: median(&longest[1]).unwrap_or(0.0),
            worst_without: median(&longest[0]).unwrap_or(0.0),
        });
    }
}
