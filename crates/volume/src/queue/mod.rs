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
//! | [`Engine::IoUring`] | devices, and files past the page cache | one ring, which also polls sockets |
//! | [`Engine::Threads`] | other machines, and devices where io_uring is forbidden | a pool of threads for each queue |
//!
//! Each request to another machine waits for an answer, so [`Lengths::longest`] is more than [`SLOT`] there, if
//! all storage of the table takes such requests. A few of the slots then get longer buffers, once they are needed; an
//! idle queue gives these back after a while.
//!
//! If the table's data path is `queued` ([`DataPath`](crate::DataPath)), dm-crypt's threads execute the requests,
//! whatever the engine. So a queue has one of two forms: the ring, or workers, which are the threads of a pool or
//! dm-crypt's.
//!
//! A queue is made for one table. It keeps the table at work as long as a request is in flight, so its
//! owner lets it [`settle`](Queue::settle) when [somebody waits](Queue::is_waited_for) to exchange the
//! table; later requests are carried out on the new one, one call each, until the queue
//! is replaced.
//!
//! A queue keeps its table in memory, and the table its keys. So an owner that must let go of the keys of a suspended
//! volume asks [`try_begin`](Queue::try_begin) before each request, and drops the queue where that is refused or where
//! a wait ends with [`Settled::retired`].

mod engine;
mod pool;
mod ring;
mod slot;
#[cfg(test)]
mod tests;
mod worker_slots;
mod workers;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use scrim_backend::Durability;
use scrim_sys::memory::DataBuffer;

pub use engine::{Engine, UnknownEngine};
pub use slot::{Completion, Lengths, SLOT, SLOTS, Slot};

use crate::data_path::Direction;
use crate::error::VolumeError;
use crate::gate::Pass;
use crate::mapping::Mapping;
use crate::stats::{Record, Stage};
use crate::volume::Volume;
use engine::RunningEngine;
use slot::LONG_SLOTS;

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
    engine: RunningEngine<'v>,
    lengths: Lengths,
    free: Vec<Slot>,
    requests_by_slot: Vec<SlotRequest>,
}

/// A request in its slot.
struct SlotRequest {
    direction: Direction,
    len: usize,
    is_ok: bool,
    /// True if it is counted as in flight in the volume's statistics.
    is_counted: bool,
    record: Record,
}

impl SlotRequest {
    /// Returns a request that begins now, and counts it.
    fn begun(volume: &Volume, direction: Direction, len: usize) -> Self {
        Self {
            direction,
            len,
            is_ok: false,
            is_counted: true,
            record: volume.counters().begin(direction),
        }
    }
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
        let Some(engine) = RunningEngine::start(engine, mapping, watched)? else {
            return Ok(None);
        };
        let idle = || SlotRequest {
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
            lengths: engine.lengths(),
            engine,
            free: (0..SLOTS).map(Slot).collect(),
            requests_by_slot: (0..SLOTS).map(|_| idle()).collect(),
        }))
    }

    /// Returns the lengths of requests: [`SLOT`], or more on other machines.
    #[must_use]
    pub fn lengths(&self) -> Lengths {
        self.lengths
    }

    /// Takes a free slot for a request of at most [`SLOT`] bytes, one for long requests only if no other is left;
    /// `None` while every one is in flight or holds data that was read.
    pub fn take(&mut self) -> Option<Slot> {
        match self.free.iter().rposition(|slot| slot.0 >= LONG_SLOTS) {
            Some(short) => Some(self.free.swap_remove(short)),
            None => self.free.pop(),
        }
    }

    /// Takes a free slot for a request of at most [`Lengths::longest`] bytes; `None` while all slots for long requests
    /// are in use, even if [`take`](Self::take) has a slot.
    pub fn take_long(&mut self) -> Option<Slot> {
        // The one that was used last, which has a long buffer already.
        let long = self.free.iter().rposition(|slot| slot.0 < LONG_SLOTS)?;
        Some(self.free.swap_remove(long))
    }

    /// Gives back a slot whose completion has been handled.
    pub fn give_back(&mut self, slot: Slot) {
        let request = &mut self.requests_by_slot[slot.0];
        let bytes = request.is_ok.then_some(request.len);
        request.is_counted = false;
        let record = std::mem::take(&mut request.record);
        (self.volume.counters()).end(request.direction, bytes, &record);
        self.free.push(slot);
    }

    /// Starts to read `len` bytes of plaintext from `offset`, at most as many as the slot was taken for.
    pub fn start_read(&mut self, slot: Slot, offset: u64, len: usize) {
        self.begin(&slot, Direction::Read, len);
        let other = self.enter();
        let record = &mut self.requests_by_slot[slot.0].record;
        if let Some(other) = other {
            let call =
                |buffer: &mut [u8]| other.read_from_targets(offset, &mut buffer[..len], record);
            return self.engine.run_by_call(slot, len, call);
        }
        self.engine.begin_read(slot, offset, len, record);
    }

    /// Starts to write plaintext at `offset`, at most as many bytes as the slot was taken for. It is encrypted on its
    /// way into the slot, or where it lies: `data` may have been overwritten with ciphertext afterwards.
    pub fn start_write(&mut self, slot: Slot, offset: u64, data: &mut [u8]) {
        self.begin(&slot, Direction::Write, data.len());
        let other = self.enter();
        let record = &mut self.requests_by_slot[slot.0].record;
        if let Some(other) = other {
            self.has_written_elsewhere = true;
            let call =
                |_: &mut [u8]| other.write_to_targets(offset, data, Durability::Cached, record);
            return self.engine.run_by_call(slot, 0, call);
        }
        self.engine.begin_write(slot, offset, data, record);
    }

    /// Starts to write the first `len` bytes of `data`: without a copy if they are more than [`SLOT`] and the length of
    /// `data` is [`Lengths::longest`], since `data` is exchanged for another buffer of that length then. Otherwise as
    /// [`start_write`](Self::start_write): a slot for short requests never keeps a long buffer.
    pub fn start_write_of(&mut self, slot: Slot, offset: u64, data: &mut DataBuffer, len: usize) {
        let is_long = len > SLOT && data.len() == self.lengths.longest;
        if is_long
            && self.try_begin()
            && let Some(pool) = self.engine.pool()
        {
            let request = &mut self.requests_by_slot[slot.0];
            *request = SlotRequest::begun(self.volume, Direction::Write, len);
            return pool.hand_over_write_of(slot, offset, data, len, &mut request.record);
        }
        self.start_write(slot, offset, &mut data[..len]);
    }

    /// Makes all writes of this queue that have ended durable, while others may be in flight. It flushes the storage
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
        let record = &mut self.requests_by_slot[slot.0].record;
        self.engine.collect(slot, into, record);
    }

    /// Returns the plaintext of a successful read, where it lies in the slot as plaintext.
    #[must_use]
    pub fn plaintext(&self, slot: &Slot) -> Option<&[u8]> {
        let len = self.requests_by_slot[slot.0].len;
        self.engine.plaintext(slot)?.get(..len)
    }

    /// Submits the requests that were started.
    ///
    /// # Errors
    /// When the system fails the queue itself.
    pub fn submit(&mut self) -> io::Result<()> {
        self.engine.submit_started()
    }

    /// Returns the next request that has ended, if there is one.
    pub fn next_completion(&mut self) -> Option<Completion> {
        let (completion, record) = self.engine.next_completion()?;
        let request = &mut self.requests_by_slot[completion.slot.0];
        request.is_ok = completion.result.is_ok();
        match record {
            Some(record) => request.record.add(&record),
            None => request.record.trace.mark(Stage::Backend),
        }
        Some(completion)
    }

    /// Waits until a request has ended, a watched file can be read from, or a signal came.
    ///
    /// # Errors
    /// When the system fails the queue itself.
    pub fn wait(&mut self) -> io::Result<()> {
        self.leave_if_idle();
        let is_idle = self.is_idle();
        self.engine.wait(is_idle)
    }

    /// Waits until a request has ended, or a signal came; not for watched files.
    ///
    /// # Errors
    /// When the system fails the queue itself.
    pub fn wait_for_completion(&mut self) -> io::Result<()> {
        self.engine.wait_for_completion()
    }

    /// Waits until every request has ended. Any later call of the queue, such as a flush, may take a lock or a
    /// pass again, and ends the proof.
    ///
    /// # Errors
    /// When the system fails the queue itself: the requests in flight then stay so.
    pub fn settle(&mut self) -> io::Result<Settled<'_>> {
        self.engine.settle()?;
        self.leave_if_idle();
        self.engine.resume_panic();
        Ok(Settled {
            retired: Some(self.mapping.retired()),
        })
    }

    /// Returns whether [`take`](Self::take) has a slot to give.
    #[must_use]
    pub fn has_free_slot(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns whether [`take_long`](Self::take_long) has a slot to give.
    #[must_use]
    pub fn has_free_long_slot(&self) -> bool {
        self.free.iter().any(|slot| slot.0 < LONG_SLOTS)
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
        if self.engine.in_flight() == 0 {
            self.pass = None;
        }
    }

    fn begin(&mut self, slot: &Slot, direction: Direction, len: usize) {
        self.requests_by_slot[slot.0] = SlotRequest::begun(self.volume, direction, len);
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

impl Drop for Queue<'_> {
    /// Waits until no request is in flight on a table that other threads may take away.
    fn drop(&mut self) {
        if self.engine.settle().is_err() {
            // What the system has left in flight keeps it.
            std::mem::forget(self.pass.take());
        }
        // No caller has asked for the results of these.
        for request in self
            .requests_by_slot
            .iter()
            .filter(|request| request.is_counted)
        {
            (self.volume.counters()).end(request.direction, None, &request.record);
        }
    }
}
