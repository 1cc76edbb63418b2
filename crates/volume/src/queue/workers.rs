//! Requests by workers: the threads of a pool, or dm-crypt's queues where a direction is queued. A pool takes every
//! request. The queues take only whole sectors of one stripe of a crypt target, in a queued direction, and no write to
//! a read-only mapping; every other request is carried out by a call, at once.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use scrim_backend::{Backend, Durability, Medium};
use scrim_sys::memory::DataBuffer;

use super::pool::{Pool, PoolJob};
use super::slot::{LONG_SLOT, Lengths, SLOT, Slot};
use super::worker_slots::WorkerSlots;
use crate::data_path::Direction;
use crate::mapping::Mapping;
use crate::path::completion::JobBuffer;
use crate::path::sector_job::SectorJob;
use crate::stats::Record;

pub(super) struct WorkerEngine<'v> {
    mapping: &'v Arc<Mapping>,
    workers: Workers,
    pub(super) slots: WorkerSlots<'v>,
}

enum Workers {
    /// Threads of this queue, which take every request.
    Pool(Pool),
    /// The threads of the mapping's targets, which take whole sectors of one stripe, in a queued direction.
    Kcryptd,
}

impl<'v> WorkerEngine<'v> {
    /// Starts a pool.
    ///
    /// # Errors
    /// When the system gives no thread or no file, or when too many files are to be watched.
    pub(super) fn with_pool(
        mapping: &'v Arc<Mapping>,
        watched: &[BorrowedFd<'v>],
    ) -> io::Result<Self> {
        let slots = WorkerSlots::new(watched, lengths(mapping))?;
        let pool = Pool::start(mapping, &slots.completions)?;
        Ok(Self {
            mapping,
            slots,
            workers: Workers::Pool(pool),
        })
    }

    /// Uses the workers of the mapping's targets.
    ///
    /// # Errors
    /// When the system gives no file, or when too many files are to be watched.
    pub(super) fn on_kcryptd(
        mapping: &'v Arc<Mapping>,
        watched: &[BorrowedFd<'v>],
    ) -> io::Result<Self> {
        Ok(Self {
            mapping,
            slots: WorkerSlots::new(watched, Lengths::LOCAL)?,
            workers: Workers::Kcryptd,
        })
    }

    pub(super) fn hand_over_read(
        &mut self,
        slot: Slot,
        offset: u64,
        len: usize,
        record: &mut Record,
    ) {
        let mapping = self.mapping;
        if let Err(slot) = self.hand_over(slot, Direction::Read, offset, len, &[], record) {
            self.slots.run_by_call(slot, len, |buffer| {
                mapping.read_from_targets(offset, &mut buffer[..len], record)
            });
        }
    }

    pub(super) fn hand_over_write(
        &mut self,
        slot: Slot,
        offset: u64,
        data: &mut [u8],
        record: &mut Record,
    ) {
        let mapping = self.mapping;
        let len = data.len();
        if let Err(slot) = self.hand_over(slot, Direction::Write, offset, len, data, record) {
            self.slots.run_by_call(slot, 0, |_| {
                mapping.write_to_targets(offset, data, Durability::Cached, record)
            });
        }
    }

    /// Returns the pool, if these workers are one.
    pub(super) fn pool(&mut self) -> Option<RunningPool<'_, 'v>> {
        match &mut self.workers {
            Workers::Pool(pool) => Some(RunningPool {
                pool,
                slots: &mut self.slots,
            }),
            Workers::Kcryptd => None,
        }
    }

    /// Gives a request to the workers, with a copy of the `data` of a write. Returns the slot if they do not take it.
    fn hand_over(
        &mut self,
        slot: Slot,
        direction: Direction,
        offset: u64,
        len: usize,
        data: &[u8],
        record: &mut Record,
    ) -> Result<(), Slot> {
        let tag = slot.0;
        let mut fill = |slots: &mut WorkerSlots<'_>, slot| {
            let mut buffer = slots.hand_out(slot, len)?;
            if direction == Direction::Write {
                buffer.copy_from_slice(data);
                record.copied_bytes += len;
            }
            Some((buffer, record.part()))
        };
        match &mut self.workers {
            Workers::Pool(pool) => {
                if let Some((buffer, record)) = fill(&mut self.slots, slot) {
                    pool.enqueue(PoolJob {
                        slot: tag,
                        direction,
                        offset,
                        buffer,
                        record,
                    });
                }
            }
            Workers::Kcryptd => {
                let mapping: &'v Mapping = self.mapping;
                let refused = direction == Direction::Write && mapping.is_read_only();
                let Some((crypt, within)) = mapping.crypt_of(offset, len).filter(|_| !refused)
                else {
                    return Err(slot);
                };
                let Some(kcryptd) = crypt.kcryptd_for_range(direction, within, len) else {
                    return Err(slot);
                };
                if let Some((buffer, record)) = fill(&mut self.slots, slot) {
                    kcryptd.enqueue(SectorJob {
                        target: Arc::clone(&crypt.target),
                        direction,
                        offset: within,
                        buffer,
                        durability: Durability::Cached,
                        completions: Arc::clone(&self.slots.completions),
                        tag,
                        record,
                    });
                }
            }
        }
        Ok(())
    }
}

/// A pool, and the slots of its requests.
pub(super) struct RunningPool<'p, 'v> {
    pool: &'p mut Pool,
    slots: &'p mut WorkerSlots<'v>,
}

impl RunningPool<'_, '_> {
    /// Hands over a write of the first `len` bytes of `data`: the buffer itself, in exchange for another one of the
    /// same length.
    pub(super) fn hand_over_write_of(
        self,
        slot: Slot,
        offset: u64,
        data: &mut DataBuffer,
        len: usize,
        record: &mut Record,
    ) {
        let tag = slot.0;
        let Some(JobBuffer::Owned(other, _)) = self.slots.hand_out(slot, data.len()) else {
            return;
        };
        self.pool.enqueue(PoolJob {
            slot: tag,
            direction: Direction::Write,
            offset,
            buffer: JobBuffer::Owned(std::mem::replace(data, other), len),
            record: record.part(),
        });
    }
}

/// Returns the lengths of a pool's requests: the least of all storage.
fn lengths(mapping: &Mapping) -> Lengths {
    let lengths = |backend: &dyn Backend| match backend.medium() {
        Medium::Remote { longest, alone } => [longest, alone],
        Medium::Memory | Medium::File { .. } => [SLOT, SLOT],
    };
    let all = mapping.backends().map(lengths);
    let least = all.reduce(|one, other| [0, 1].map(|at| one[at].min(other[at])));
    // The largest power of two that is not above it.
    let power = |len: usize| 1 << len.clamp(SLOT, LONG_SLOT).ilog2();
    least.map_or(Lengths::LOCAL, |[longest, alone]| Lengths {
        longest: power(longest),
        alone: power(alone.min(longest)),
    })
}
