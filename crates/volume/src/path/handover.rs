//! Handover of jobs from one thread to another.

use std::collections::VecDeque;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;

use rustix::event::{EventfdFlags, eventfd};
use scrim_sys::loan::Loan;
use scrim_sys::memory::DataBuffer;

use crate::error::VolumeError;
use crate::stats::{Record, Stage};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError, thread};

/// The memory of a job.
pub(crate) enum Room {
    /// Memory of a requester that waits.
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
    /// Number that the requester has given it.
    pub(crate) tag: usize,
    pub(crate) room: Room,
    /// Result of the job, or the payload of its panic.
    pub(crate) result: std::thread::Result<Result<(), VolumeError>>,
    pub(crate) record: Record,
}

/// Completion queue of a requester: the jobs that have ended.
pub(crate) struct Home {
    finished: Mutex<Vec<Finished>>,
    bell: Bell,
}

/// Notifier that tells a requester of ended jobs.
enum Bell {
    /// For a requester that waits for nothing else.
    Condition(Condvar),
    /// A file that is readable once jobs have ended.
    File(OwnedFd),
}

impl Home {
    /// Creates the queue of a requester that waits for its jobs only.
    pub(crate) fn quiet() -> Self {
        Self {
            finished: Mutex::default(),
            bell: Bell::Condition(Condvar::new()),
        }
    }

    /// Creates the queue of a requester that waits for other files as well, and has at most `jobs` jobs.
    pub(crate) fn with_bell(jobs: usize) -> io::Result<Self> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            finished: Mutex::new(Vec::with_capacity(jobs)),
            bell: Bell::File(file),
        })
    }

    /// Returns the file that is readable once jobs have ended, if the notifier is a file.
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

    /// Exchanges an empty list for the list of all jobs that have ended and were not taken before.
    pub(crate) fn take(&self, empty: &mut Vec<Finished>) {
        std::mem::swap(&mut *self.lock(), empty);
    }

    /// Returns all jobs that have ended and were not taken before. Waits for one, unless the notifier is a file.
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

    /// Waits for `jobs` jobs, and adds up their records. The first failure is returned; a panic continues
    /// here, once no job is in flight.
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

/// Jobs that wait for a thread, in the order in which they are done.
pub(crate) struct JobList<J> {
    waiting: Mutex<Waiting<J>>,
    more: Condvar,
}

/// Number of waiting jobs up to which the list needs no more memory.
const USUAL: usize = 32;

struct Waiting<J> {
    jobs: VecDeque<J>,
    /// Number of threads that wait for a job.
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

    /// Takes the next job, once there is one; `None` at the end.
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

    /// Tells the list's threads to end.
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
