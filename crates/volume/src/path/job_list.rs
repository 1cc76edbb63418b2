//! Jobs that wait for workers, and the workers.

use std::collections::VecDeque;
use std::io;

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError, thread};

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

/// Threads that carry out jobs. Dropping it waits until all have ended, so its owner ends their lists first.
#[derive(Default)]
pub(crate) struct WorkerThreads(Vec<thread::JoinHandle<()>>);

impl WorkerThreads {
    /// Starts one more thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned());
        self.0.push(thread.stack_size(STACK).spawn(work)?);
        Ok(())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

impl Drop for WorkerThreads {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // A panic has gone to the requester.
            let _ = thread.join();
        }
    }
}
