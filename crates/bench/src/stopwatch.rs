//! Timing code of this process, slice by slice.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::clock::core_clock;

/// Divisor of the slice: a calibration that took this part of it tells the rest.
const ENOUGH: u32 = 4;
/// Most turns of a slice.
const MOST: u64 = 1 << 40;
/// The part of a slice that its thread may be off its processor before it counts as interrupted.
const AWAY: f64 = 0.02;
/// The part of slices that may be interrupted before that is a warning.
const OFTEN: f64 = 0.25;
/// The part by which the clock may vary before that is a warning.
const UNSTEADY: f64 = 0.1;
/// Number of questions for the time, of which the fastest counts as their cost.
const QUESTIONS: u32 = 16;

/// Runs work in slices of about the same length, and notes wall time, processor time and the core's
/// clock of each.
///
/// Work is a function that repeats something as often as it is told. [`Stopwatch::turns`] finds once how often
/// makes a slice, so that every round does the same work.
pub struct Stopwatch {
    slice: Duration,
    clock: fn() -> Option<f64>,
    slices: u32,
    interrupted: u32,
    slowest: f64,
    fastest: f64,
}

/// Turns and times of one slice.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// Number of times that the work was done.
    pub turns: u64,
    /// Wall time of the slice.
    pub wall: Duration,
    /// Processor time, user and system, of this process with all its threads.
    pub cpu: Duration,
    /// The core's clock, in cycles a second, where it is known.
    pub clock: Option<f64>,
}

impl Stopwatch {
    /// A stopwatch with slices of about this length.
    #[must_use]
    pub fn new(slice: Duration) -> Self {
        Self::with_clock(slice, core_clock)
    }

    /// A stopwatch with another way to ask for the core's clock, which is asked before and after each slice.
    #[must_use]
    pub fn with_clock(slice: Duration, clock: fn() -> Option<f64>) -> Self {
        Self {
            slice,
            clock,
            slices: 0,
            interrupted: 0,
            slowest: f64::INFINITY,
            fastest: 0.0,
        }
    }

    /// Finds the number of turns that make a slice, at least one. The search warms up what the work needs.
    pub fn turns(&self, mut work: impl FnMut(u64)) -> u64 {
        let mut turns = 1;
        loop {
            let (_, took) = spent(|| work(turns));
            if took >= self.slice / ENOUGH || turns >= MOST {
                return scale(turns, took, self.slice);
            }
            turns *= 2;
        }
    }

    /// Times one slice of `turns` turns.
    pub fn time(&mut self, turns: u64, work: impl FnOnce(u64)) -> Slice {
        self.slice(turns, || spent(|| work(turns)))
    }

    /// As [`Stopwatch::time`], for work that uses up what it works on: before each turn `prepare` makes it
    /// anew. `prepare` is not timed, nor is the cost of asking for the time, which is some part of a short
    /// turn.
    pub fn time_prepared<S>(
        &mut self,
        turns: u64,
        state: &mut S,
        mut prepare: impl FnMut(&mut S),
        mut work: impl FnMut(&mut S),
    ) -> Slice {
        self.slice(turns, || {
            let asking = asking();
            let mut all = (Duration::ZERO, Duration::ZERO);
            for _ in 0..turns {
                prepare(state);
                let (wall, cpu) = spent(|| work(state));
                all.0 += wall.saturating_sub(asking.0);
                all.1 += cpu.saturating_sub(asking.1);
            }
            all
        })
    }

    /// Adds one slice, of which `spend` tells wall time and processor time.
    fn slice(&mut self, turns: u64, spend: impl FnOnce() -> (Duration, Duration)) -> Slice {
        let before = (self.clock)();
        let (wall, cpu) = spend();
        let clock = before
            .zip((self.clock)())
            .map(|(before, after)| f64::midpoint(before, after));
        let slice = Slice {
            turns,
            wall,
            cpu,
            clock,
        };
        self.slices = self.slices.saturating_add(1);
        self.interrupted += u32::from(slice.was_interrupted());
        if let Some(clock) = clock {
            self.slowest = self.slowest.min(clock);
            self.fastest = self.fastest.max(clock);
        }
        slice
    }

    /// Reasons in all slices to doubt their figures.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let part = f64::from(self.interrupted) / f64::from(self.slices.max(1));
        if part > OFTEN {
            warnings.push(format!(
                "involuntary switches: {:.0} % of the slices lost their processor for a while; what \
                 others took of it is left out, but caches and memory were theirs too",
                part * 100.0
            ));
        }
        if self.fastest > self.slowest * (1.0 + UNSTEADY) {
            warnings.push(format!(
                "throttling: the core ran at {:.2} to {:.2} GHz, by turbo, heat or the host's choice; \
                 compare cycles, not rates",
                self.slowest / 1e9,
                self.fastest / 1e9
            ));
        }
        warnings
    }
}

impl Slice {
    /// Turns a second of processor time: of work on one thread, what others took is left out.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.turns as f64 / self.cpu.as_secs_f64()
    }

    /// MB/s of processor time, where a turn takes `bytes` bytes.
    #[must_use]
    pub fn rate(&self, bytes: f64) -> f64 {
        self.per_second() * bytes / 1e6
    }

    /// Cycles of the core for each byte, where a turn takes `bytes` bytes.
    #[must_use]
    pub fn cycles_per_byte(&self, bytes: f64) -> Option<f64> {
        Some(self.clock? / (self.per_second() * bytes))
    }

    /// Processor seconds for 10⁹ bytes, where a turn takes `bytes` bytes.
    #[must_use]
    pub fn cpu_per_gb(&self, bytes: f64) -> f64 {
        1e9 / (self.per_second() * bytes)
    }

    fn was_interrupted(&self) -> bool {
        self.cpu.as_secs_f64() < self.wall.as_secs_f64() * (1.0 - AWAY)
    }
}

/// Scales `turns`, which took `took`, to the number of turns that take as long as `slice`.
fn scale(turns: u64, took: Duration, slice: Duration) -> u64 {
    let took = took.max(Duration::from_nanos(1)).as_nanos();
    let scaled = u128::from(turns).saturating_mul(slice.as_nanos()) / took;
    u64::try_from(scaled).unwrap_or(MOST).clamp(1, MOST)
}

/// Wall time and processor time of `work`.
fn spent(work: impl FnOnce()) -> (Duration, Duration) {
    let cpu_start = cpu_time();
    let start = Instant::now();
    work();
    let wall = start.elapsed();
    match cpu_time().saturating_sub(cpu_start) {
        // A kernel that counts in ticks has missed it.
        Duration::ZERO => (wall, wall),
        cpu => (wall, cpu),
    }
}

/// Result of [`spent`] for no work: the rest of one question and the start of the next.
fn asking() -> (Duration, Duration) {
    let nothing = (0..QUESTIONS).map(|_| spent(|| ()));
    nothing
        .reduce(|least, one| (least.0.min(one.0), least.1.min(one.1)))
        .unwrap_or_default()
}

/// Processor time that this process has used so far. The kernel counts in nanoseconds here, not in
/// ticks.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn slice(wall_ms: u32, cpu_ms: u32) -> Slice {
        Slice {
            turns: 1000,
            wall: MS * wall_ms,
            cpu: MS * cpu_ms,
            clock: Some(4e9),
        }
    }

    #[test]
    fn units_are_what_they_say() {
        // 1000 turns of 1 MB in 50 ms are 20 GB/s; 0.05 s at 4 GHz are 2·10⁸ cycles for 10⁹ bytes.
        let slice = slice(100, 50);
        assert_eq!(slice.per_second(), 20_000.0);
        assert_eq!(slice.rate(1e6), 20_000.0);
        assert_eq!(slice.cycles_per_byte(1e6), Some(0.2));
        assert_eq!(slice.cpu_per_gb(1e6), 0.05);
        let clockless = Slice {
            clock: None,
            ..slice
        };
        assert_eq!(clockless.cycles_per_byte(1.0), None);
    }

    #[test]
    fn a_slice_is_as_long_as_it_should_be() {
        assert_eq!(scale(8, MS, MS * 20), 160);
        assert_eq!(scale(1, MS * 500, MS * 20), 1);
        assert_eq!(scale(3, Duration::ZERO, MS * 20), 60_000_000);
        assert_eq!(scale(u64::MAX, MS, MS), MOST);
    }

    #[test]
    fn work_is_done_as_often_as_it_is_told() {
        let mut done = 0;
        let mut stopwatch = Stopwatch::with_clock(MS, || Some(2e9));
        let slice = stopwatch.time(7, |turns| done += turns);
        assert_eq!((done, slice.turns, slice.clock), (7, 7, Some(2e9)));
        let mut most = 0;
        assert!(stopwatch.turns(|turns| most = turns) >= most && most > 0);
    }

    #[test]
    fn each_turn_is_prepared_before_it_is_timed() {
        let mut stopwatch = Stopwatch::with_clock(MS, || Some(2e9));
        let mut order = String::new();
        let prepare = |order: &mut String| order.push('p');
        let work = |order: &mut String| order.push('w');
        let slice = stopwatch.time_prepared(3, &mut order, prepare, work);
        assert_eq!((order.as_str(), slice.turns), ("pwpwpw", 3));
        assert_eq!((stopwatch.slices, slice.clock), (1, Some(2e9)));
    }

    #[test]
    fn interruptions_and_an_unsteady_clock_are_said() {
        assert!(!slice(100, 99).was_interrupted());
        assert!(slice(100, 97).was_interrupted());
        let mut stopwatch = Stopwatch::with_clock(MS, || None);
        assert!(stopwatch.warnings().is_empty());
        stopwatch.slices = 4;
        stopwatch.interrupted = 1;
        (stopwatch.slowest, stopwatch.fastest) = (3.8e9, 4e9);
        assert!(stopwatch.warnings().is_empty());
        stopwatch.interrupted = 2;
        stopwatch.slowest = 2e9;
        let warnings = stopwatch.warnings();
        assert!(warnings[0].contains("50 % of the slices"), "{warnings:?}");
        assert!(warnings[1].contains("2.00 to 4.00 GHz"), "{warnings:?}");
    }
}
