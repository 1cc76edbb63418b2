//! One sample: a slice of [`scrim_bench::Stopwatch`], as `scrim bench ciphers` takes them.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use scrim_bench::{Pinned, Stopwatch};

use crate::output::{Output, SeriesId};
use crate::rival::{Fault, Turns};
use crate::work::{Direction, Work};

/// A stopwatch on a thread that stays where it is.
pub(crate) struct Timer {
    stopwatch: Stopwatch,
    pinned: io::Result<Pinned>,
}

impl Timer {
    pub(crate) fn new(slice: Duration) -> Self {
        Self {
            stopwatch: Stopwatch::new(slice),
            pinned: Pinned::here(),
        }
    }

    /// Times one call of `act`, which goes over `bytes` bytes and makes a slice by itself; returns
    /// MB/s.
    pub(crate) fn rate(&mut self, bytes: usize, mut act: impl FnMut()) -> f64 {
        self.stopwatch.time(1, |_| act()).rate(bytes as f64)
    }

    /// Warns of conditions that make the figures unreliable.
    pub(crate) fn warn(&self, output: &mut Output) {
        if self.pinned.is_err() {
            output.warn(Pinned::MISSING.to_owned());
        }
        for warning in self.stopwatch.warnings() {
            output.warn(warning);
        }
    }
}

/// A contender at a load, both ways.
pub(crate) struct Seat {
    turns: Box<dyn Turns>,
    work: Work,
    /// One series for each direction.
    series: [SeriesId; 2],
    /// Number of times that a slice goes over its run: once, unless calibration finds that more
    /// make a slice.
    passes: [u64; 2],
}

impl Seat {
    /// `series` names the series of a direction.
    pub(crate) fn new(
        turns: Box<dyn Turns>,
        work: Work,
        series: impl FnMut(Direction) -> SeriesId,
    ) -> Self {
        Self {
            turns,
            work,
            series: Direction::BOTH.map(series),
            passes: [1; 2],
        }
    }

    /// Finds out how many passes over `run` make a slice.
    pub(crate) fn calibrate(&mut self, timer: &Timer, run: &mut [u8]) -> Result<(), Fault> {
        for (way, direction) in Direction::BOTH.into_iter().enumerate() {
            let mut passes = Passes::new(self, direction, run);
            let found = timer.stopwatch.turns(|turns| passes.go(turns));
            passes.finish()?;
            self.passes[way] = found;
        }
        Ok(())
    }

    /// Times one slice of passes over `run`, and records MB/s.
    pub(crate) fn sample(
        &mut self,
        timer: &mut Timer,
        way: usize,
        run: &mut [u8],
        output: &mut Output,
    ) -> Result<(), Fault> {
        let bytes = (run.len() / self.work.unit * self.work.payload()) as f64;
        let (count, series) = (self.passes[way], self.series[way]);
        let mut passes = Passes::new(self, Direction::BOTH[way], run);
        let stopwatch = &mut timer.stopwatch;
        let slice = if passes.needs_sealing() {
            stopwatch.time_prepared(count, &mut passes, Passes::seal, Passes::pass)
        } else {
            stopwatch.time(count, |count| passes.go(count))
        };
        passes.finish()?;
        output.record(series, slice.rate(bytes));
        Ok(())
    }
}

/// Repeated passes over a run. What comes after a fault does nothing.
struct Passes<'a> {
    turns: &'a mut dyn Turns,
    work: Work,
    direction: Direction,
    run: &'a mut [u8],
    first: u64,
    fault: Option<Fault>,
}

impl<'a> Passes<'a> {
    fn new(seat: &'a mut Seat, direction: Direction, run: &'a mut [u8]) -> Self {
        Self {
            turns: &mut *seat.turns,
            work: seat.work,
            direction,
            run,
            first: seat.work.first(),
            fault: None,
        }
    }

    /// Makes `count` passes, with all that they need.
    fn go(&mut self, count: u64) {
        for _ in 0..count {
            if self.needs_sealing() {
                self.seal();
            }
            self.pass();
        }
    }

    /// Returns whether each pass opens records: these have to be sealed again first.
    fn needs_sealing(&self) -> bool {
        self.work.is_tagged() && self.direction == Direction::Decrypt
    }

    fn seal(&mut self) {
        self.turn(Direction::Encrypt);
    }

    fn pass(&mut self) {
        self.turn(self.direction);
        if self.work.is_tagged() {
            // No number is used twice in a row, as senders must not.
            let records = self.run.len() / self.work.unit;
            self.first = self.work.number(self.first, records as u64);
        }
        black_box(&mut *self.run);
    }

    #[inline]
    fn turn(&mut self, direction: Direction) {
        if self.fault.is_none() {
            self.fault = self.turns.turn(direction, self.first, self.run).err();
        }
    }

    fn finish(self) -> Result<(), Fault> {
        self.fault.map_or(Ok(()), Err)
    }
}

/// Bytes in a row that start on a page.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    const PAGE: usize = 4096;

    /// Makes a buffer for runs of `bytes` bytes of payload. It is filled, so that every page is
    /// there.
    pub(crate) fn new(bytes: usize) -> Self {
        // A page to start on, and one for tags.
        let mut bytes = vec![0; bytes + 2 * Self::PAGE];
        let start = bytes.as_ptr().align_offset(Self::PAGE);
        fill(&mut bytes);
        Self { bytes, start }
    }

    /// A run of `bytes` bytes of payload.
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
