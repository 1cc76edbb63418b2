//! Processor time and memory of the processes that serve a mount, over the run.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use serde::{Deserialize, Serialize};

use super::error::FileserverError;
use crate::process::cpu_time;

/// Time between two samples at first; it doubles when there are [`MOST`] of them.
const PERIOD: Duration = Duration::from_millis(100);
/// Most samples of a phase.
const MOST: usize = 64;
/// Samples of a phase that are kept.
const KEPT: usize = 8;

/// A process that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) name: String,
    pub(super) pid: u32,
}

/// Use of processors and memory in a part of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Processors that were busy, with whatever.
    pub cores: f64,
    /// Resident memory of the processes that serve the mount, in MiB.
    pub memory_mib: f64,
}

/// Use of processors and memory in a whole phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PhaseUsage {
    /// Mean number of busy processors, most memory.
    pub(super) whole: Usage,
    /// Parts of the phase, in order.
    pub(super) over_time: Vec<Usage>,
    /// Processor time of each process, by its name.
    pub(super) cpu: Vec<(String, Duration)>,
}

/// A thread that samples, until this is dropped.
pub(super) struct Sampler {
    processes: Vec<Watched>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    start: Counters,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    samples: Mutex<Vec<Sample>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    at: Instant,
    /// Busy time of all processors since the machine started, in seconds.
    busy: f64,
    memory_mib: f64,
}

#[derive(Clone)]
struct Counters {
    at: Instant,
    busy: f64,
    cpu: Vec<Duration>,
}

impl Sampler {
    pub(super) fn start(processes: Vec<Watched>) -> Result<Self, FileserverError> {
        let shared = Arc::new(Shared::default());
        let (theirs, pids) = (Arc::clone(&shared), pids(&processes));
        let thread = thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || sample(&pids, &theirs))
            .map_err(FileserverError::system("start a thread"))?;
        Ok(Self {
            start: Counters::read(&processes),
            processes,
            shared,
            thread: Some(thread),
        })
    }

    /// Forgets everything before the next phase.
    pub(super) fn begin(&mut self) {
        self.shared.samples().clear();
        self.start = Counters::read(&self.processes);
    }

    /// Ends the phase that was begun last.
    pub(super) fn end(&mut self) -> PhaseUsage {
        let now = Counters::read(&self.processes);
        let samples = std::mem::take(&mut *self.shared.samples());
        let seconds = (now.at - self.start.at).as_secs_f64().max(1e-3);
        let memory = samples.iter().map(|sample| sample.memory_mib);
        let names = self.processes.iter().map(|process| process.name.clone());
        let cpu = now.cpu.iter().zip(&self.start.cpu);
        PhaseUsage {
            whole: Usage {
                cores: (now.busy - self.start.busy).max(0.0) / seconds,
                memory_mib: memory.fold(memory_mib(&pids(&self.processes)), f64::max),
            },
            over_time: over_time(&samples),
            cpu: names
                .zip(cpu.map(|(now, before)| now.saturating_sub(*before)))
                .collect(),
        }
    }
}

impl Shared {
    fn samples(&self) -> MutexGuard<'_, Vec<Sample>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Counters {
    fn read(processes: &[Watched]) -> Self {
        let cpu = processes.iter();
        Self {
            at: Instant::now(),
            busy: busy_seconds(),
            cpu: cpu
                .map(|process| cpu_time(process.pid).unwrap_or_default())
                .collect(),
        }
    }
}

fn pids(processes: &[Watched]) -> Vec<u32> {
    processes.iter().map(|process| process.pid).collect()
}

fn sample(pids: &[u32], shared: &Shared) {
    let mut stride = 1;
    let mut count = 0;
    while !shared.ends.load(Ordering::Relaxed) {
        thread::sleep(PERIOD);
        let mut samples = shared.samples();
        // Emptied by the end of a phase.
        if samples.is_empty() {
            stride = 1;
        }
        count += 1;
        if count % stride != 0 {
            continue;
        }
        if samples.len() >= MOST {
            let mut index = 0;
            samples.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            stride *= 2;
        }
        samples.push(Sample {
            at: Instant::now(),
            busy: busy_seconds(),
            memory_mib: memory_mib(pids),
        });
    }
}

/// Means of neighbouring samples, at most [`KEPT`].
fn over_time(samples: &[Sample]) -> Vec<Usage> {
    let each = samples.len().saturating_sub(1).div_ceil(KEPT).max(1);
    let edges: Vec<&Sample> = samples.iter().step_by(each).collect();
    let pairs = edges.windows(2).filter_map(|pair| {
        let [before, after] = pair else { return None };
        let seconds = (after.at - before.at).as_secs_f64();
        Some(Usage {
            cores: (after.busy - before.busy).max(0.0) / seconds.max(1e-3),
            memory_mib: after.memory_mib,
        })
    });
    pairs.collect()
}

fn busy_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    parse_busy(&stat) as f64 / clock_ticks_per_second().max(1) as f64
}

/// Ticks of the first line of `proc_stat(5)` without idle, iowait and steal.
fn parse_busy(stat: &str) -> u64 {
    let fields = stat.lines().next().unwrap_or_default();
    let fields = fields.split_ascii_whitespace().skip(1).take(7);
    let busy = fields
        .enumerate()
        .filter(|(index, _)| ![3, 4].contains(index));
    busy.filter_map(|(_, field)| field.parse::<u64>().ok())
        .sum()
}

fn memory_mib(pids: &[u32]) -> f64 {
    let sizes = pids.iter().filter_map(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        parse_resident_kib(&status)
    });
    sizes.sum::<u64>() as f64 / 1024.0
}

fn parse_resident_kib(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_not_idle_and_not_another_guests() {
        let stat = "cpu  10 1 20 1000 500 3 4 900 7 7\ncpu0 1 2 3\n";
        assert_eq!(parse_busy(stat), 10 + 1 + 20 + 3 + 4);
        assert_eq!(parse_busy(""), 0);
    }

    #[test]
    fn resident_memory_has_a_unit() {
        assert_eq!(
            parse_resident_kib("Name:\tx\nVmRSS:\t    2048 kB\n"),
            Some(2048)
        );
        assert_eq!(parse_resident_kib("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn samples_become_a_few_parts() {
        let start = Instant::now();
        let sample = |number: u32| Sample {
            at: start + Duration::from_secs(number.into()),
            busy: f64::from(number) * 1.5,
            memory_mib: f64::from(number),
        };
        let samples: Vec<Sample> = (0..=32).map(sample).collect();
        let parts = over_time(&samples);
        assert_eq!(parts.len(), KEPT);
        assert!(parts.iter().all(|part| (part.cores - 1.5).abs() < 1e-9));
        assert_eq!(parts[KEPT - 1].memory_mib, 32.0);
        assert_eq!(over_time(&samples[..1]), []);
        assert_eq!(over_time(&[]), []);
    }

    #[test]
    fn this_process_uses_memory() {
        let me = Watched {
            name: "me".to_owned(),
            pid: std::process::id(),
        };
        let mut sampler = Sampler::start(vec![me]).unwrap();
        sampler.begin();
        let usage = sampler.end();
        assert!(usage.whole.memory_mib > 0.0 && usage.cpu[0].0 == "me");
    }
}
