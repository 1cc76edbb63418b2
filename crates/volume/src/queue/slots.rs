//! The slots of a queue whose requests are carried out by other threads.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::resume_unwind;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use scrim_sys::memory::DataBuffer;

use super::{Completion, SLOT, SLOTS, Slot};
use crate::VolumeError;
use crate::path::handover::{Finished, Home, Room};
use crate::stats::{Record, Stage};

/// Most files that can be watched.
const WATCHED: usize = 4;

pub(super) struct Slots<'v> {
    /// Completion queue to which the threads give ended jobs.
    pub(super) home: Arc<Home>,
    watched: Vec<BorrowedFd<'v>>,
    /// Buffers by slot; `None` while a thread has it.
    buffers: Vec<Option<DataBuffer>>,
    under_way: usize,
    /// Empty list with capacity for ended jobs: it is exchanged for the list that the threads have filled.
    reaped: Vec<Finished>,
    /// Payload of the last panic of a thread.
    panic: Option<Box<dyn Any + Send>>,
    /// Completions, with the record of the thread that carried the request out.
    done: VecDeque<(Completion, Option<Record>)>,
}

impl<'v> Slots<'v> {
    pub(super) fn new(watched: &[BorrowedFd<'v>]) -> io::Result<Self> {
        if watched.len() > WATCHED {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self {
            home: Arc::new(Home::with_bell(SLOTS)?),
            watched: watched.to_vec(),
            buffers: (0..SLOTS).map(|_| None).collect(),
            under_way: 0,
            reaped: Vec::with_capacity(SLOTS),
            panic: None,
            done: VecDeque::with_capacity(SLOTS),
        })
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Hands out the slot's memory, for a thread; `None` if there is not enough memory for it, which has
    /// ended the request.
    pub(super) fn hand_out(&mut self, slot: Slot, len: usize) -> Option<Room> {
        let buffer = self.buffers[slot.0].take();
        let Some(buffer) = buffer.or_else(|| DataBuffer::try_zeroed(SLOT)) else {
            self.end(
                slot,
                Err(VolumeError::Queue(io::ErrorKind::OutOfMemory.into())),
            );
            return None;
        };
        self.under_way += 1;
        Some(Room::Own(buffer, len))
    }

    /// Ends a request by a call, which is given the slot's memory.
    pub(super) fn carry_out(
        &mut self,
        slot: Slot,
        call: impl FnOnce(&mut [u8]) -> Result<(), VolumeError>,
    ) {
        let index = slot.0;
        let Some(Room::Own(mut buffer, _)) = self.hand_out(slot, SLOT) else {
            return;
        };
        self.under_way -= 1;
        let result = call(&mut buffer);
        self.buffers[index] = Some(buffer);
        self.end(Slot(index), result);
    }

    pub(super) fn collect(&mut self, slot: &Slot, into: &mut [u8], record: &mut Record) {
        if let Some(buffer) = &self.buffers[slot.0] {
            into.copy_from_slice(&buffer[..into.len()]);
            record.copied_bytes += into.len();
        }
    }

    pub(super) fn next_completion(&mut self) -> Option<(Completion, Option<Record>)> {
        self.done.pop_front()
    }

    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.reap();
        if self.done.is_empty() {
            self.listen(&self.watched)?;
            self.reap();
        }
        self.pass_on_panic();
        Ok(())
    }

    pub(super) fn wait_for_completion(&mut self) -> io::Result<()> {
        self.reap();
        if self.done.is_empty() && self.under_way > 0 {
            self.listen(&[])?;
            self.reap();
        }
        self.pass_on_panic();
        Ok(())
    }

    /// Waits until no request is in flight. A panic waits for [`pass_on_panic`](Self::pass_on_panic).
    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.reap();
        while self.under_way > 0 {
            self.listen(&[])?;
            self.reap();
        }
        Ok(())
    }

    /// Waits for the notifier, which may tell of jobs that have been taken already, or for a file.
    fn listen(&self, watched: &[BorrowedFd<'_>]) -> io::Result<()> {
        let Some(bell) = self.home.bell() else {
            return Ok(());
        };
        // In the places that are left over the bell again.
        let mut sources: [PollFd<'_>; WATCHED + 1] = std::array::from_fn(|at| {
            let file = watched.get(at).unwrap_or(&bell);
            PollFd::from_borrowed_fd(*file, PollFlags::IN)
        });
        match poll(&mut sources[..=watched.len()], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !sources[watched.len()].revents().is_empty() {
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
        Ok(())
    }

    fn reap(&mut self) {
        if self.under_way == 0 {
            return;
        }
        self.home.take(&mut self.reaped);
        for Finished {
            tag,
            room,
            result,
            mut record,
        } in self.reaped.drain(..)
        {
            self.under_way -= 1;
            if let Room::Own(buffer, _) = room {
                self.buffers[tag] = Some(buffer);
            }
            match result {
                Ok(result) => {
                    record.trace.mark(Stage::Waiting);
                    let slot = Slot(tag);
                    self.done
                        .push_back((Completion { slot, result }, Some(record)));
                }
                Err(cause) => self.panic = Some(cause),
            }
        }
    }

    /// Resumes a panic where it would have been without another thread, once all jobs that came with it are counted.
    pub(super) fn pass_on_panic(&mut self) {
        if let Some(cause) = self.panic.take() {
            resume_unwind(cause);
        }
    }

    fn end(&mut self, slot: Slot, result: Result<(), VolumeError>) {
        self.done.push_back((Completion { slot, result }, None));
    }
}
