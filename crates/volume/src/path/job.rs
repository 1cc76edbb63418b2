//! A part of a request, on its way from thread to thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use scrim_backend::Durability;

use super::choice::Direction;
use super::handover::{Finished, Home, Room};
use super::inline::CryptRunner;
use super::request::Request;
use crate::VolumeError;
use crate::stats::{Record, Stage};

/// Whole sectors within one stripe of a target.
pub(crate) struct Job {
    pub(crate) runner: Arc<CryptRunner>,
    pub(crate) direction: Direction,
    /// From the target's start, in bytes.
    pub(crate) offset: u64,
    pub(crate) room: Room,
    /// Of a write.
    pub(crate) durability: Durability,
    pub(crate) home: Arc<Home>,
    /// For the requester.
    pub(crate) tag: usize,
    pub(crate) record: Record,
}

impl Job {
    /// It comes to another thread.
    pub(super) fn arrive(&mut self) {
        self.record.handovers += 1;
        self.record.trace.mark(Stage::Waiting);
    }

    pub(super) fn encrypt_or_decrypt(self) -> Option<Self> {
        self.step(|job| {
            match job.direction {
                Direction::Read => {
                    (job.runner).decrypt(job.offset, &mut job.room, &mut job.record);
                }
                Direction::Write => {
                    (job.runner).encrypt(job.offset, &mut job.room, &mut job.record);
                }
            }
            Ok(())
        })
    }

    pub(super) fn fetch_or_store(self) -> Option<Self> {
        self.step(|job| match job.direction {
            Direction::Read => (job.runner).fetch(job.offset, &mut job.room, &mut job.record),
            Direction::Write => {
                (job.runner).store(job.offset, &job.room, job.durability, &mut job.record)
            }
        })
    }

    pub(super) fn read_or_write(self) -> Option<Self> {
        self.step(Self::carry_out)
    }

    /// All of it, as on the inline path.
    pub(super) fn carry_out(&mut self) -> Result<(), VolumeError> {
        let request = Request {
            runner: &self.runner,
            direction: self.direction,
            offset: self.offset,
            memory: &mut self.room,
            durability: self.durability,
        };
        request.inline(&mut self.record)
    }

    /// A step of its way; `None` if it ended there, which its requester hears.
    fn step(mut self, work: impl FnOnce(&mut Self) -> Result<(), VolumeError>) -> Option<Self> {
        // What a panic leaves is the requester's: he goes on with it.
        match catch_unwind(AssertUnwindSafe(|| work(&mut self))) {
            Ok(Ok(())) => Some(self),
            ended => {
                self.end(ended);
                None
            }
        }
    }

    /// It goes back to its requester.
    pub(super) fn end(self, result: std::thread::Result<Result<(), VolumeError>>) {
        self.home.bring(Finished {
            tag: self.tag,
            room: self.room,
            result,
            record: self.record,
        });
    }
}
