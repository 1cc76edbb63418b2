//! The queued path: dm-crypt's queues, thread for thread (`drivers/md/dm-crypt.c`, Linux 5.9 and later).
//!
//! ```text
//! read    requester → kcryptd_io: storage → kcryptd: decrypt → requester
//! write   requester → kcryptd: encrypt → dmcrypt_write: storage, by sector → requester
//! ```
//!
//! - `same_cpu_crypt`: `kcryptd` has a thread bound to each processor, and a request stays on the one
//!   where it was made. Otherwise any thread takes it.
//! - `submit_from_crypt_cpus`: the thread that encrypts also writes; nothing is sorted.
//! - `high_priority`: the threads ask for the highest priority, which few users are given.
//! - A cipher in `cryptd(…)` hands requests on to a queue of its own, `cryptd`, as the asynchronous
//!   drivers of the kernel did.
//!
//! Where the storage is waited for, `dmcrypt_write` only sees to the order: the waiting is done by the
//! threads of `kcryptd_io`, since the kernel waits for no write either.

mod sorted;

use std::io;
use std::sync::Arc;

use scrim_backend::Medium;

use sorted::SortedList;

use super::job_list::{JobList, WorkerThreads};
use super::processors;
use super::request::Request;
use super::sector_job::SectorJob;
use crate::crypt_target::CryptTarget;
use crate::data_path::Direction;
use crate::error::VolumeError;
use crate::stats::Record;
use crate::table::CryptOptions;

/// Most bytes of one job, like the pieces that a kernel's block layer makes of long requests. A power of two.
pub(crate) const JOB: usize = 128 << 10;

/// Number of `kcryptd_io` threads for storage that requests wait for.
const WAITERS: usize = if cfg!(all(test, shuttle)) { 2 } else { 16 };

/// The queues of one target, and their threads.
pub(crate) struct Kcryptd {
    queues: Arc<Queues>,
    threads: WorkerThreads,
}

struct Queues {
    /// Jobs of `kcryptd_io`, which reads.
    io: JobList<SectorJob>,
    /// `kcryptd`: one list, or one for each processor.
    crypt: Vec<CryptList>,
    /// `cryptd`, where the cipher asks for it.
    cryptd: Option<JobList<SectorJob>>,
    /// `dmcrypt_write`, if writes are sorted.
    write: Option<SortedList>,
    /// True if requests wait for the storage.
    waits: bool,
    high_priority: bool,
}

struct CryptList {
    /// The processor that its thread is bound to.
    bound_to: Option<usize>,
    jobs: JobList<SectorJob>,
}

impl Kcryptd {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub(crate) fn start(options: &CryptOptions, target: &CryptTarget) -> io::Result<Self> {
        let waits = matches!(
            target.backend.medium(),
            Medium::Remote { .. } | Medium::File { cached: None, .. }
        );
        let bindings = if options.same_cpu_crypt {
            processors::all().into_iter().map(Some).collect()
        } else {
            vec![None]
        };
        let crypt = bindings.into_iter().map(|bound_to| CryptList {
            bound_to,
            jobs: JobList::new(),
        });
        let mut started = Self {
            queues: Arc::new(Queues {
                io: JobList::new(),
                crypt: crypt.collect(),
                cryptd: target.asynchronous.then(JobList::new),
                write: (!options.submit_from_crypt_cpus).then(SortedList::new),
                waits,
                high_priority: options.high_priority,
            }),
            threads: WorkerThreads::default(),
        };
        started.spawn_all()?;
        Ok(started)
    }

    fn spawn_all(&mut self) -> io::Result<()> {
        let processors = processors::all().len();
        let queues = Arc::clone(&self.queues);
        let readers = if queues.waits { WAITERS } else { processors };
        for _ in 0..readers {
            self.spawn("kcryptd_io", Queues::serve_io)?;
        }
        for index in 0..queues.crypt.len() {
            let threads = if queues.crypt.len() > 1 {
                1
            } else {
                processors
            };
            for _ in 0..threads {
                self.spawn("kcryptd", move |queues| queues.serve_crypt(index))?;
            }
        }
        if queues.cryptd.is_some() {
            for _ in 0..processors {
                self.spawn("cryptd", Queues::serve_cryptd)?;
            }
        }
        if queues.write.is_some() {
            self.spawn("dmcrypt_write", Queues::serve_writes)?;
        }
        Ok(())
    }

    fn spawn(
        &mut self,
        name: &str,
        serve: impl FnOnce(&Queues) + Send + 'static,
    ) -> io::Result<()> {
        let queues = Arc::clone(&self.queues);
        self.threads.spawn(name, move || {
            if queues.high_priority {
                processors::hurry();
            }
            serve(&queues);
        })
    }

    /// Starts a job, which will end in its completion queue.
    pub(crate) fn enqueue(&self, job: SectorJob) {
        match job.direction {
            Direction::Read => {
                self.queues.io.push(job);
            }
            Direction::Write => self.queues.push_to_kcryptd(job),
        }
    }

    /// Carries out a request whose requester waits for it.
    pub(super) fn run_queued(
        &self,
        request: Request<'_>,
        record: &mut Record,
    ) -> Result<(), VolumeError> {
        request.in_jobs(JOB, record, |jobs, completions, record| {
            let all = jobs.len();
            jobs.into_iter().for_each(|job| self.enqueue(job));
            completions.wait_for(all, record)
        })
    }
}

impl Drop for Kcryptd {
    fn drop(&mut self) {
        self.queues.end();
    }
}

impl Queues {
    fn push_to_kcryptd(&self, job: SectorJob) {
        let here = if self.crypt.len() > 1 {
            processors::here()
        } else {
            0
        };
        let list = self.crypt.iter().find(|list| list.bound_to == Some(here));
        // A processor that the process has been moved to since has no list of its own.
        if let Some(list) = list.or(self.crypt.first()) {
            list.jobs.push(job);
        }
    }

    fn serve_io(&self) {
        while let Some(mut job) = self.io.next() {
            job.arrive();
            let direction = job.direction;
            match (direction, job.fetch_or_store()) {
                (Direction::Read, Some(job)) => self.push_to_kcryptd(job),
                (Direction::Write, Some(job)) => job.end(Ok(Ok(()))),
                (_, None) => {}
            }
        }
    }

    fn serve_crypt(&self, index: usize) {
        let list = &self.crypt[index];
        if let Some(processor) = list.bound_to {
            processors::bind_to(processor);
        }
        while let Some(mut job) = list.jobs.next() {
            job.arrive();
            match &self.cryptd {
                Some(cryptd) => {
                    cryptd.push(job);
                }
                None => self.encrypt_or_decrypt(job),
            }
        }
    }

    fn serve_cryptd(&self) {
        while let Some(mut job) = self.cryptd.as_ref().and_then(JobList::next) {
            job.arrive();
            self.encrypt_or_decrypt(job);
        }
    }

    fn encrypt_or_decrypt(&self, job: SectorJob) {
        let Some(job) = job.encrypt_or_decrypt() else {
            return;
        };
        match (job.direction, &self.write) {
            (Direction::Read, _) => job.end(Ok(Ok(()))),
            (Direction::Write, Some(sorted)) => sorted.push(job),
            (Direction::Write, None) => self.write_and_end(job),
        }
    }

    fn serve_writes(&self) {
        while let Some(jobs) = self.write.as_ref().and_then(SortedList::take) {
            for mut job in jobs {
                job.arrive();
                if self.waits {
                    self.io.push(job);
                } else {
                    self.write_and_end(job);
                }
            }
        }
    }

    fn write_and_end(&self, job: SectorJob) {
        if let Some(job) = job.fetch_or_store() {
            job.end(Ok(Ok(())));
        }
    }

    fn end(&self) {
        self.io.end();
        for list in &self.crypt {
            list.jobs.end();
        }
        if let Some(cryptd) = &self.cryptd {
            cryptd.end();
        }
        if let Some(write) = &self.write {
            write.end();
        }
    }
}
