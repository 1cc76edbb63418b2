//! A part of a request, on its way from thread to thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use scrim_backend::Durability;

use super::handover::{Finished, Home, Room};
use crate::crypt_target::CryptTarget;
use crate::data_path::Direction;
use crate::error::VolumeError;
use crate::stats::{Record, Stage};

/// Whole sectors within one stripe of a target.
pub(crate) struct Job {
    pub(crate) target: Arc<CryptTarget>,
    pub(crate) direction: Direction,
    /// Offset from the target's start, in bytes.
    pub(crate) offset: u64,
    pub(crate) room: Room,
    /// Durability of a write; ignored for reads.
    pub(crate) durability: Durability,
    pub(crate) home: Arc<Home>,
    /// Number that the requester has given it.
    pub(crate) tag: usize,
    pub(crate) record: Record,
}

impl Job {
    /// Records that the job has come to another thread.
    pub(super) fn arrive(&mut self) {
        self.record.handovers += 1;
        self.record.trace.mark(Stage::Waiting);
    }

    pub(super) fn encrypt_or_decrypt(self) -> Option<Self> {
        self.step(|job| {
            match job.direction {
                Direction::Read => {
                    (job.target).decrypt_sectors(job.offset, &mut job.room, &mut job.record);
                }
                Direction::Write => {
                    (job.target).encrypt_sectors(job.offset, &mut job.room, &mut job.record);
                }
            }
            Ok(())
        })
    }

    pub(super) fn fetch_or_store(self) -> Option<Self> {
        self.step(|job| match job.direction {
            Direction::Read => {
                (job.target).fetch_sectors(job.offset, &mut job.room, &mut job.record)
            }
            Direction::Write => {
                (job.target).store_sectors(job.offset, &job.room, job.durability, &mut job.record)
            }
        })
    }

    pub(super) fn read_or_write(self) -> Option<Self> {
        self.step(Self::carry_out)
    }

    /// Carries out the whole job, as on the inline path.
    pub(super) fn carry_out(&mut self) -> Result<(), VolumeError> {
        let (target, offset, record) = (&self.target, self.offset, &mut self.record);
        match self.direction {
            Direction::Read => target.read_inline(offset, &mut self.room, record),
            Direction::Write => {
                target.write_inline(offset, &mut self.room, self.durability, record)
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
        self.home.bring(Finished {
            tag: self.tag,
            room: self.room,
            result,
            record: self.record,
        });
    }
}
