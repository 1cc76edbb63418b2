//! Jobs on their way to other threads and back again, with memory that their requester has lent.

use std::collections::VecDeque;
use std::sync::Arc;

use scrim_sys::loan::{Loan, lend};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

use super::{hold, is_found_out};
use crate::path::completion::{CompletionQueue, FinishedJob, JobBuffer};
use crate::path::job_list::JobList;
use crate::stats::Record;

const JOBS: usize = 4;

struct Job {
    tag: usize,
    loan: Loan,
    completions: Arc<CompletionQueue>,
}

impl Job {
    fn carry_out(mut self) {
        self.loan.fill(1);
        self.completions.complete(FinishedJob {
            tag: self.tag,
            buffer: JobBuffer::Lent(self.loan),
            result: Ok(Ok(())),
            record: Record::default(),
        });
    }
}

/// List in which jobs wait: the real one, or one with a fault.
trait List: Send + Sync + 'static {
    fn push(&self, job: Job);
    fn next(&self) -> Option<Job>;
    fn end(&self);
}

impl List for JobList<Job> {
    fn push(&self, job: Job) {
        self.push(job);
    }

    fn next(&self) -> Option<Job> {
        self.next()
    }

    fn end(&self) {
        self.end();
    }
}

/// Rings before anything is there.
#[derive(Default)]
struct RingsTooEarly {
    jobs: Mutex<(VecDeque<Job>, bool)>,
    more: Condvar,
}

impl List for RingsTooEarly {
    fn push(&self, job: Job) {
        self.more.notify_one();
        self.jobs.lock().unwrap().0.push_back(job);
    }

    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock().unwrap();
        loop {
            if let Some(job) = jobs.0.pop_front() {
                return Some(job);
            }
            if jobs.1 {
                return None;
            }
            jobs = self.more.wait(jobs).unwrap();
        }
    }

    fn end(&self) {
        self.jobs.lock().unwrap().1 = true;
        self.more.notify_all();
    }
}

/// Two requesters with two jobs each, and two threads that carry them out.
fn hand_over<L: List>(list: L) {
    let list = Arc::new(list);
    let workers = (0..2).map(|_| {
        let list = Arc::clone(&list);
        thread::spawn(move || std::iter::from_fn(|| list.next()).for_each(Job::carry_out))
    });
    let workers: Vec<_> = workers.collect();
    let requesters = (0..2).map(|_| {
        let list = Arc::clone(&list);
        thread::spawn(move || request(&*list))
    });
    let requesters: Vec<_> = requesters.collect();
    for thread in requesters {
        thread.join().unwrap();
    }
    list.end();
    for thread in workers {
        thread.join().unwrap();
    }
}

fn request<L: List>(list: &L) {
    let mut memory = [0; JOBS / 2];
    let mut record = Record::default();
    lend(&mut memory, |loan| {
        let completions = Arc::new(CompletionQueue::new());
        let mut rest = loan;
        for tag in 0..JOBS / 2 {
            let (loan, others) = rest.split_at(1);
            rest = others;
            let completions = Arc::clone(&completions);
            list.push(Job {
                tag,
                loan,
                completions,
            });
        }
        completions.wait_for(JOBS / 2, &mut record).unwrap();
    });
    assert_eq!(memory, [1; JOBS / 2]);
    assert_eq!(record.handovers as usize, JOBS / 2);
}

#[test]
fn every_job_is_done_once_and_comes_home() {
    hold(20_000, || hand_over(JobList::new()));
}

#[test]
fn a_list_that_rings_too_early_is_found_out() {
    is_found_out(20_000, || hand_over(RingsTooEarly::default()));
}

#[test]
fn a_wait_for_fewer_jobs_than_are_in_flight_is_found_out() {
    is_found_out(20_000, || {
        let completions = Arc::new(CompletionQueue::new());
        let workers = (0..2).map(|tag| {
            let completions = Arc::clone(&completions);
            thread::spawn(move || {
                completions.complete(FinishedJob {
                    tag,
                    buffer: JobBuffer::Owned(
                        scrim_sys::memory::DataBuffer::try_zeroed(1).unwrap(),
                        1,
                    ),
                    result: Ok(Ok(())),
                    record: Record::default(),
                });
            })
        });
        let workers: Vec<_> = workers.collect();
        completions.wait_for(1, &mut Record::default()).unwrap();
        assert!(ended(&completions).is_empty(), "one has come too late");
        for thread in workers {
            thread.join().unwrap();
            assert!(ended(&completions).is_empty(), "one has come too late");
        }
    });
}

/// Returns the jobs that have ended and were not taken before.
fn ended(completions: &CompletionQueue) -> Vec<FinishedJob> {
    let mut ended = Vec::new();
    completions.take(&mut ended);
    ended
}
