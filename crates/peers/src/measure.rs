//! One sample.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use scrim_bench::stat::median;

use crate::peer::{Fault, Turns};
use crate::work::{Direction, Work};

/// Slices of a sample, whose median it is: an interruption spoils one of them.
const SLICES: u32 = 5;
/// How long a contender runs untimed before its sample, so that caches, predictors and the clock
/// are as they will be.
const WARM_UP: Duration = Duration::from_millis(1);

/// Keeps this process on the last processor that it may use.
pub(crate) fn pin() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
    let mut set = CpuSet::new();
    set.set(last.unwrap_or(0));
    Ok(sched_setaffinity(None, &set)?)
}

/// Bytes in a row that start on a page.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    const PAGE: usize = 4096;

    /// For runs that hold so many bytes. Filled with something, so that every page is there.
    pub(crate) fn new(bytes: usize) -> Self {
        // A page to start on, and one for tags.
        let mut bytes = vec![0; bytes + 2 * Self::PAGE];
        let start = bytes.as_ptr().align_offset(Self::PAGE);
        fill(&mut bytes);
        Self { bytes, start }
    }

    /// A run that holds so many bytes.
    ///
    /// # Panics
    /// When the buffer is shorter.
    pub(crate) fn run(&mut self, work: Work, bytes: usize) -> &mut [u8] {
        &mut self.bytes[self.start..][..work.run(bytes)]
    }
}

/// A text that does not repeat.
pub(crate) fn fill(bytes: &mut [u8]) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (at.wrapping_mul(7) + at / 251).to_le_bytes()[0];
    }
}

/// MB/s over `run` in caches: the median of slices of a fifth of `length` each.
pub(crate) fn hot(
    turns: &mut dyn Turns,
    work: Work,
    direction: Direction,
    run: &mut [u8],
    length: Duration,
) -> Result<f64, Fault> {
    let started = Instant::now();
    let mut warm_up = 0;
    while started.elapsed() < WARM_UP || warm_up == 0 {
        slice(turns, work, direction, run, 1)?;
        warm_up += 1;
    }
    let pass = started.elapsed() / warm_up;
    let passes = (length / SLICES).as_nanos() / pass.as_nanos().max(1);
    let passes = u32::try_from(passes).unwrap_or(u32::MAX).max(1);
    let bytes = payload(work, run) * u64::from(passes);
    let mut rates = Vec::new();
    for _ in 0..SLICES {
        rates.push(rate(bytes, slice(turns, work, direction, run, passes)?));
    }
    median(&rates).ok_or(Fault::of("median"))
}

/// The time of so many passes over `run`.
fn slice(
    turns: &mut dyn Turns,
    work: Work,
    direction: Direction,
    run: &mut [u8],
    passes: u32,
) -> Result<Duration, Fault> {
    if work.is_tagged() {
        return slice_of_records(turns, work, direction, run, passes);
    }
    let start = Instant::now();
    for _ in 0..passes {
        turns.turn(direction, work.first(), run)?;
        black_box(&mut *run);
    }
    Ok(start.elapsed())
}

/// As [`slice()`]. No number is used twice in a row, as senders must not; and what was opened is
/// sealed, untimed, before it is opened again.
fn slice_of_records(
    turns: &mut dyn Turns,
    work: Work,
    direction: Direction,
    run: &mut [u8],
    passes: u32,
) -> Result<Duration, Fault> {
    let records = run.chunks_exact(work.unit).count();
    let mut time = Duration::ZERO;
    for first in (work.first()..).step_by(records).take(passes as usize) {
        let mut start = Instant::now();
        turns.turn(Direction::Encrypt, first, run)?;
        if direction == Direction::Decrypt {
            start = Instant::now();
            turns.turn(Direction::Decrypt, first, run)?;
        }
        time += start.elapsed();
        black_box(&mut *run);
    }
    Ok(time)
}

/// MB/s over `run` once, which is longer than the caches.
pub(crate) fn cold(
    turns: &mut dyn Turns,
    work: Work,
    direction: Direction,
    run: &mut [u8],
) -> Result<f64, Fault> {
    let start = Instant::now();
    turns.turn(direction, work.first(), run)?;
    black_box(&mut *run);
    Ok(rate(payload(work, run), start.elapsed()))
}

fn payload(work: Work, run: &[u8]) -> u64 {
    (run.len() / work.unit * work.payload()) as u64
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e6
}
