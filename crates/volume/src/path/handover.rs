//! What goes from one thread to another, and how.

use std::collections::VecDeque;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;

use rustix::event::{EventfdFlags, eventfd};
use scrim_sys::loan::Loan;
use scrim_sys::memory::DataBuffer;

use crate::VolumeError;
use crate::stats::{Record, Stage};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError, thread};

/// The memory of a job.
pub(crate) enum Room {
    /// That of a requester who waits.
    Lent(Loan),
    /// Memory of its own, and how much of it is used, in bytes.
    Own(DataBuffer, usize),
}

impl Deref for Room {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Lent(loan) => loan,
            Self::Own(buffer, len) => &buffer[..*len],
        }
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Lent(loan) => loan,
            Self::Own(buffer, len) => &mut buffer[..*len],
        }
    }
}

/// A job that has ended.
pub(crate) struct Finished {
    /// As its requester has numbered it.
    pub(crate) tag: usize,
    pub(crate) room: Room,
    /// What a panic left, or the result.
    pub(crate) result: std::thread::Result<Result<(), VolumeError>>,
    pub(crate) record: Record,
}

/// Where a requester finds the jobs that have ended.
pub(crate) struct Home {
    finished: Mutex<Vec<Finished>>,
    bell: Bell,
}

/// How a requester hears of them.
enum Bell {
    /// He waits for nothing else.
    Condition(Condvar),
    /// A file that can be read from once there are some.
    File(OwnedFd),
}

impl Home {
    /// Of a requester who waits for his jobs only.
    pub(crate) fn quiet() -> Self {
        Self {
            finished: Mutex::default(),
            bell: Bell::Condition(Condvar::new()),
        }
    }

    /// Of a requester who waits for other files as well, and has so many jobs at most.
    pub(crate) fn with_bell(jobs: usize) -> io::Result<Self> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            finished: Mutex::new(Vec::with_capacity(jobs)),
            bell: Bell::File(file),
        })
    }

    /// The file that can be read from once jobs have ended, where there is one.
    pub(crate) fn bell(&self) -> Option<BorrowedFd<'_>> {
        match &self.bell {
            Bell::Condition(_) => None,
            Bell::File(file) => Some(file.as_fd()),
        }
    }

    pub(crate) fn bring(&self, mut job: Finished) {
        job.record.handovers += 1;
        self.lock().push(job);
        match &self.bell {
            Bell::Condition(condition) => condition.notify_one(),
            // Full is as good as rung.
            Bell::File(file) => drop(rustix::io::write(file, &1u64.to_ne_bytes())),
        }
    }

    /// Exchanges an empty list for that of all that have ended and were not taken before.
    pub(crate) fn take(&self, empty: &mut Vec<Finished>) {
        std::mem::swap(&mut *self.lock(), empty);
    }

    /// All that have ended and were not taken before. Waits for one, where the bell is not a file.
    pub(crate) fn wait(&self) -> Vec<Finished> {
        let mut finished = self.lock();
        if let Bell::Condition(condition) = &self.bell {
            while finished.is_empty() {
                let waited = condition.wait(finished);
                finished = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
        std::mem::take(&mut *finished)
    }

    /// Waits for so many jobs, and adds up what became of them. The first failure counts; a panic goes
    /// on here, once none is under way.
    pub(crate) fn wait_for(&self, jobs: usize, record: &mut Record) -> Result<(), VolumeError> {
        let mut panic = None;
        let mut result = Ok(());
        let mut left = jobs;
        while left > 0 {
            for mut job in self.wait() {
                left -= 1;
                job.record.trace.mark(Stage::Waiting);
                record.add(&job.record);
                match job.result {
                    Ok(ended) => result = result.and(ended),
                    Err(cause) => panic = Some(cause),
                }
            }
        }
        match panic {
            Some(cause) => resume_unwind(cause),
            None => result,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Finished>> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Jobs that wait for a thread, the first to be done first.
pub(crate) struct JobList<J> {
    waiting: Mutex<Waiting<J>>,
    more: Condvar,
}

/// So many jobs need no more memory.
const USUAL: usize = 32;

struct Waiting<J> {
    jobs: VecDeque<J>,
    /// Threads that wait for one.
    idle: usize,
    ended: bool,
}

impl<J> JobList<J> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                jobs: VecDeque::with_capacity(USUAL),
                idle: 0,
                ended: false,
            }),
            more: Condvar::new(),
        }
    }

    /// Returns whether a thread waits for each job, so that no more of them are needed.
    pub(crate) fn push(&self, job: J) -> bool {
        let mut waiting = self.lock();
        waiting.jobs.push_back(job);
        let enough = waiting.idle >= waiting.jobs.len();
        drop(waiting);
        self.more.notify_one();
        enough
    }

    /// The next job, once there is one; `None` at the end.
    pub(crate) fn next(&self) -> Option<J> {
        let mut waiting = self.lock();
        loop {
            if waiting.ended {
                return None;
            }
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            waiting.idle += 1;
            waiting = self
                .more
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }

    /// Sends its threads home.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.more.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stack of a thread that carries out jobs, in bytes.
const STACK: usize = 256 << 10;

/// A thread that carries out jobs.
pub(crate) fn hire(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(STACK)
        .spawn(work)
}
