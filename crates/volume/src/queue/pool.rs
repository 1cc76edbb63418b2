//! Threads of one queue, for storage that requests wait for and that a ring cannot reach.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use scrim_backend::Durability;

use super::slot::SLOTS;
use crate::data_path::Direction;
use crate::mapping::Mapping;
use crate::path::completion::{CompletionQueue, FinishedJob, JobBuffer};
use crate::path::job_list::{JobList, WorkerThreads};
use crate::stats::{Record, Stage};

/// Most threads of a pool: one for each request that a queue has in flight.
const THREADS: usize = SLOTS;

pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: WorkerThreads,
}

/// State that the threads share with the queue.
struct Shared {
    mapping: Arc<Mapping>,
    jobs: JobList<PoolJob>,
    completions: Arc<CompletionQueue>,
}

/// A request on its way to a thread of the pool.
pub(super) struct PoolJob {
    pub(super) slot: usize,
    pub(super) direction: Direction,
    /// Offset in the volume, in bytes.
    pub(super) offset: u64,
    pub(super) buffer: JobBuffer,
    pub(super) record: Record,
}

impl Pool {
    /// Starts a pool with one thread; others come when they are needed.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(
        mapping: &Arc<Mapping>,
        completions: &Arc<CompletionQueue>,
    ) -> io::Result<Self> {
        let mut pool = Self {
            shared: Arc::new(Shared {
                mapping: Arc::clone(mapping),
                jobs: JobList::new(),
                completions: Arc::clone(completions),
            }),
            threads: WorkerThreads::default(),
        };
        pool.spawn()?;
        Ok(pool)
    }

    pub(super) fn enqueue(&mut self, job: PoolJob) {
        let enough = self.shared.jobs.push(job);
        if !enough && self.threads.count() < THREADS {
            // Those that are there will do it, only later.
            let _ = self.spawn();
        }
    }

    fn spawn(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let serve = move || {
            while let Some(job) = shared.jobs.next() {
                let finished = job.call_mapping(&shared.mapping);
                shared.completions.complete(finished);
            }
        };
        self.threads.spawn("storage", serve)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.jobs.end();
    }
}

impl PoolJob {
    fn call_mapping(self, mapping: &Mapping) -> FinishedJob {
        let Self {
            slot,
            direction,
            offset,
            mut buffer,
            mut record,
        } = self;
        record.handovers += 1;
        record.trace.mark(Stage::Waiting);
        // The mapping's own data cannot be left half changed: it has none but locks.
        let result = catch_unwind(AssertUnwindSafe(|| match direction {
            Direction::Read => mapping.read_from_targets(offset, &mut buffer, &mut record),
            Direction::Write => {
                mapping.write_to_targets(offset, &mut buffer, Durability::Cached, &mut record)
            }
        }));
        FinishedJob {
            tag: slot,
            buffer,
            result,
            record,
        }
    }
}
