//! The slots of a queue whose requests are carried out by workers.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::resume_unwind;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use scrim_sys::memory::DataBuffer;

use super::slot::{Completion, Lengths, SLOT, SLOTS, Slot};
use crate::error::VolumeError;
use crate::path::completion::{CompletionQueue, FinishedJob, JobBuffer};
use crate::stats::{Record, Stage};

/// Most files that can be watched.
const WATCHED: usize = 4;

/// Time for which an idle queue keeps its long buffers for the next requests, since fresh pages cost as much as a copy.
const KEPT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

pub(super) struct WorkerSlots<'v> {
    /// Completion queue of the workers.
    pub(super) completions: Arc<CompletionQueue>,
    watched: Vec<BorrowedFd<'v>>,
    lengths: Lengths,
    /// Buffers by slot, of [`SLOT`] or [`Lengths::longest`] bytes; `None` before the first request, and while a worker
    /// has it.
    buffers: Vec<Option<DataBuffer>>,
    in_flight: usize,
    /// Empty list with capacity for ended jobs: it is exchanged for the list that the workers have filled.
    reaped: Vec<FinishedJob>,
    /// Payload of the last panic of a worker.
    panic: Option<Box<dyn Any + Send>>,
    /// Completions, with the record of the worker that carried the request out.
    done: VecDeque<(Completion, Option<Record>)>,
}

impl<'v> WorkerSlots<'v> {
    pub(super) fn new(watched: &[BorrowedFd<'v>], lengths: Lengths) -> io::Result<Self> {
        if watched.len() > WATCHED {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self {
            completions: Arc::new(CompletionQueue::with_file_notifier(SLOTS)?),
            watched: watched.to_vec(),
            lengths,
            buffers: (0..SLOTS).map(|_| None).collect(),
            in_flight: 0,
            reaped: Vec::with_capacity(SLOTS),
            panic: None,
            done: VecDeque::with_capacity(SLOTS),
        })
    }

    pub(super) fn lengths(&self) -> Lengths {
        self.lengths
    }

    /// Returns the number of bytes of the buffers that no worker has.
    #[cfg(test)]
    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffers
            .iter()
            .flatten()
            .map(|buffer| buffer.len())
            .sum()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Hands out the slot's buffer for `len` bytes, for a worker; `None` if there is not enough memory for it, which
    /// has ended the request.
    pub(super) fn hand_out(&mut self, slot: Slot, len: usize) -> Option<JobBuffer> {
        let buffer = self.buffers[slot.0].take();
        let buffer = buffer.filter(|buffer| buffer.len() >= len);
        let allocate = || {
            DataBuffer::try_zeroed(if len <= SLOT {
                SLOT
            } else {
                self.lengths.longest
            })
        };
        let Some(buffer) = buffer.or_else(allocate) else {
            self.push_completion(
                slot,
                Err(VolumeError::Queue(io::ErrorKind::OutOfMemory.into())),
            );
            return None;
        };
        self.in_flight += 1;
        Some(JobBuffer::Owned(buffer, len))
    }

    /// Carries out a request by a call, which is given a buffer of at least `len` bytes.
    pub(super) fn run_by_call(
        &mut self,
        slot: Slot,
        len: usize,
        call: impl FnOnce(&mut [u8]) -> Result<(), VolumeError>,
    ) {
        let index = slot.0;
        let Some(JobBuffer::Owned(mut buffer, _)) = self.hand_out(slot, len) else {
            return;
        };
        self.in_flight -= 1;
        let result = call(&mut buffer);
        self.buffers[index] = Some(buffer);
        self.push_completion(Slot(index), result);
    }

    pub(super) fn collect(&mut self, slot: &Slot, into: &mut [u8], record: &mut Record) {
        if let Some(buffer) = &self.buffers[slot.0] {
            into.copy_from_slice(&buffer[..into.len()]);
            record.copied_bytes += into.len();
        }
    }

    /// Returns a slot's buffer. All that was read is plaintext in it.
    pub(super) fn plaintext(&self, slot: &Slot) -> Option<&[u8]> {
        self.buffers[slot.0].as_deref()
    }

    pub(super) fn next_completion(&mut self) -> Option<(Completion, Option<Record>)> {
        self.done.pop_front()
    }

    /// Waits as [`RunningEngine::wait`](super::engine::RunningEngine::wait) does.
    pub(super) fn wait(&mut self, is_idle: bool) -> io::Result<()> {
        self.reap();
        if self.done.is_empty() {
            let is_long = |buffer: &DataBuffer| buffer.len() > SLOT;
            let has_long = is_idle && self.buffers.iter().flatten().any(is_long);
            if !self.listen(&self.watched, has_long.then_some(&KEPT))? {
                for buffer in &mut self.buffers {
                    drop(buffer.take_if(|buffer| is_long(buffer)));
                }
                self.listen(&self.watched, None)?;
            }
            self.reap();
        }
        self.resume_panic();
        Ok(())
    }

    pub(super) fn wait_for_completion(&mut self) -> io::Result<()> {
        self.reap();
        if self.done.is_empty() && self.in_flight > 0 {
            self.listen(&[], None)?;
            self.reap();
        }
        self.resume_panic();
        Ok(())
    }

    /// Waits until no request is in flight. A panic waits for [`resume_panic`](Self::resume_panic).
    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.reap();
        while self.in_flight > 0 {
            self.listen(&[], None)?;
            self.reap();
        }
        Ok(())
    }

    /// Waits for the notifier, which may tell of jobs that have been taken already, or for a file. Returns `false` if
    /// nothing has come within `timeout`.
    fn listen(&self, watched: &[BorrowedFd<'_>], timeout: Option<&Timespec>) -> io::Result<bool> {
        let Some(notifier) = self.completions.notifier_file() else {
            return Ok(true);
        };
        // The notifier fills the places that are left over, too.
        let mut sources: [PollFd<'_>; WATCHED + 1] = std::array::from_fn(|at| {
            let file = watched.get(at).unwrap_or(&notifier);
            PollFd::from_borrowed_fd(*file, PollFlags::IN)
        });
        match poll(&mut sources[..=watched.len()], timeout) {
            Ok(0) => return Ok(false),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !sources[watched.len()].revents().is_empty() {
            let _ = rustix::io::read(notifier, &mut [0; 8]);
        }
        Ok(true)
    }

    fn reap(&mut self) {
        if self.in_flight == 0 {
            return;
        }
        self.completions.take(&mut self.reaped);
        for FinishedJob {
            tag,
            buffer,
            result,
            mut record,
        } in self.reaped.drain(..)
        {
            self.in_flight -= 1;
            if let JobBuffer::Owned(buffer, _) = buffer {
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
    pub(super) fn resume_panic(&mut self) {
        if let Some(cause) = self.panic.take() {
            resume_unwind(cause);
        }
    }

    fn push_completion(&mut self, slot: Slot, result: Result<(), VolumeError>) {
        self.done.push_back((Completion { slot, result }, None));
    }
}
