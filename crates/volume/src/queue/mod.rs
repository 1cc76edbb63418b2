//! The data plane of one thread: requests whose answers come later.
//!
//! A [`Volume`] answers a call when the storage has answered. That is best where the storage is memory,
//! but a device or another machine works at its best on many requests at a time. A queue has a fixed
//! number of slots, each with a buffer of its own; a request takes a slot, and its [`Completion`] gives
//! the slot back, in any order. The plaintext is copied once, by the cipher: what is written is
//! encrypted from the caller's memory into the slot, what was read is decrypted from the slot into the
//! caller's memory.
//!
//! | engine | is for | by |
//! |---|---|---|
//! | [`Engine::Plain`] | memory and cached files | no queue at all: calls of [`Volume`] on the thread that asks |
//! | [`Engine::IoUring`] | devices, and files past the page cache | one ring for storage and sockets |
//! | [`Engine::Threads`] | other machines, and devices where io_uring is forbidden | a crew of threads for each queue |

mod crew;
mod ring;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::sync::Arc;

use scrim_backend::Medium;

use crate::{Volume, VolumeError};
use crew::CrewQueue;
use ring::RingQueue;

/// Bytes of a slot's buffer: the longest request.
pub const SLOT: usize = 128 << 10;
/// Slots of a queue: the most requests of one thread under way.
pub const SLOTS: usize = 32;

/// How requests reach the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Calls on the thread that asks.
    Plain,
    /// A ring of the kernel's.
    IoUring,
    /// Calls on other threads.
    Threads,
}

impl Engine {
    /// The one for what a volume lies on.
    #[must_use]
    pub fn for_volume(volume: &Volume) -> Self {
        let (mut waits, mut files) = (false, true);
        for backend in volume.backends() {
            match backend.medium() {
                Medium::Memory | Medium::File { cached: true, .. } => {}
                Medium::File { cached: false, .. } => waits = true,
                Medium::Remote => (waits, files) = (true, false),
            }
        }
        match (waits, files) {
            (false, _) => Self::Plain,
            (true, true) if Self::IoUring.is_allowed() => Self::IoUring,
            (true, _) => Self::Threads,
        }
    }

    /// Whether this process may use it.
    #[must_use]
    pub fn is_allowed(self) -> bool {
        self != Self::IoUring || ring::is_allowed()
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::IoUring => "io_uring",
            Self::Threads => "threads",
        })
    }
}

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        [Self::Plain, Self::IoUring, Self::Threads]
            .into_iter()
            .find(|engine| engine.to_string() == text)
            .ok_or(UnknownEngine)
    }
}

/// A text that names no engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownEngine;

impl fmt::Display for UnknownEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the engines are plain, io_uring and threads")
    }
}

impl std::error::Error for UnknownEngine {}

/// A buffer and the right to make one request with it.
#[derive(Debug, PartialEq, Eq)]
pub struct Slot(usize);

impl Slot {
    /// Its number, below [`SLOTS`].
    #[must_use]
    pub fn index(&self) -> usize {
        self.0
    }
}

/// A request that has ended.
#[derive(Debug)]
pub struct Completion {
    /// The slot it was made with.
    pub slot: Slot,
    /// What became of it.
    pub result: Result<(), VolumeError>,
}

/// One thread's requests to a volume. See the [module's documentation](self).
pub struct Queue<'v> {
    kind: Kind<'v>,
    free: Vec<Slot>,
}

enum Kind<'v> {
    Ring(Box<RingQueue<'v>>),
    Crew(CrewQueue<'v>),
}

impl<'v> Queue<'v> {
    /// A queue on `volume`; `None` for [`Engine::Plain`], which has none. [`wait`](Self::wait) returns
    /// when one of the `watched` files can be read from, too.
    ///
    /// # Errors
    /// When the system refuses a ring, a thread or memory.
    pub fn new(
        volume: &'v Arc<Volume>,
        engine: Engine,
        watched: &[BorrowedFd<'v>],
    ) -> io::Result<Option<Self>> {
        let kind = match engine {
            Engine::Plain => return Ok(None),
            Engine::IoUring => Kind::Ring(Box::new(RingQueue::new(volume, watched)?)),
            Engine::Threads => Kind::Crew(CrewQueue::new(volume, watched)?),
        };
        Ok(Some(Self {
            kind,
            free: (0..SLOTS).map(Slot).collect(),
        }))
    }

    /// A free slot; `None` while every one is under way or holds what was read.
    pub fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// Gives a slot back whose completion has been dealt with.
    pub fn give_back(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Starts to read `len` bytes of plaintext, at most [`SLOT`], from `offset`.
    pub fn read(&mut self, slot: Slot, offset: u64, len: usize) {
        match &mut self.kind {
            Kind::Ring(ring) => ring.read(slot, offset, len),
            Kind::Crew(crew) => crew.read(slot, offset, len),
        }
    }

    /// Starts to write plaintext, at most [`SLOT`] bytes, at `offset`. It is encrypted on its way into
    /// the slot, or where it lies: `data` holds nothing of use afterwards.
    pub fn write(&mut self, slot: Slot, offset: u64, data: &mut [u8]) {
        match &mut self.kind {
            Kind::Ring(ring) => ring.write(slot, offset, data),
            Kind::Crew(crew) => crew.write(slot, offset, data),
        }
    }

    /// Decrypts what a successful read brought into `into`, whose length is that of the read.
    pub fn collect(&mut self, slot: &Slot, into: &mut [u8]) {
        match &mut self.kind {
            Kind::Ring(ring) => ring.collect(slot, into),
            Kind::Crew(crew) => crew.collect(slot, into),
        }
    }

    /// Gets what was started under way.
    ///
    /// # Errors
    /// When the system fails the queue itself.
    pub fn submit(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Ring(ring) => ring.submit(),
            // A crew begins at once.
            Kind::Crew(_) => Ok(()),
        }
    }

    /// The next request that has ended, if there is one.
    pub fn next_completion(&mut self) -> Option<Completion> {
        self.done().pop_front()
    }

    /// Waits until a request has ended, a watched file can be read from, or a signal came.
    ///
    /// # Errors
    /// When the system fails the queue itself.
    pub fn wait(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Ring(ring) => ring.wait(),
            Kind::Crew(crew) => crew.wait(),
        }
    }

    /// Waits until a request has ended, or a signal came; not for watched files.
    ///
    /// # Errors
    /// When the system fails the queue itself.
    pub fn wait_for_completion(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Ring(ring) => ring.wait_for_completion(),
            Kind::Crew(crew) => crew.wait_for_completion(),
        }
    }

    /// Waits until every request has ended.
    ///
    /// # Errors
    /// When the system fails the queue itself.
    pub fn settle(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Ring(ring) => ring.settle(),
            Kind::Crew(crew) => crew.settle(),
        }
    }

    /// Whether [`take`](Self::take) has a slot to give.
    #[must_use]
    pub fn has_free_slot(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether no request is under way or waits to be dealt with.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.free.len() == SLOTS
    }

    fn done(&mut self) -> &mut VecDeque<Completion> {
        match &mut self.kind {
            Kind::Ring(ring) => &mut ring.done,
            Kind::Crew(crew) => &mut crew.done,
        }
    }
}
