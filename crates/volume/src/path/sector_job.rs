//! A part of a request, on its way from thread to thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use scrim_backend::Durability;

use super::completion::{CompletionQueue, FinishedJob, JobBuffer};
use crate::crypt_target::CryptTarget;
use crate::data_path::Direction;
use crate::error::VolumeError;
use crate::stats::{Record, Stage};

/// Whole sectors within one stripe of a target.
pub(crate) struct SectorJob {
    pub(crate) target: Arc<CryptTarget>,
    pub(crate) direction: Direction,
    /// Offset from the target's start, in bytes.
    pub(crate) offset: u64,
    pub(crate) buffer: JobBuffer,
    /// Durability of a write; ignored for reads.
    pub(crate) durability: Durability,
    pub(crate) completions: Arc<CompletionQueue>,
    /// Number that the requester has given it.
    pub(crate) tag: usize,
    pub(crate) record: Record,
}

impl SectorJob {
    /// Records that the job has come to another thread.
    pub(super) fn arrive(&mut self) {
        self.record.handovers += 1;
        self.record.trace.mark(Stage::Waiting);
    }

    pub(super) fn encrypt_or_decrypt(self) -> Option<Self> {
        self.step(|job| {
            match job.direction {
                Direction::Read => {
                    (job.target).decrypt_sectors(job.offset, &mut job.buffer, &mut job.record);
                }
                Direction::Write => {
                    (job.target).encrypt_sectors(job.offset, &mut job.buffer, &mut job.record);
                }
            }
            Ok(())
        })
    }

    pub(super) fn fetch_or_store(self) -> Option<Self> {
        self.step(|job| match job.direction {
            Direction::Read => {
                (job.target).fetch_sectors(job.offset, &mut job.buffer, &mut job.record)
            }
            Direction::Write => {
                (job.target).store_sectors(job.offset, &job.buffer, job.durability, &mut job.record)
            }
        })
    }

    pub(super) fn read_or_write(self) -> Option<Self> {
        self.step(Self::run_whole)
    }

    /// Carries out the whole job, as on the inline path.
    pub(super) fn run_whole(&mut self) -> Result<(), VolumeError> {
        let (target, offset, record) = (&self.target, self.offset, &mut self.record);
        match self.direction {
            Direction::Read => target.read_inline(offset, &mut self.buffer, record),
            Direction::Write => {
                target.write_inline(offset, &mut self.buffer, self.durability, record)
            }
        }
    }

    /// Does one step of the job's way; `None` if the job ended there, which its requester is told.
    fn step(mut self, work: impl FnOnce(&mut Self) -> Result<(), VolumeError>) -> Option<Self> {
        // The payload of a panic goes to the requester, which resumes it.
        match catch_unwind(AssertUnwindSafe(|| work(&mut self))) {
            Ok(Ok(())) => Some(self),
            ended => {
                self.end(ended);
                None
            }
        }
    }

    /// Gives the job back to its requester.
    pub(super) fn end(self, result: std::thread::Result<Result<(), VolumeError>>) {
        self.completions.complete(FinishedJob {
            tag: self.tag,
            buffer: self.buffer,
            result,
            record: self.record,
        });
    }
}
