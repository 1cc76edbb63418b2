//! A request whose requester waits for it, whichever thread carries it out.

use std::collections::VecDeque;
use std::sync::Arc;

use scrim_backend::Durability;
use scrim_sys::loan::{Loan, lend};

use super::completion::{CompletionQueue, JobBuffer};
use super::sector_job::SectorJob;
use crate::crypt_target::{CryptTarget, Part, piecewise};
use crate::data_path::Direction;
use crate::error::VolumeError;
use crate::stats::Record;

pub(super) struct Request<'a> {
    pub(super) target: &'a Arc<CryptTarget>,
    pub(super) direction: Direction,
    /// Offset from the target's start, in bytes.
    pub(super) offset: u64,
    pub(super) memory: &'a mut [u8],
    /// Durability of a write; ignored for reads.
    pub(super) durability: Durability,
}

impl Request<'_> {
    /// Carries the request out on this thread.
    pub(super) fn run_inline(self, record: &mut Record) -> Result<(), VolumeError> {
        match self.direction {
            Direction::Read => self.target.read_inline(self.offset, self.memory, record),
            Direction::Write => {
                let (target, durability) = (self.target, self.durability);
                target.write_inline(self.offset, self.memory, durability, record)
            }
        }
    }

    /// Cuts the request into jobs that end at multiples of `most` bytes; `work` hands out all of them, and waits
    /// until they have ended. Parts of sectors, which dm-crypt does not know, are carried out here.
    pub(super) fn in_jobs(
        self,
        most: usize,
        record: &mut Record,
        work: impl FnOnce(VecDeque<SectorJob>, &CompletionQueue, &mut Record) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let parts = self.target.parts(self.offset, self.memory.len(), most);
        let each = piecewise(&parts, self.durability);
        let cut = Cut {
            target: self.target,
            direction: self.direction,
            durability: each,
        };
        lend(self.memory, |loan| {
            // Created in here, so that a panic drops the queue, and with it the memory lent to finished jobs.
            let completions = Arc::new(CompletionQueue::new());
            let mut jobs = VecDeque::new();
            let mut loan = loan;
            let mut result = Ok(());
            for part in parts {
                let (now, rest) = loan.split_at(part.len);
                loan = rest;
                if part.whole {
                    jobs.push_back(cut.job(part.offset, now, &completions, record));
                } else {
                    result = result.and(cut.part(&part, now, record));
                }
            }
            result.and(work(jobs, &completions, record))
        })?;
        self.target.flush_once(each, self.durability)
    }
}

/// Properties that all jobs of a request share.
struct Cut<'a> {
    target: &'a Arc<CryptTarget>,
    direction: Direction,
    durability: Durability,
}

impl Cut<'_> {
    fn job(
        &self,
        offset: u64,
        memory: Loan,
        completions: &Arc<CompletionQueue>,
        record: &Record,
    ) -> SectorJob {
        SectorJob {
            target: Arc::clone(self.target),
            direction: self.direction,
            offset,
            buffer: JobBuffer::Lent(memory),
            durability: self.durability,
            completions: Arc::clone(completions),
            tag: 0,
            record: record.part(),
        }
    }

    fn part(&self, part: &Part, mut memory: Loan, record: &mut Record) -> Result<(), VolumeError> {
        match self.direction {
            Direction::Read => self.target.read_part(part, &mut memory, record),
            Direction::Write => (self.target).modify_sector(part, &memory, self.durability, record),
        }
    }
}
