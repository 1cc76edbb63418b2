//! Requests by a crew of threads, for storage that is waited for and that a ring cannot reach.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use scrim_backend::Durability;
use scrim_sys::memory::DataBuffer;

use super::{Completion, SLOT, SLOTS, Slot};
use crate::{Volume, VolumeError};

/// Most threads of a crew: as many requests are under way at the storage.
const CREW: usize = 16;
/// Stack of each, in bytes.
const STACK: usize = 256 << 10;

pub(super) struct CrewQueue<'v> {
    shared: Arc<Shared>,
    watched: Vec<BorrowedFd<'v>>,
    threads: Vec<JoinHandle<()>>,
    /// By slot; `None` while a thread has it.
    buffers: Vec<Option<DataBuffer>>,
    under_way: usize,
    pub(super) done: VecDeque<Completion>,
}

/// What the threads share with the queue.
struct Shared {
    volume: Arc<Volume>,
    work: Mutex<Work>,
    /// Told of each job, and of the end.
    more: Condvar,
    /// Readable when there are finished jobs.
    bell: OwnedFd,
}

#[derive(Default)]
struct Work {
    jobs: VecDeque<Job>,
    finished: Vec<Finished>,
    idle: usize,
    ended: bool,
}

struct Job {
    slot: usize,
    offset: u64,
    len: usize,
    is_write: bool,
    buffer: DataBuffer,
}

struct Finished {
    slot: usize,
    buffer: DataBuffer,
    /// What a panic left, or the result.
    result: thread::Result<Result<(), VolumeError>>,
}

impl<'v> CrewQueue<'v> {
    pub(super) fn new(volume: &Arc<Volume>, watched: &[BorrowedFd<'v>]) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            volume: Arc::clone(volume),
            work: Mutex::default(),
            more: Condvar::new(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let mut queue = Self {
            shared,
            watched: watched.to_vec(),
            threads: Vec::new(),
            buffers: (0..SLOTS).map(|_| None).collect(),
            under_way: 0,
            done: VecDeque::with_capacity(SLOTS),
        };
        queue.hire()?;
        Ok(queue)
    }

    pub(super) fn read(&mut self, slot: Slot, offset: u64, len: usize) {
        self.start(slot, offset, len, |_| false);
    }

    pub(super) fn write(&mut self, slot: Slot, offset: u64, data: &[u8]) {
        self.start(slot, offset, data.len(), |buffer| {
            buffer[..data.len()].copy_from_slice(data);
            true
        });
    }

    pub(super) fn collect(&mut self, slot: &Slot, into: &mut [u8]) {
        if let Some(buffer) = &self.buffers[slot.0] {
            into.copy_from_slice(&buffer[..into.len()]);
        }
    }

    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.reap();
        if self.done.is_empty() {
            self.listen(&self.watched)?;
            self.reap();
        }
        Ok(())
    }

    pub(super) fn wait_for_completion(&mut self) -> io::Result<()> {
        self.reap();
        if self.done.is_empty() && self.under_way > 0 {
            self.listen(&[])?;
            self.reap();
        }
        Ok(())
    }

    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.reap();
        while self.under_way > 0 {
            self.listen(&[])?;
            self.reap();
        }
        Ok(())
    }

    /// Waits for the bell, which may ring for what has been fetched already, or for a file.
    fn listen(&self, watched: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bell = self.shared.bell.as_fd();
        let mut sources: Vec<_> = std::iter::once(&bell)
            .chain(watched)
            .map(|source| PollFd::from_borrowed_fd(*source, PollFlags::IN))
            .collect();
        match poll(&mut sources, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !sources[0].revents().is_empty() {
            let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        }
        Ok(())
    }

    /// `prepare` fills the buffer, and says whether it is to be written.
    fn start(
        &mut self,
        slot: Slot,
        offset: u64,
        len: usize,
        prepare: impl FnOnce(&mut [u8]) -> bool,
    ) {
        let buffer = self.buffers[slot.0].take();
        let Some(mut buffer) = buffer.or_else(|| DataBuffer::try_zeroed(SLOT)) else {
            let result = Err(VolumeError::Queue(io::ErrorKind::OutOfMemory.into()));
            self.done.push_back(Completion { slot, result });
            return;
        };
        let job = Job {
            slot: slot.0,
            offset,
            len,
            is_write: prepare(&mut buffer),
            buffer,
        };
        let mut work = self.shared.lock();
        work.jobs.push_back(job);
        let enough = work.idle >= work.jobs.len();
        drop(work);
        self.shared.more.notify_one();
        self.under_way += 1;
        if !enough && self.threads.len() < CREW {
            // Those that are there will do it, only later.
            let _ = self.hire();
        }
    }

    fn hire(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new()
            .name("storage".to_owned())
            .stack_size(STACK)
            .spawn(move || shared.serve())?;
        self.threads.push(thread);
        Ok(())
    }

    fn reap(&mut self) {
        if self.under_way == 0 {
            return;
        }
        let finished = std::mem::take(&mut self.shared.lock().finished);
        for Finished {
            slot,
            buffer,
            result,
        } in finished
        {
            self.under_way -= 1;
            self.buffers[slot] = Some(buffer);
            // It goes on where it would have been without a crew.
            let result = result.unwrap_or_else(|panic| resume_unwind(panic));
            self.done.push_back(Completion {
                slot: Slot(slot),
                result,
            });
        }
    }
}

impl Drop for CrewQueue<'_> {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            // One that panicked has nothing more to give.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each thread does until the queue ends.
    fn serve(&self) {
        while let Some(job) = self.next_job() {
            let finished = self.run(job);
            self.lock().finished.push(finished);
            // Full is as good as rung.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut work = self.lock();
        loop {
            if work.ended {
                return None;
            }
            if let Some(job) = work.jobs.pop_front() {
                return Some(job);
            }
            work.idle += 1;
            work = self.more.wait(work).unwrap_or_else(PoisonError::into_inner);
            work.idle -= 1;
        }
    }

    fn run(&self, job: Job) -> Finished {
        let Job {
            slot,
            offset,
            len,
            is_write,
            mut buffer,
        } = job;
        let data = &mut buffer[..len];
        // The volume's own data cannot be left half changed: it has none but locks.
        let result = catch_unwind(AssertUnwindSafe(|| {
            if is_write {
                self.volume.write(offset, data, Durability::Cached)
            } else {
                self.volume.read(offset, data)
            }
        }));
        Finished {
            slot,
            buffer,
            result,
        }
    }
}
