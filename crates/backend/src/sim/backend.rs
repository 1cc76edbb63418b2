//! The simulated disk as a [`Backend`].

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use scrim_seeded::Random;

use super::disk::{Disk, SECTOR, extent};
use super::survival::{self, Extent};
use super::{Call, Failure, Faults};
use crate::{Backend, BackendError, Durability, HeaderLock, Info, LockKind, Operation};

/// A simulated disk: see the [module](super).
pub struct SimBackend {
    seed: u64,
    size: u64,
    state: Mutex<State>,
    failed: AtomicU64,
}

#[derive(Default)]
struct State {
    disk: Disk,
    faults: Faults,
    /// Calls since the faults were set, by [`Call`].
    calls: [u64; 4],
    changes: u64,
    /// Number of the last call; never set back, so that no two writes share one.
    number: u64,
    power_is_cut: bool,
    sync_failed: bool,
}

/// A call that has been counted.
struct Turn {
    number: u64,
    /// The power fails during this call.
    cut: bool,
    failure: Option<Failure>,
    random: Random,
    latency: bool,
}

impl SimBackend {
    /// Creates a disk of `size` bytes, all zeros. `seed` decides what its faults do.
    #[must_use]
    pub fn new(size: u64, seed: u64) -> Self {
        Self::with_disk(size, seed, Disk::default())
    }

    /// Creates a disk that durably holds `bytes`.
    #[must_use]
    pub fn holding(bytes: &[u8], seed: u64) -> Self {
        Self::with_disk(bytes.len() as u64, seed, Disk::holding(bytes))
    }

    fn with_disk(size: u64, seed: u64, disk: Disk) -> Self {
        let state = State {
            disk,
            ..State::default()
        };
        Self {
            seed,
            size,
            state: Mutex::new(state),
            failed: AtomicU64::new(0),
        }
    }

    /// Sets the faults from now on, and starts to count from here.
    pub fn arm(&self, faults: Faults) {
        let mut state = self.lock();
        state.calls = [0; 4];
        state.changes = 0;
        state.faults = faults;
    }

    /// Returns the number of calls that change something and have begun since the faults were set: as
    /// many places there are for [`Faults::cut_at`].
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Returns the number of calls of a kind that have begun since the faults were set.
    #[must_use]
    pub fn calls(&self, call: Call) -> u64 {
        self.lock().calls[call as usize]
    }

    /// Returns the number of calls that have failed, for any reason.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Cuts the power now, between two calls.
    pub fn cut(&self) {
        self.lock().power_is_cut = true;
    }

    /// Returns whether the power is cut.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.lock().power_is_cut
    }

    /// Returns the disk when the power is back, where it was cut before or would be cut now: `seed`
    /// decides which writes have survived, and becomes the new disk's seed. All its contents are durable,
    /// and it has no faults.
    #[must_use]
    pub fn after_cut(&self, seed: u64) -> Self {
        let disk = self.lock().disk.after_cut(seed);
        Self::with_disk(self.size, seed, disk)
    }

    /// Returns a disk that durably holds what reads see of this one, cut or not, and has no faults.
    #[must_use]
    pub fn settled(&self) -> Self {
        let mut disk = self.lock().disk.clone();
        disk.flush();
        Self::with_disk(self.size, self.seed, disk)
    }

    /// Returns all contents, as reads see them, whether the power is cut or not.
    #[must_use]
    pub fn contents(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.size).unwrap_or(0)];
        self.lock().disk.read(0, &mut bytes);
        bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state, while there is power.
    fn powered(&self, operation: Operation) -> Result<MutexGuard<'_, State>, BackendError> {
        let state = self.lock();
        if state.power_is_cut {
            return Err(self.no_power(operation));
        }
        Ok(state)
    }

    /// Counts a call, and determines its outcome.
    fn begin(&self, call: Call, operation: Operation) -> Result<Turn, BackendError> {
        let mut state = self.powered(operation)?;
        state.number += 1;
        state.calls[call as usize] += 1;
        let nth = state.calls[call as usize];
        let fault = state.faults.failures.iter();
        let mut fault = fault.filter(|fault| fault.call == call && fault.nth == nth);
        let failure = fault.next().map(|fault| fault.failure);
        if call != Call::Read {
            state.changes += 1;
            state.power_is_cut = state.faults.cut_at == Some(state.changes);
        }
        let mut turn = Turn {
            number: state.number,
            cut: state.power_is_cut,
            failure,
            random: Random::of(self.seed, state.number),
            latency: state.faults.latency,
        };
        drop(state);
        turn.pause();
        Ok(turn)
    }

    fn check_end(&self, operation: Operation, offset: u64, len: u64) -> Result<(), BackendError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(self.error(operation, io::ErrorKind::UnexpectedEof)),
        }
    }

    fn error(&self, operation: Operation, source: impl Into<io::Error>) -> BackendError {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let place = format!("the simulated disk of seed {}", self.seed);
        BackendError::new(operation, &place, source)
    }

    fn no_power(&self, operation: Operation) -> BackendError {
        self.error(operation, io::Error::other("the power was cut"))
    }
}

impl Backend for SimBackend {
    fn info(&self) -> Info {
        Info {
            size: self.size,
            read_only: false,
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        let len = buffer.len() as u64;
        let operation = Operation::Read { offset, len };
        self.check_end(operation, offset, len)?;
        let mut turn = self.begin(Call::Read, operation)?;
        match turn.failure {
            None => {}
            Some(Failure::Io | Failure::NoSpace) => return Err(self.error(operation, Errno::IO)),
            Some(Failure::Short) => {
                let some = turn.random.below(len);
                let some = usize::try_from(some).unwrap_or(0);
                self.powered(operation)?
                    .disk
                    .read(offset, &mut buffer[..some]);
                return Err(self.error(operation, io::ErrorKind::UnexpectedEof));
            }
        }
        let (mut at, mut left) = (offset, buffer);
        while !left.is_empty() {
            let (now, rest) = left.split_at_mut(turn.step(at, left.len()));
            self.powered(operation)?.disk.read(at, now);
            turn.pause();
            at += now.len() as u64;
            left = rest;
        }
        Ok(())
    }

    fn write_at(
        &self,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), BackendError> {
        let len = data.len() as u64;
        let operation = Operation::Write { offset, len };
        self.check_end(operation, offset, len)?;
        let mut turn = self.begin(Call::Write, operation)?;
        let extent = extent(offset, data.len());
        let write = (turn.number, extent);
        if turn.cut {
            self.lock().disk.write(write, offset, data, |_| true);
            return Err(self.no_power(operation));
        }
        if let Some(failure) = turn.failure {
            let (error, arrives) = fail_write(failure, extent, &mut turn.random);
            let mut state = self.powered(operation)?;
            state.disk.write(write, offset, data, arrives);
            return Err(self.error(operation, error));
        }
        let (mut at, mut data) = (offset, data);
        while !data.is_empty() {
            let (now, rest) = data.split_at(turn.step(at, data.len()));
            let mut state = self.powered(operation)?;
            state.disk.write(write, at, now, |_| true);
            drop(state);
            turn.pause();
            at += now.len() as u64;
            data = rest;
        }
        if durability == Durability::Durable {
            let mut state = self.powered(operation)?;
            if state.sync_failed {
                return Err(self.error(Operation::Flush, Errno::IO));
            }
            state.disk.make_durable(turn.number);
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), BackendError> {
        let operation = Operation::Flush;
        let mut turn = self.begin(Call::Flush, operation)?;
        if turn.cut {
            return Err(self.no_power(operation));
        }
        let mut state = self.powered(operation)?;
        if state.sync_failed {
            return Err(self.error(operation, Errno::IO));
        }
        if let Some(failure) = turn.failure {
            state.sync_failed = true;
            state.disk.fail_flush(&mut turn.random);
            return Err(self.error(operation, errno(failure)));
        }
        state.disk.flush();
        Ok(())
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        let operation = Operation::Discard { offset, len };
        self.check_end(operation, offset, len)?;
        let mut turn = self.begin(Call::Discard, operation)?;
        if turn.cut {
            let mut state = self.lock();
            state.disk.discard(turn.number, &range, &mut turn.random);
            return Err(self.no_power(operation));
        }
        let mut state = self.powered(operation)?;
        state.disk.discard(turn.number, &range, &mut turn.random);
        match turn.failure {
            None => Ok(()),
            Some(failure) => Err(self.error(operation, errno(failure))),
        }
    }

    fn write_zeroes(&self, range: Range<u64>, durability: Durability) -> Result<(), BackendError> {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        let operation = Operation::Write { offset, len };
        self.check_end(operation, offset, len)?;
        let zeros = vec![0; usize::try_from(len).unwrap_or(0)];
        self.write_at(offset, &zeros, durability)
    }

    fn lock_header(&self, _: LockKind) -> Result<HeaderLock, BackendError> {
        Ok(HeaderLock::unneeded())
    }
}

impl Turn {
    /// Returns how many of the `left` bytes at `offset` are done in one step.
    fn step(&mut self, offset: u64, left: usize) -> usize {
        if !self.latency {
            return left;
        }
        #[allow(clippy::cast_possible_truncation, reason = "below 8 sectors")]
        let (sectors, within) = (
            1 + self.random.below(8) as usize,
            (offset % SECTOR as u64) as usize,
        );
        left.min(sectors * SECTOR - within)
    }

    /// Lets other threads come in between.
    fn pause(&mut self) {
        if !self.latency {
            return;
        }
        match self.random.below(64) {
            0 => std::thread::sleep(Duration::from_micros(self.random.below(50))),
            1..6 => std::thread::yield_now(),
            _ => {}
        }
    }
}

/// Returns the error of a write that fails, and the sectors of it that arrive nevertheless.
fn fail_write(
    failure: Failure,
    extent: Extent,
    random: &mut Random,
) -> (io::Error, impl Fn(u64) -> bool) {
    let torn = survival::torn(random.next(), extent);
    let head = extent.first + random.below(extent.count);
    let error = match failure {
        Failure::Short => io::ErrorKind::WriteZero.into(),
        _ => errno(failure).into(),
    };
    let arrives = move |sector| match failure {
        Failure::Io => torn(sector),
        Failure::NoSpace | Failure::Short => sector < head,
    };
    (error, arrives)
}

fn errno(failure: Failure) -> Errno {
    match failure {
        Failure::NoSpace => Errno::NOSPC,
        Failure::Io | Failure::Short => Errno::IO,
    }
}
