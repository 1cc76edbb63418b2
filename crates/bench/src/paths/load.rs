//! Requests, one after the other on each thread, and how long they take.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use scrim_backend::{Backend, Durability, FileBackend, RemoteBackend};
use scrim_volume::{Statistics, Volume};

use super::error::PathsError;

/// Alignment of requesters' buffers in bytes, so that they can go past the page cache.
const ALIGNMENT: usize = 4096;
/// Requests that take less than this are clocked one in [`STRIDE`]: asking for the time costs something.
const QUICK: Duration = Duration::from_micros(5);
/// Stride of the clocked requests: see [`QUICK`].
const STRIDE: u32 = 16;
/// The part of a slice that goes before it, unmeasured: others have been at the caches.
const WARM_UP: u32 = 8;

/// Kind of requests: reads, writes or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    Read,
    Write,
    /// Both in turn, by the plan's mix.
    Mixed,
}

impl Workload {
    /// All workloads, in the order of reports.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Mixed];

    /// Name of the workload as a part of series' names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Mixed => "mixed",
        }
    }
}

/// Storage that takes reads and writes: a volume of this process, a served one, or a block device.
pub(super) trait Disk: Send + Sync {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), PathsError>;
    /// Writes `data`, whose content is undefined afterwards.
    fn write(&self, offset: u64, data: &mut [u8]) -> Result<(), PathsError>;
    /// Hand-overs and requests so far, where they are known.
    fn handovers(&self) -> Option<(u64, u64)>;
}

impl Disk for Volume {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), PathsError> {
        Self::read(self, offset, buffer).map_err(PathsError::request)
    }

    fn write(&self, offset: u64, data: &mut [u8]) -> Result<(), PathsError> {
        Self::write(self, offset, data, Durability::Cached).map_err(PathsError::request)
    }

    fn handovers(&self) -> Option<(u64, u64)> {
        let Statistics { read, write } = self.statistics();
        Some((
            read.handovers + write.handovers,
            read.requests + write.requests,
        ))
    }
}

/// A backend without a volume.
macro_rules! backend_as_disk {
    ($backend:ty) => {
        impl Disk for $backend {
            fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), PathsError> {
                self.read_at(offset, buffer).map_err(PathsError::request)
            }

            fn write(&self, offset: u64, data: &mut [u8]) -> Result<(), PathsError> {
                self.write_at(offset, data, Durability::Cached)
                    .map_err(PathsError::request)
            }

            fn handovers(&self) -> Option<(u64, u64)> {
                None
            }
        }
    };
}

backend_as_disk!(RemoteBackend);
backend_as_disk!(FileBackend);

/// The manner of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) workload: Workload,
    /// Bytes of a request.
    pub(super) block: usize,
    /// Reads among a hundred requests of [`Workload::Mixed`].
    pub(super) reads: u8,
    /// Bytes of the disk that are used.
    pub(super) size: u64,
}

/// A client that makes requests in sequence, round and round, from an offset of its own.
pub(super) struct Requester {
    memory: Vec<u8>,
    start: usize,
    block: usize,
    offset: u64,
    /// Hundredths of a read that are due.
    due: u8,
    /// Latencies of clocked requests, in nanoseconds.
    latencies: Vec<u32>,
    requests: u64,
    ended: Instant,
}

/// Requests of a slice, with their times.
#[derive(Clone, Debug, Default)]
pub(super) struct Slice {
    pub(super) requests: u64,
    pub(super) wall: Duration,
    /// Latencies in nanoseconds, in order of size.
    latencies: Vec<u32>,
}

impl Requester {
    pub(super) fn new(shape: &Shape, index: usize, of: usize) -> Self {
        let memory = vec![0x5a; shape.block + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let block = shape.block as u64;
        let blocks = (shape.size / block).max(1);
        Self {
            start,
            block: shape.block,
            offset: blocks * index as u64 / of as u64 * block,
            due: 0,
            latencies: Vec::with_capacity(1 << 12),
            requests: 0,
            ended: Instant::now(),
            memory,
        }
    }

    pub(super) fn several(shape: &Shape, count: usize) -> Vec<Self> {
        (0..count)
            .map(|index| Self::new(shape, index, count))
            .collect()
    }

    /// Makes the next request, by the workload of `shape`.
    pub(super) fn ask(&mut self, disk: &dyn Disk, shape: &Shape) -> Result<(), PathsError> {
        let offset = self.offset;
        self.offset += shape.block as u64;
        if self.offset + shape.block as u64 > shape.size {
            self.offset = 0;
        }
        let is_read = match shape.workload {
            Workload::Read => true,
            Workload::Write => false,
            Workload::Mixed => {
                self.due += shape.reads;
                let read = self.due >= 100;
                self.due -= if read { 100 } else { 0 };
                read
            }
        };
        let buffer = &mut self.memory[self.start..][..self.block];
        if is_read {
            disk.read(offset, buffer)
        } else {
            disk.write(offset, buffer)
        }
    }

    /// Makes requests for `length`, and clocks one of `stride` of them. Returns the mean time of a request.
    fn ask_until(
        &mut self,
        disk: &dyn Disk,
        shape: &Shape,
        length: Duration,
        stride: u32,
    ) -> Result<Duration, PathsError> {
        self.latencies.clear();
        self.requests = 0;
        let start = Instant::now();
        let mut before = start;
        loop {
            self.ask(disk, shape)?;
            let after = Instant::now();
            let took = u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX);
            self.latencies.push(took);
            for _ in 1..stride {
                self.ask(disk, shape)?;
            }
            self.requests += u64::from(stride);
            before = if stride > 1 { Instant::now() } else { after };
            if before - start >= length {
                self.ended = before;
                return Ok((before - start) / u32::try_from(self.requests).unwrap_or(u32::MAX));
            }
        }
    }

    /// Warms up and runs one slice.
    fn run(
        &mut self,
        disk: &dyn Disk,
        shape: &Shape,
        length: Duration,
        barrier: Option<&Barrier>,
    ) -> Result<Instant, PathsError> {
        let warmed = self.ask_until(disk, shape, length / WARM_UP, 1);
        if let Some(barrier) = barrier {
            barrier.wait();
        }
        let start = Instant::now();
        let stride = if warmed? < QUICK { STRIDE } else { 1 };
        self.ask_until(disk, shape, length, stride)?;
        Ok(start)
    }
}

impl Slice {
    /// Runs all requesters at once for `length`; one alone on this thread.
    pub(super) fn run(
        disk: &dyn Disk,
        shape: &Shape,
        requesters: &mut [Requester],
        length: Duration,
    ) -> Result<Self, PathsError> {
        let start = match &mut *requesters {
            [alone] => alone.run(disk, shape, length, None)?,
            several => {
                let barrier = Barrier::new(several.len());
                thread::scope(|scope| {
                    let threads: Vec<_> = several
                        .iter_mut()
                        .map(|one| scope.spawn(|| one.run(disk, shape, length, Some(&barrier))))
                        .collect();
                    let mut start: Result<_, PathsError> = Ok(Instant::now());
                    for thread in threads {
                        // A panic of the thread is passed on.
                        let began = thread
                            .join()
                            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                        start = start.and_then(|start| Ok(start.min(began?)));
                    }
                    start
                })?
            }
        };
        let ended = requesters.iter().map(|one| one.ended).max();
        let mut latencies = Vec::new();
        for one in requesters.iter() {
            latencies.extend_from_slice(&one.latencies);
        }
        Ok(Self {
            requests: requesters.iter().map(|one| one.requests).sum(),
            wall: ended.map_or(Duration::ZERO, |ended| ended - start),
            ..Self::clocked(latencies)
        })
    }

    /// Slice of clocked requests only, in nanoseconds: it has no rate.
    pub(super) fn clocked(mut latencies: Vec<u32>) -> Self {
        latencies.sort_unstable();
        Self {
            latencies,
            ..Self::default()
        }
    }

    /// MB/s, reads and writes together.
    pub(super) fn rate(&self, block: usize) -> f64 {
        self.requests as f64 * block as f64 / 1e6 / self.wall.as_secs_f64()
    }

    /// The mean of the requests that were clocked, in µs.
    pub(super) fn mean(&self) -> f64 {
        let sum: u64 = self.latencies.iter().map(|&nanos| u64::from(nanos)).sum();
        sum as f64 / self.latencies.len().max(1) as f64 / 1e3
    }

    /// Returns the most that `part` of the clocked requests took, in µs.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and an index"
        )]
        let index = ((last as f64) * part).ceil() as usize;
        self.latencies
            .get(index.min(last))
            .map_or(0.0, |&nanos| f64::from(nanos) / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Notes what it is asked.
    #[derive(Default)]
    struct Noted(Mutex<Vec<(bool, u64, usize)>>);

    impl Disk for Noted {
        fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), PathsError> {
            self.0.lock().unwrap().push((true, offset, buffer.len()));
            Ok(())
        }

        fn write(&self, offset: u64, data: &mut [u8]) -> Result<(), PathsError> {
            self.0.lock().unwrap().push((false, offset, data.len()));
            Ok(())
        }

        fn handovers(&self) -> Option<(u64, u64)> {
            None
        }
    }

    fn shape(workload: Workload) -> Shape {
        Shape {
            workload,
            block: 512,
            reads: 75,
            size: 2048 + 511,
        }
    }

    #[test]
    fn requests_go_round_and_are_mixed_as_wanted() {
        let disk = Noted::default();
        let shape = shape(Workload::Mixed);
        let mut requester = Requester::new(&shape, 1, 2);
        for _ in 0..8 {
            requester.ask(&disk, &shape).unwrap();
        }
        let asked = disk.0.into_inner().unwrap();
        let offsets: Vec<_> = asked.iter().map(|(_, offset, _)| *offset).collect();
        assert_eq!(offsets, [1024, 1536, 0, 512, 1024, 1536, 0, 512]);
        assert_eq!(asked.iter().filter(|(read, ..)| *read).count(), 6);
        assert!(asked.iter().all(|(.., len)| *len == 512));
    }

    #[test]
    fn a_slice_counts_the_requests_of_all_threads() {
        let disk = Noted::default();
        let shape = shape(Workload::Write);
        let mut requesters = Requester::several(&shape, 3);
        let length = Duration::from_micros(100);
        let slice = Slice::run(&disk, &shape, &mut requesters, length).unwrap();
        let asked = disk.0.into_inner().unwrap();
        assert!(slice.requests > 0 && slice.requests <= asked.len() as u64);
        assert!(asked.iter().all(|(read, ..)| !read));
        assert!(slice.wall >= length && slice.rate(512) > 0.0);
    }

    #[test]
    fn quantiles_are_of_those_that_were_clocked() {
        let slice = Slice {
            requests: 5,
            wall: Duration::from_millis(1),
            latencies: vec![1000, 2000, 3000, 4000, 90_000],
        };
        assert_eq!((slice.mean(), slice.quantile(0.5)), (20.0, 3.0));
        assert_eq!((slice.quantile(0.99), slice.quantile(0.0)), (90.0, 1.0));
        assert_eq!(Slice::default().quantile(0.5), 0.0);
    }
}
