//! Measures storage as it is without encryption: the rate of long requests, and the latency of short reads.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use scrim_backend::{Backend, BackendError, Durability};
use scrim_seeded::Random;
use scrim_sys::memory::DataBuffer;

use crate::stat::median;
use crate::{Better, Progress, Study, Watch};

/// Bytes of a long request.
const LONG: usize = 1 << 20;
/// Bytes of a short request.
const SHORT: usize = 4096;
/// Seed of the data and of the places of short requests.
const SEED: u64 = 22;

/// Requests that are to be made.
#[derive(Clone, Copy, Debug)]
pub struct DiskPlan {
    /// Bytes from the start that long requests go through, once in each direction.
    pub bytes: u64,
    /// True to write too, which destroys the data there.
    pub writes: bool,
    /// Time for short reads.
    pub short_reads: Duration,
    /// Longest time for long requests in one direction; what was done by then counts.
    pub limit: Duration,
}

/// Figures of the storage. `None` is what was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskOutcome {
    /// Rate of long writes with the flush at their end, in MB/s.
    pub write: Option<f64>,
    /// Rate of long reads, in MB/s.
    pub read: Option<f64>,
    /// Median time of a short read by itself, in µs.
    pub short_read: Option<f64>,
    /// Time in which 99 of 100 short reads are done, in µs.
    pub short_read_p99: Option<f64>,
}

/// Measures a storage that this process has to itself. `watch` hears how far it is, and can end it; what is complete by
/// then is kept.
///
/// # Errors
/// When the storage fails a request.
pub fn measure(
    storage: &dyn Backend,
    plan: &DiskPlan,
    study: &mut Study,
    watch: &mut Watch<'_>,
) -> Result<DiskOutcome, BackendError> {
    let mut outcome = DiskOutcome::default();
    let mut block = DataBuffer::zeroed(LONG);
    Random::new(SEED).fill(&mut block);
    if plan.writes {
        let write = |offset| storage.write_at(offset, &block, Durability::Cached);
        let finish = || storage.flush();
        outcome.write = long(plan, "writes", write, finish, watch)?;
        record(
            study,
            "disk_write",
            "MB/s",
            "requests of 1 MiB",
            outcome.write,
        );
    }
    let read = |offset| storage.read_at(offset, &mut block);
    outcome.read = long(plan, "reads", read, || Ok(()), watch)?;
    record(
        study,
        "disk_read",
        "MB/s",
        "requests of 1 MiB",
        outcome.read,
    );
    let times = short_reads(storage, plan, watch)?;
    outcome.short_read = median(&times);
    outcome.short_read_p99 = slow(&times);
    let workload = "4096 bytes at random places, one request at a time";
    for (name, value) in [
        ("disk_read_4k_p50", outcome.short_read),
        ("disk_read_4k_p99", outcome.short_read_p99),
    ] {
        record(study, name, "µs", workload, value);
    }
    Ok(outcome)
}

fn record(study: &mut Study, name: &str, unit: &'static str, workload: &str, value: Option<f64>) {
    let better = match unit {
        "MB/s" => Better::Higher,
        _ => Better::Lower,
    };
    if let Some(value) = value {
        let series = study.series(name, unit, better, workload);
        study.record(series, value);
    }
}

/// Makes long requests in order, and returns their rate in MB/s; `None` if it was interrupted or the storage is too small.
fn long(
    plan: &DiskPlan,
    what: &str,
    mut request: impl FnMut(u64) -> Result<(), BackendError>,
    finish: impl FnOnce() -> Result<(), BackendError>,
    watch: &mut Watch<'_>,
) -> Result<Option<f64>, BackendError> {
    let requests = plan.bytes / LONG as u64;
    let start = Instant::now();
    let mut done = 0;
    while done < requests && start.elapsed() < plan.limit {
        if is_ended(watch, what, done as f64 / requests as f64) {
            return Ok(None);
        }
        request(done * LONG as u64)?;
        done += 1;
    }
    finish()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok((done > 0).then(|| (done * LONG as u64) as f64 / 1e6 / seconds.max(1e-9)))
}

/// Makes short reads at random places one after the other, and returns the time of each in µs.
fn short_reads(
    storage: &dyn Backend,
    plan: &DiskPlan,
    watch: &mut Watch<'_>,
) -> Result<Vec<f64>, BackendError> {
    let mut buffer = DataBuffer::zeroed(SHORT);
    let mut random = Random::new(SEED);
    let places = storage.info().size / SHORT as u64;
    let mut times = Vec::new();
    let start = Instant::now();
    while places > 0 && start.elapsed() < plan.short_reads {
        let part = start.elapsed().as_secs_f64() / plan.short_reads.as_secs_f64();
        if is_ended(watch, "short reads", part) {
            return Ok(Vec::new());
        }
        let place = random.below(places) * SHORT as u64;
        let begun = Instant::now();
        storage.read_at(place, &mut buffer)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}

/// Time in which 99 of 100 are done.
fn slow(times: &[f64]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() * 99 / 100).copied()
}

fn is_ended(watch: &mut Watch<'_>, what: &str, part: f64) -> bool {
    let progress = Progress {
        what: what.to_owned(),
        round: 1,
        rounds: 1,
        part: part.clamp(0.0, 0.999),
    };
    watch(&progress) == ControlFlow::Break(())
}

#[cfg(test)]
mod tests {
    use scrim_backend::MemoryBackend;

    use super::*;
    use crate::Machine;

    fn plan(writes: bool) -> DiskPlan {
        DiskPlan {
            bytes: 4 << 20,
            writes,
            short_reads: Duration::from_millis(2),
            limit: Duration::from_secs(10),
        }
    }

    fn measured(writes: bool, end_after: usize) -> DiskOutcome {
        let storage = MemoryBackend::new(vec![0; 4 << 20]);
        let mut study = Study::new(Machine::default(), 1);
        let mut calls = 0;
        let outcome = measure(&storage, &plan(writes), &mut study, &mut |_| {
            calls += 1;
            match calls > end_after {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        outcome.unwrap()
    }

    #[test]
    fn what_was_asked_for_is_measured() {
        let all = measured(true, usize::MAX);
        assert!(
            all.write.unwrap() > 0.0 && all.read.unwrap() > 0.0,
            "{all:?}"
        );
        assert!(all.short_read_p99 >= all.short_read, "{all:?}");
        assert_eq!(measured(false, usize::MAX).write, None);
    }

    #[test]
    fn an_interruption_keeps_what_is_complete() {
        let some = measured(true, 6);
        assert!(some.write.is_some(), "{some:?}");
        assert_eq!((some.read, some.short_read), (None, None));
    }
}
