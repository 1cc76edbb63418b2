//! Writes that wait for the thread `dmcrypt_write`, in the order of their sectors.

use std::collections::BTreeMap;

use super::super::sector_job::SectorJob;
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Writes in the order of their sectors, as in dm-crypt's `write_tree`.
pub(super) struct SortedList {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Jobs by offset; those of the same offset in the order in which they came.
    jobs: BTreeMap<(u64, u64), SectorJob>,
    /// Number of jobs that have come.
    came: u64,
    ended: bool,
}

impl SortedList {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            more: Condvar::new(),
        }
    }

    pub(super) fn push(&self, job: SectorJob) {
        let mut waiting = self.lock();
        waiting.came += 1;
        let place = (job.offset, waiting.came);
        waiting.jobs.insert(place, job);
        drop(waiting);
        self.more.notify_one();
    }

    /// Takes all waiting jobs, in their order, once there are some; `None` at the end.
    pub(super) fn take(&self) -> Option<impl Iterator<Item = SectorJob>> {
        let mut waiting = self.lock();
        while waiting.jobs.is_empty() {
            if waiting.ended {
                return None;
            }
            let waited = self.more.wait(waiting);
            waiting = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Some(std::mem::take(&mut waiting.jobs).into_values())
    }

    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.more.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
