//! Requests at a depth to an open volume, past the page cache.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use scrim_backend::Backend;
use scrim_seeded::Random;
use scrim_sys::memory::DataBuffer;
use scrim_sys::ring::{Event, Ring};

/// Seed of places and data.
const SEED: u64 = 22;
/// The ring's only file.
const FILE: u32 = 0;

/// Direction in which requests move data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    Read,
    Write,
}

/// A load: requests of one length, so many at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub direction: Direction,
    /// Bytes of a request.
    pub bytes: usize,
    /// Requests at a time.
    pub depth: usize,
    /// True if requests follow each other, false if they go to random places.
    pub sequential: bool,
}

impl Load {
    /// Name, such as `read_4k_qd1`.
    #[must_use]
    pub fn name(&self) -> String {
        let direction = match self.direction {
            Direction::Read => "read",
            Direction::Write => "write",
        };
        let size = match self.bytes {
            bytes if bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
            bytes if bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
            bytes => format!("{bytes}b"),
        };
        format!("{direction}_{size}_qd{}", self.depth)
    }

    pub(super) fn describe(&self) -> String {
        let order = match self.sequential {
            true => "in order",
            false => "at random places",
        };
        format!(
            "{} bytes {order}, {} at a time, past the page cache",
            self.bytes, self.depth
        )
    }
}

/// Carries out loads on an open volume.
pub trait Requests {
    /// Makes the requests of a load for a time, and returns their rate in MB/s.
    ///
    /// # Errors
    /// When a request fails.
    fn run(&mut self, load: &Load, time: Duration) -> io::Result<f64>;
}

/// A file or block device that loads go to, opened with `O_DIRECT`: one to read, and one to write if there is one.
#[derive(Debug)]
pub struct FileTarget {
    read: File,
    read_len: u64,
    write: Option<(File, u64)>,
    random: Random,
    /// Place of the next sequential request.
    next: u64,
}

impl FileTarget {
    /// Loads that read go to `read`, which has `read_len` bytes; those that write to `write`.
    #[must_use]
    pub fn new(read: File, read_len: u64, write: Option<(File, u64)>) -> Self {
        Self {
            read,
            read_len,
            write,
            random: Random::new(SEED),
            next: 0,
        }
    }

    fn place(&mut self, load: &Load, len: u64) -> u64 {
        let bytes = load.bytes as u64;
        let places = (len / bytes).max(1);
        if load.sequential {
            self.next = (self.next + 1) % places;
            return self.next * bytes;
        }
        self.random.below(places) * bytes
    }
}

impl Requests for FileTarget {
    fn run(&mut self, load: &Load, time: Duration) -> io::Result<f64> {
        let (file, len) = match (load.direction, &self.write) {
            (Direction::Read, _) => (self.read.try_clone()?, self.read_len),
            (Direction::Write, Some((file, len))) => (file.try_clone()?, *len),
            (Direction::Write, None) => return Err(io::ErrorKind::Unsupported.into()),
        };
        if len < load.bytes as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("it has {len} bytes, fewer than one request"),
            ));
        }
        let mut ring = Ring::new(load.depth, load.bytes, &[file.as_fd()])?;
        for slot in 0..load.depth {
            self.random.fill(ring.buffer(slot));
        }
        let begun = Instant::now();
        for slot in 0..load.depth {
            self.start(&mut ring, slot, load, len)?;
        }
        let mut done = 0u64;
        let mut in_flight = load.depth;
        while in_flight > 0 {
            ring.submit(1)?;
            while let Some(event) = ring.next_event() {
                let Event::Transfer { slot, result } = event else {
                    continue;
                };
                if result? != load.bytes {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                done += load.bytes as u64;
                in_flight -= 1;
                if begun.elapsed() < time {
                    self.start(&mut ring, slot, load, len)?;
                    in_flight += 1;
                }
            }
        }
        Ok(done as f64 / 1e6 / begun.elapsed().as_secs_f64().max(1e-9))
    }
}

impl FileTarget {
    fn start(&mut self, ring: &mut Ring<'_>, slot: usize, load: &Load, len: u64) -> io::Result<()> {
        let offset = self.place(load, len);
        match load.direction {
            Direction::Read => ring.read(slot, FILE, offset, load.bytes),
            Direction::Write => ring.write(slot, FILE, offset, load.bytes),
        }
    }
}

/// Reads through a backend, each of the load's requests on a thread of its own.
pub struct BackendTarget<B>(pub B);

impl<B: Backend> BackendTarget<B> {
    fn read_on(&self, number: usize, load: &Load, end: Instant) -> io::Result<u64> {
        let places = (self.0.info().size / load.bytes as u64).max(1);
        let mut random = Random::of(SEED, number as u64);
        let mut buffer = DataBuffer::zeroed(load.bytes);
        let mut next = number as u64;
        let mut bytes = 0;
        while Instant::now() < end {
            let place = match load.sequential {
                true => next % places,
                false => random.below(places),
            };
            next += load.depth as u64;
            let offset = place * load.bytes as u64;
            let read = self.0.read_at(offset, &mut buffer);
            read.map_err(|error| error.source)?;
            bytes += load.bytes as u64;
        }
        Ok(bytes)
    }
}

impl<B: Backend> Requests for BackendTarget<B> {
    /// Carries out loads that read; others are unsupported.
    fn run(&mut self, load: &Load, time: Duration) -> io::Result<f64> {
        if load.direction != Direction::Read {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let begun = Instant::now();
        let this = &*self;
        let bytes: io::Result<Vec<u64>> = thread::scope(|scope| {
            let readers: Vec<_> = (0..load.depth)
                .map(|number| scope.spawn(move || this.read_on(number, load, begun + time)))
                .collect();
            let joined = readers.into_iter().map(|thread| {
                let panicked = |_| io::Error::other("a thread has panicked");
                thread.join().map_err(panicked)?
            });
            joined.collect()
        });
        let bytes: u64 = bytes?.into_iter().sum();
        Ok(bytes as f64 / 1e6 / begun.elapsed().as_secs_f64().max(1e-9))
    }
}

/// Fills the first `len` bytes of a file, a multiple of 1 MiB, with noise.
///
/// # Errors
/// As `pwrite(2)`.
pub fn fill(file: &File, len: u64) -> io::Result<()> {
    const PIECE: usize = 1 << 20;
    let mut piece = DataBuffer::zeroed(PIECE);
    Random::new(SEED).fill(&mut piece);
    for place in 0..len / PIECE as u64 {
        file.write_all_at(&piece, place * PIECE as u64)?;
    }
    Ok(())
}
