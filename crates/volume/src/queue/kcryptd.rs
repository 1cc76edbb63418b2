//! Requests through dm-crypt's queues. A request whose direction is inline, or that dm-crypt does not
//! know, is done by a call, at once.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use scrim_backend::Durability;

use super::Slot;
use super::slots::Slots;
use crate::Mapping;
use crate::crypt_target::CryptTarget;
use crate::data_path::Direction;
use crate::path::job::Job;
use crate::path::kcryptd::Kcryptd;
use crate::range_lock::STRIPE;
use crate::stats::Record;

pub(super) struct KcryptdQueue<'v> {
    pub(super) slots: Slots<'v>,
    mapping: &'v Mapping,
}

/// Queues and place of a request.
struct Way<'v> {
    queues: &'v Kcryptd,
    target: &'v Arc<CryptTarget>,
    /// Offset from the target's start, in bytes.
    within: u64,
}

impl<'v> KcryptdQueue<'v> {
    pub(super) fn new(mapping: &'v Mapping, watched: &[BorrowedFd<'v>]) -> io::Result<Self> {
        Ok(Self {
            slots: Slots::new(watched)?,
            mapping,
        })
    }

    pub(super) fn read(&mut self, slot: Slot, offset: u64, len: usize, record: &mut Record) {
        let mapping = self.mapping;
        match self.way(Direction::Read, offset, len) {
            Some(way) => self.submit(slot, &way, Direction::Read, len, |_| {}, record),
            None => (self.slots).carry_out(slot, |buffer| {
                mapping.read_from_targets(offset, &mut buffer[..len], record)
            }),
        }
    }

    pub(super) fn write(&mut self, slot: Slot, offset: u64, data: &mut [u8], record: &mut Record) {
        let mapping = self.mapping;
        let way = self.way(Direction::Write, offset, data.len());
        match way.filter(|_| !mapping.is_read_only()) {
            Some(way) => {
                record.copied_bytes += data.len();
                let fill = |room: &mut [u8]| room.copy_from_slice(data);
                self.submit(slot, &way, Direction::Write, data.len(), fill, record);
            }
            None => self.slots.carry_out(slot, |_| {
                mapping.write_to_targets(offset, data, Durability::Cached, record)
            }),
        }
    }

    fn submit(
        &mut self,
        slot: Slot,
        way: &Way<'_>,
        direction: Direction,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        record: &Record,
    ) {
        let tag = slot.0;
        let Some(mut room) = self.slots.hand_out(slot, len) else {
            return;
        };
        fill(&mut room);
        way.queues.submit(Job {
            target: Arc::clone(way.target),
            direction,
            offset: way.within,
            room,
            durability: Durability::Cached,
            home: Arc::clone(&self.slots.home),
            tag,
            record: record.part(),
        });
    }

    /// Returns the way of whole sectors of one stripe of a target with queues; `None` for any other range.
    fn way(&self, direction: Direction, offset: u64, len: usize) -> Option<Way<'v>> {
        let (index, within) = self.mapping.target_of(offset, len)?;
        let crypt = self.mapping.targets()[index].crypt()?;
        let unit = crypt.target.sector_size as u64;
        let last = within + (len as u64).checked_sub(1)?;
        let whole = within.is_multiple_of(unit) && (len as u64).is_multiple_of(unit);
        let one_stripe = within / STRIPE == last / STRIPE;
        Some(Way {
            queues: crypt
                .queues_for(direction)
                .filter(|_| whole && one_stripe)?,
            target: &crypt.target,
            within,
        })
    }
}
