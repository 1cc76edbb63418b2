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
//!
//! A direction on the queued path has threads of its own, dm-crypt's, whatever the engine is.
//!
//! A queue is made for one table. It keeps the table at work as long as a request is under way, so its
//! owner lets it [`settle`](Queue::settle) when [somebody waits](Queue::is_waited_for) to exchange the
//! table; later requests are carried out on the new one, one call each, until the queue
//! is replaced.
//!
//! A queue keeps its table in memory, and the table its keys. So an owner that must let go of the keys of a suspended
//! volume asks [`try_begin`](Queue::try_begin) before each request, and drops the queue where that is refused or where
//! a wait ends with [`Settled::retired`].

mod crew;
mod kcryptd;
mod ring;
mod slots;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::sync::Arc;

use scrim_backend::{Durability, Medium};

use crate::data_path::Direction;
use crate::gate::Pass;
use crate::stats::{Record, Stage};
use crate::{Mapping, Volume, VolumeError};
use crew::CrewQueue;
use kcryptd::KcryptdQueue;
use ring::RingQueue;

/// Bytes of a slot's buffer: the longest request.
pub const SLOT: usize = 128 << 10;
/// Slots of a queue: the most requests of one thread under way.
pub const SLOTS: usize = 32;

/// Engine by which requests reach the storage.
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
    /// Returns the engine for the medium that a volume lies on.
    #[must_use]
    pub fn for_volume(volume: &Volume) -> Self {
        let (mut waits, mut files) = (false, true);
        for backend in volume.mapping().backends() {
            match backend.medium() {
                Medium::Memory
                | Medium::File {
                    cached: Some(_), ..
                } => {}
                Medium::File { cached: None, .. } => waits = true,
                Medium::Remote => (waits, files) = (true, false),
            }
        }
        match (waits, files) {
            (false, _) => Self::Plain,
            (true, true) if Self::IoUring.is_allowed() => Self::IoUring,
            (true, _) => Self::Threads,
        }
    }

    /// Returns whether this process may use the engine.
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
    /// Returns its number, below [`SLOTS`].
    #[must_use]
    pub fn index(&self) -> usize {
        self.0
    }
}

/// A request that has ended.
#[derive(Debug)]
pub struct Completion {
    /// Slot with which the request was made.
    pub slot: Slot,
    /// Result of the request.
    pub result: Result<(), VolumeError>,
}

/// Proof that a thread holds nothing of a volume for which others may wait: no lock of a range, and no pass that
/// keeps a table at work. With it the thread may wait for anything, such as a client, until the table of its queue
/// is [retired](Settled::retired). It borrows the queue that gave it, so nothing can be started while it exists.
#[derive(Debug, Clone, Copy)]
pub struct Settled<'q> {
    retired: Option<BorrowedFd<'q>>,
}

impl Settled<'static> {
    /// Proof for a thread without a queue: a call of [`Volume`] gives back what it takes before it returns.
    pub const WITHOUT_QUEUE: Self = Self { retired: None };
}

impl<'q> Settled<'q> {
    /// Returns a file that is readable once another table is at work: a wait has to end then, since the queue
    /// would keep the old table and its keys in memory. `None` without a queue.
    #[must_use]
    pub fn retired(&self) -> Option<BorrowedFd<'q>> {
        self.retired
    }
}

/// One thread's requests to a volume. See the [module's documentation](self).
pub struct Queue<'v> {
    volume: &'v Volume,
    mapping: &'v Arc<Mapping>,
    /// Held while any request is in flight, and for a little longer.
    pass: Option<Pass<'v, Mapping>>,
    /// True if a write was carried out on another table than the queue's.
    has_written_elsewhere: bool,
    kind: Kind<'v>,
    free: Vec<Slot>,
    /// Requests, by slot.
    carried: Vec<Carried>,
}

enum Kind<'v> {
    Ring(Box<RingQueue<'v>>),
    Crew(CrewQueue<'v>),
    Kcryptd(KcryptdQueue<'v>),
}

/// A request in its slot.
struct Carried {
    direction: Direction,
    len: usize,
    is_ok: bool,
    /// True if it is counted as in flight in the volume's statistics.
    is_counted: bool,
    record: Record,
}

impl<'v> Queue<'v> {
    /// Creates a queue on `volume` for `mapping`, which should be the one that is at work; `None` where no queue
    /// is needed, for [`Engine::Plain`] without a queued direction. [`wait`](Self::wait) returns when one of the
    /// `watched` files is readable, too.
    ///
    /// # Errors
    /// When the system refuses a ring, a thread or memory, or when more than 3 files are to be watched.
    pub fn new(
        volume: &'v Volume,
        mapping: &'v Arc<Mapping>,
        engine: Engine,
        watched: &[BorrowedFd<'v>],
    ) -> io::Result<Option<Self>> {
        // A thread that waits for the next request hears of another table, too.
        let mut watched = watched.to_vec();
        watched.push(mapping.retired());
        let watched = &watched[..];
        let kind = if mapping.is_queued() {
            Kind::Kcryptd(KcryptdQueue::new(mapping, watched)?)
        } else {
            match engine {
                Engine::Plain => return Ok(None),
                Engine::IoUring => Kind::Ring(Box::new(RingQueue::new(mapping, watched)?)),
                Engine::Threads => Kind::Crew(CrewQueue::new(mapping, watched)?),
            }
        };
        let idle = || Carried {
            direction: Direction::Read,
            len: 0,
            is_ok: false,
            is_counted: false,
            record: Record::default(),
        };
        Ok(Some(Self {
            volume,
            mapping,
            pass: None,
            has_written_elsewhere: false,
            kind,
            free: (0..SLOTS).map(Slot).collect(),
            carried: (0..SLOTS).map(|_| idle()).collect(),
        }))
    }

    /// Takes a free slot; `None` while every one is in flight or holds data that was read.
    pub fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// Gives back a slot whose completion has been handled.
    pub fn give_back(&mut self, slot: Slot) {
        let carried = &mut self.carried[slot.0];
        let bytes = carried.is_ok.then_some(carried.len);
        carried.is_counted = false;
        let record = std::mem::take(&mut carried.record);
        (self.volume.counters()).end(carried.direction, bytes, &record);
        self.free.push(slot);
    }

    /// Starts to read `len` bytes of plaintext, at most [`SLOT`], from `offset`.
    pub fn read(&mut self, slot: Slot, offset: u64, len: usize) {
        self.begin(&slot, Direction::Read, len);
        let other = self.enter();
        let record = &mut self.carried[slot.0].record;
        if let Some(other) = other {
            let call =
                |buffer: &mut [u8]| other.read_from_targets(offset, &mut buffer[..len], record);
            return self.kind.carry_out(slot, call);
        }
        match &mut self.kind {
            Kind::Ring(ring) => ring.read(slot, offset, len, record),
            Kind::Crew(crew) => crew.read(slot, offset, len, record),
            Kind::Kcryptd(queues) => queues.read(slot, offset, len, record),
        }
    }

    /// Starts to write plaintext, at most [`SLOT`] bytes, at `offset`. It is encrypted on its way into
    /// the slot, or where it lies: `data` holds nothing of use afterwards.
    pub fn write(&mut self, slot: Slot, offset: u64, data: &mut [u8]) {
        self.begin(&slot, Direction::Write, data.len());
        let other = self.enter();
        let record = &mut self.carried[slot.0].record;
        if let Some(other) = other {
            self.has_written_elsewhere = true;
            let call =
                |_: &mut [u8]| other.write_to_targets(offset, data, Durability::Cached, record);
            return self.kind.carry_out(slot, call);
        }
        match &mut self.kind {
            Kind::Ring(ring) => ring.write(slot, offset, data, record),
            Kind::Crew(crew) => crew.write(slot, offset, data, record),
            Kind::Kcryptd(queues) => queues.write(slot, offset, data, record),
        }
    }

    /// Makes all writes of this queue that have ended durable, while others may be under way. It flushes the storage
    /// that they went to, also while requests are held: [`Volume::flush`] would wait until they are not.
    ///
    /// # Errors
    /// When the storage fails, now or in an earlier flush.
    pub fn flush(&mut self) -> Result<(), VolumeError> {
        self.mapping.flush_backends()?;
        if self.has_written_elsewhere {
            self.volume.flush()?;
        }
        Ok(())
    }

    /// Decrypts the data of a successful read into `into`, whose length is that of the read.
    pub fn collect(&mut self, slot: &Slot, into: &mut [u8]) {
        let record = &mut self.carried[slot.0].record;
        match &mut self.kind {
            Kind::Ring(ring) => ring.collect(slot, into, record),
            Kind::Crew(crew) => crew.slots.collect(slot, into, record),
            Kind::Kcryptd(queues) => queues.slots.collect(slot, into, record),
        }
    }

    /// Submits the requests that were started.
    ///
    /// # Errors
    /// When the system fails the queue itself.
    pub fn submit(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Ring(ring) => ring.submit(),
            // Threads begin at once.
            Kind::Crew(_) | Kind::Kcryptd(_) => Ok(()),
        }
    }

    /// Returns the next request that has ended, if there is one.
    pub fn next_completion(&mut self) -> Option<Completion> {
        let (completion, record) = match &mut self.kind {
            Kind::Ring(ring) => (ring.done.pop_front()?, None),
            Kind::Crew(crew) => crew.slots.next_completion()?,
            Kind::Kcryptd(queues) => queues.slots.next_completion()?,
        };
        let carried = &mut self.carried[completion.slot.0];
        carried.is_ok = completion.result.is_ok();
        match record {
            Some(record) => carried.record.add(&record),
            None => carried.record.trace.mark(Stage::Backend),
        }
        Some(completion)
    }

    /// Waits until a request has ended, a watched file can be read from, or a signal came.
    ///
    /// # Errors
    /// When the system fails the queue itself.
    pub fn wait(&mut self) -> io::Result<()> {
        self.leave_if_idle();
        match &mut self.kind {
            Kind::Ring(ring) => ring.wait(),
            Kind::Crew(crew) => crew.slots.wait(),
            Kind::Kcryptd(queues) => queues.slots.wait(),
        }
    }

    /// Waits until a request has ended, or a signal came; not for watched files.
    ///
    /// # Errors
    /// When the system fails the queue itself.
    pub fn wait_for_completion(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Ring(ring) => ring.wait_for_completion(),
            Kind::Crew(crew) => crew.slots.wait_for_completion(),
            Kind::Kcryptd(queues) => queues.slots.wait_for_completion(),
        }
    }

    /// Waits until every request has ended. Any later call of the queue, such as a flush, may take a lock or a
    /// pass again, and ends the proof.
    ///
    /// # Errors
    /// When the system fails the queue itself: the requests in flight then stay so.
    pub fn settle(&mut self) -> io::Result<Settled<'_>> {
        self.kind.settle()?;
        self.leave_if_idle();
        match &mut self.kind {
            Kind::Ring(_) => {}
            Kind::Crew(crew) => crew.slots.pass_on_panic(),
            Kind::Kcryptd(queues) => queues.slots.pass_on_panic(),
        }
        Ok(Settled {
            retired: Some(self.mapping.retired()),
        })
    }

    /// Returns whether [`take`](Self::take) has a slot to give.
    #[must_use]
    pub fn has_free_slot(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns whether no request is in flight or waits to be handled.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.free.len() == SLOTS
    }

    /// Returns whether a thread waits until no request is in flight, to hold requests or to exchange the table.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.volume.is_suspended()
    }

    /// Makes sure that the next request does not have to wait; `false` where requests are held, or another table
    /// is at work. The owner should then drop this queue, which keeps its table and the keys of it, before it
    /// waits.
    pub fn try_begin(&mut self) -> bool {
        if self.pass.is_none() {
            let pass = self.volume.try_enter();
            self.pass = pass.filter(|pass| Arc::ptr_eq(pass, self.mapping));
        }
        self.pass.is_some()
    }

    /// Lets other threads exchange the table, if no request is in flight. Its owner must call it before
    /// it waits for anything else than requests.
    pub fn leave_if_idle(&mut self) {
        if self.kind.under_way() == 0 {
            self.pass = None;
        }
    }

    fn begin(&mut self, slot: &Slot, direction: Direction, len: usize) {
        self.carried[slot.0] = Carried {
            direction,
            len,
            is_ok: false,
            is_counted: true,
            record: self.volume.counters().begin(direction),
        };
    }

    /// Makes sure that the table stays at work; if another table than this queue's is at work, that one.
    /// While requests are held, and none is in flight, this waits.
    fn enter(&mut self) -> Option<Pass<'v, Mapping>> {
        let pass = match self.pass.take() {
            Some(pass) => pass,
            None => self.volume.enter(),
        };
        if Arc::ptr_eq(&pass, self.mapping) {
            self.pass = Some(pass);
            return None;
        }
        Some(pass)
    }
}

impl Kind<'_> {
    fn under_way(&self) -> usize {
        match self {
            Self::Ring(ring) => ring.under_way(),
            Self::Crew(crew) => crew.slots.under_way(),
            Self::Kcryptd(queues) => queues.slots.under_way(),
        }
    }

    fn settle(&mut self) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.settle(),
            Self::Crew(crew) => crew.slots.settle(),
            Self::Kcryptd(queues) => queues.slots.settle(),
        }
    }

    /// Ends a request by a call, which is given the slot's buffer.
    fn carry_out(&mut self, slot: Slot, call: impl FnOnce(&mut [u8]) -> Result<(), VolumeError>) {
        match self {
            Self::Ring(ring) => ring.carry_out(slot, call),
            Self::Crew(crew) => crew.slots.carry_out(slot, call),
            Self::Kcryptd(queues) => queues.slots.carry_out(slot, call),
        }
    }
}

impl Drop for Queue<'_> {
    /// Waits until no request is in flight on a table that other threads may take away.
    fn drop(&mut self) {
        if self.kind.settle().is_err() {
            // What the system has left under way keeps it.
            std::mem::forget(self.pass.take());
        }
        // No caller has asked for the results of these.
        for carried in self.carried.iter().filter(|carried| carried.is_counted) {
            (self.volume.counters()).end(carried.direction, None, &carried.record);
        }
    }
}
