//! The completion queue of a thread that hands jobs over: each job that has ended comes back to it with its memory.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;

use rustix::event::{EventfdFlags, eventfd};
use scrim_sys::loan::Loan;
use scrim_sys::memory::DataBuffer;

use crate::error::VolumeError;
use crate::stats::{Record, Stage};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The memory that a job reads into or writes from.
pub(crate) enum JobBuffer {
    /// Memory of a requester that waits.
    Lent(Loan),
    /// Memory of its own, and how much of it is used, in bytes.
    Owned(DataBuffer, usize),
}

impl Deref for JobBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Lent(loan) => loan,
            Self::Owned(buffer, len) => &buffer[..*len],
        }
    }
}

impl DerefMut for JobBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Lent(loan) => loan,
            Self::Owned(buffer, len) => &mut buffer[..*len],
        }
    }
}

/// A job that has ended.
pub(crate) struct FinishedJob {
    /// Number that the requester has given it.
    pub(crate) tag: usize,
    pub(crate) buffer: JobBuffer,
    /// Result of the job, or the payload of its panic.
    pub(crate) result: std::thread::Result<Result<(), VolumeError>>,
    pub(crate) record: Record,
}

/// Completion queue of a requester: the jobs that have ended.
pub(crate) struct CompletionQueue {
    finished: Mutex<Vec<FinishedJob>>,
    notifier: Notifier,
}

/// Notifier that tells a requester of ended jobs.
enum Notifier {
    /// For a requester that waits for nothing else.
    Condition(Condvar),
    /// A file that is readable once jobs have ended.
    File(OwnedFd),
}

impl CompletionQueue {
    /// Creates the queue of a requester that waits for its jobs only.
    pub(crate) fn new() -> Self {
        Self {
            finished: Mutex::default(),
            notifier: Notifier::Condition(Condvar::new()),
        }
    }

    /// Creates the queue of a requester that waits for other files as well, and has at most `jobs` jobs.
    pub(crate) fn with_file_notifier(jobs: usize) -> io::Result<Self> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            finished: Mutex::new(Vec::with_capacity(jobs)),
            notifier: Notifier::File(file),
        })
    }

    /// Returns the file that is readable once jobs have ended, if the notifier is a file.
    pub(crate) fn notifier_file(&self) -> Option<BorrowedFd<'_>> {
        match &self.notifier {
            Notifier::Condition(_) => None,
            Notifier::File(file) => Some(file.as_fd()),
        }
    }

    pub(crate) fn complete(&self, mut job: FinishedJob) {
        job.record.handovers += 1;
        self.lock().push(job);
        match &self.notifier {
            Notifier::Condition(condition) => condition.notify_one(),
            // A counter that is full is readable, too.
            Notifier::File(file) => drop(rustix::io::write(file, &1u64.to_ne_bytes())),
        }
    }

    /// Exchanges an empty list for the list of all jobs that have ended and were not taken before.
    pub(crate) fn take(&self, empty: &mut Vec<FinishedJob>) {
        std::mem::swap(&mut *self.lock(), empty);
    }

    /// Returns all jobs that have ended and were not taken before. Waits for one, unless the notifier is a file.
    pub(crate) fn wait(&self) -> Vec<FinishedJob> {
        let mut finished = self.lock();
        if let Notifier::Condition(condition) = &self.notifier {
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

    fn lock(&self) -> MutexGuard<'_, Vec<FinishedJob>> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
