//! Requests by a crew of threads, for storage that requests wait for and that a ring cannot reach.

use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use scrim_backend::Durability;

use super::Slot;
use super::slots::Slots;
use crate::Mapping;
use crate::data_path::Direction;
use crate::path::handover::{Finished, Home, JobList, Room, hire};
use crate::stats::{Record, Stage};
use crate::sync::thread;

/// Most threads of a crew: as many requests are in flight at the storage.
const CREW: usize = 16;

pub(super) struct CrewQueue<'v> {
    pub(super) slots: Slots<'v>,
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// State that the threads share with the queue.
struct Shared {
    mapping: Arc<Mapping>,
    jobs: JobList<Job>,
    home: Arc<Home>,
}

struct Job {
    slot: usize,
    direction: Direction,
    offset: u64,
    room: Room,
    record: Record,
}

impl<'v> CrewQueue<'v> {
    pub(super) fn new(mapping: &Arc<Mapping>, watched: &[BorrowedFd<'v>]) -> io::Result<Self> {
        let slots = Slots::new(watched)?;
        let shared = Arc::new(Shared {
            mapping: Arc::clone(mapping),
            jobs: JobList::new(),
            home: Arc::clone(&slots.home),
        });
        let mut queue = Self {
            slots,
            shared,
            threads: Vec::new(),
        };
        queue.hire()?;
        Ok(queue)
    }

    pub(super) fn read(&mut self, slot: Slot, offset: u64, len: usize, record: &Record) {
        let index = slot.0;
        if let Some(room) = self.slots.hand_out(slot, len) {
            self.start(index, Direction::Read, offset, room, record.part());
        }
    }

    pub(super) fn write(&mut self, slot: Slot, offset: u64, data: &[u8], record: &mut Record) {
        let index = slot.0;
        if let Some(mut room) = self.slots.hand_out(slot, data.len()) {
            room.copy_from_slice(data);
            record.copied_bytes += data.len();
            self.start(index, Direction::Write, offset, room, record.part());
        }
    }

    fn start(
        &mut self,
        slot: usize,
        direction: Direction,
        offset: u64,
        room: Room,
        record: Record,
    ) {
        let enough = self.shared.jobs.push(Job {
            slot,
            direction,
            offset,
            room,
            record,
        });
        if !enough && self.threads.len() < CREW {
            // Those that are there will do it, only later.
            let _ = self.hire();
        }
    }

    fn hire(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let serve = move || {
            while let Some(job) = shared.jobs.next() {
                shared.home.bring(job.carry_out(&shared.mapping));
            }
        };
        self.threads.push(hire("storage", serve)?);
        Ok(())
    }
}

impl Drop for CrewQueue<'_> {
    fn drop(&mut self) {
        self.shared.jobs.end();
        for thread in self.threads.drain(..) {
            // One that panicked has nothing more to give.
            let _ = thread.join();
        }
    }
}

impl Job {
    fn carry_out(self, mapping: &Mapping) -> Finished {
        let Self {
            slot,
            direction,
            offset,
            mut room,
            mut record,
        } = self;
        record.handovers += 1;
        record.trace.mark(Stage::Waiting);
        // The mapping's own data cannot be left half changed: it has none but locks.
        let result = catch_unwind(AssertUnwindSafe(|| match direction {
            Direction::Read => mapping.read_from_targets(offset, &mut room, &mut record),
            Direction::Write => {
                mapping.write_to_targets(offset, &mut room, Durability::Cached, &mut record)
            }
        }));
        Finished {
            tag: slot,
            room,
            result,
            record,
        }
    }
}
