//! Long requests, carried out by the requester and idle processors together.
//!
//! A long request is cut, and the requester goes through the pieces, one after the other. So do helpers that it
//! has woken. Where no helper comes, because no processor is idle after all, the requester has lost a microsecond;
//! where one comes late, the requester has less to do from then on. The shares need not be guessed beforehand.
//!
//! Each helper stays on a processor of its own, and the requester calls those of other processors than the one it
//! is on: the kernel, left to itself, likes to wake a thread next to the one that called it, where nothing is
//! gained.

use std::collections::VecDeque;
use std::sync::Arc;

use super::job_list::{JobList, WorkerThreads};
use super::processors;
use super::request::Request;
use super::sector_job::SectorJob;
use crate::error::VolumeError;
use crate::stats::Record;
use crate::sync::{AtomicUsize, Mutex, OnceLock, Ordering, PoisonError, thread};

/// Requests of this many bytes and more are split: they take some ten times as long as waking a helper.
const LONG: usize = if cfg!(all(test, shuttle)) {
    1024
} else {
    512 << 10
};

/// Number of bytes that a thread goes through at a time. A power of two.
const PIECE: usize = if cfg!(all(test, shuttle)) {
    512
} else {
    128 << 10
};

/// Most helpers of one target.
const HELPERS: usize = 16;

#[derive(Default)]
pub(crate) struct Splitter {
    /// Helpers, which start with the first long request.
    helpers: OnceLock<Helpers>,
    /// Number of long requests in flight.
    long: AtomicUsize,
}

struct Helpers {
    /// Calls of the helpers, one for each processor.
    lists: Vec<Calls>,
    threads: WorkerThreads,
}

/// Requests to which the helper of a processor is called.
struct Calls {
    processor: usize,
    list: Arc<JobList<Arc<Pieces>>>,
}

/// Pieces of a request that no thread has begun.
struct Pieces(Mutex<VecDeque<SectorJob>>);

/// A long request in flight.
struct Long<'a>(&'a AtomicUsize);

impl Splitter {
    pub(super) fn is_for(&self, len: usize) -> bool {
        len >= LONG
    }

    /// Carries out a request whose requester waits for it.
    pub(super) fn run_split(
        &self,
        request: Request<'_>,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        let long = Long::begin(&self.long);
        let idle = self.idle(&long);
        if idle == 0 {
            return request.run_inline(record);
        }
        record.split = true;
        request.in_jobs(PIECE, record, |jobs, completions, record| {
            let all = jobs.len();
            let pieces = Arc::new(Pieces(Mutex::new(jobs)));
            self.call(&pieces, idle.min(all.saturating_sub(1)));
            let (mut mine, mut result) = (0, Ok(()));
            while let Some(mut job) = pieces.next() {
                mine += 1;
                let ended = job.run_whole();
                record.add(&job.record);
                result = result.and(ended);
                // Another thread with a short request may have waited for the processor.
                thread::yield_now();
            }
            result.and(completions.wait_for(all - mine, record))
        })
    }

    /// Returns the number of processors, of those with a helper, on which no long request is being carried out.
    fn idle(&self, long: &Long<'_>) -> usize {
        let helpers = self.helpers.get_or_init(Helpers::spawn_all);
        helpers.threads.count().saturating_sub(long.all())
    }

    fn call(&self, pieces: &Arc<Pieces>, helpers: usize) {
        let here = processors::here();
        let all = self.helpers.get().map_or(&[][..], |there| &there.lists);
        let elsewhere = all.iter().filter(|calls| calls.processor != here);
        for calls in elsewhere.take(helpers) {
            calls.list.push(Arc::clone(pieces));
        }
    }
}

impl Helpers {
    /// Starts one helper for each processor, or fewer if the system does not give that many threads.
    fn spawn_all() -> Self {
        // On a panic its drop ends the lists before it waits for the threads.
        let mut helpers = Self {
            lists: Vec::new(),
            threads: WorkerThreads::default(),
        };
        for processor in processors::all().into_iter().take(HELPERS) {
            let list = Arc::new(JobList::<Arc<Pieces>>::new());
            let calls = Arc::clone(&list);
            helpers.lists.push(Calls { processor, list });
            let help = move || {
                processors::bind_to(processor);
                while let Some(pieces) = calls.next() {
                    pieces.help();
                }
            };
            if helpers.threads.spawn("scrim-split", help).is_err() {
                helpers.lists.pop();
                break;
            }
        }
        helpers
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        for calls in &self.lists {
            calls.list.end();
        }
    }
}

impl Pieces {
    fn next(&self) -> Option<SectorJob> {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.pop_front()
    }

    fn help(&self) {
        while let Some(mut job) = self.next() {
            job.arrive();
            if let Some(job) = job.read_or_write() {
                job.end(Ok(Ok(())));
            }
            thread::yield_now();
        }
    }
}

impl<'a> Long<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }

    /// Returns the number of long requests in flight, this one included.
    fn all(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Long<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
