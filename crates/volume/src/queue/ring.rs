//! Requests by io_uring: the thread that asks encrypts, decrypts and starts the transfers; nothing is
//! handed over. What a ring cannot do (parts of sectors, ranges over two targets) is done by a call, at
//! once.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use scrim_backend::{Backend, BackendError, BlockLocks, Durability, Medium, SharedBlocks};
use scrim_sys::ring::{Event, FileIndex, Ring};

use super::slot::{Completion, SLOT, SLOTS, Slot};
use crate::error::VolumeError;
use crate::mapping::Mapping;
use crate::range_lock::Watch;
use crate::stats::{Record, Stage};
use crate::sync::RwLockReadGuard;
use crate::target::Target;

/// Returns whether this process may have a ring.
pub(super) fn is_allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| Ring::new(1, 1, &[]).is_ok())
}

pub(super) struct RingEngine<'v> {
    mapping: &'v Mapping,
    ring: Ring<'v>,
    /// Files of the storage, by target of the mapping; `None` where the ring cannot reach it.
    files: Vec<Option<RingFile<'v>>>,
    /// True for each watched file that the ring looks at.
    watching: Vec<bool>,
    slot_states: Vec<State<'v>>,
    in_flight: usize,
    /// Slots whose transfers have to be repeated by calls, which may wait for locks.
    unfinished: Vec<usize>,
    done: VecDeque<Completion>,
}

/// A file that the ring knows.
#[derive(Clone, Copy)]
struct RingFile<'v> {
    index: FileIndex,
    /// Place in the file of the storage's first byte.
    start: u64,
    alignment: u64,
    /// Locks that writes share while they are in flight, where parts of blocks are changed.
    blocks: Option<&'v BlockLocks>,
}

enum State<'v> {
    Idle,
    Reading {
        extent: Extent<'v>,
        /// Tells of changes of parts of the same sectors, where there are such changes.
        watch: Option<Watch>,
    },
    Writing {
        extent: Extent<'v>,
        /// Keeps a read-modify-write away from the same sectors.
        sectors: Option<RwLockReadGuard<'v, ()>>,
        /// Keeps a read-modify-write away from the same blocks of the storage.
        _blocks: Option<SharedBlocks<'v>>,
    },
    /// A read that has met a change of a part of a sector.
    Disturbed(Extent<'v>),
    /// A write of which a part at most is stored. It keeps the lock of its sectors; the call that repeats it takes
    /// those of the storage's blocks again.
    Cut {
        extent: Extent<'v>,
        _sectors: Option<RwLockReadGuard<'v, ()>>,
    },
    /// A read whose data is in the buffer, as it was stored.
    Fetched(Extent<'v>),
    /// A request that a call has carried out: the buffer holds plaintext, or nothing.
    Plain,
}

/// A range of the volume, and its place on the storage.
#[derive(Clone, Copy)]
struct Extent<'v> {
    target: &'v Target,
    /// Offset from the target's start, in bytes.
    within: u64,
    backend: &'v dyn Backend,
    /// Offset on the storage, in bytes.
    at: u64,
    file: RingFile<'v>,
    len: usize,
}

impl Extent<'_> {
    /// Place of its first byte in the file.
    fn in_file(&self) -> u64 {
        self.file.start + self.at
    }
}

impl<'v> RingEngine<'v> {
    pub(super) fn new(mapping: &'v Arc<Mapping>, watched: &[BorrowedFd<'v>]) -> io::Result<Self> {
        let mut files = watched.to_vec();
        let ring_files = mapping
            .targets()
            .iter()
            .map(|target| {
                let (backend, _) = target.storage()?;
                let Medium::File {
                    file,
                    start,
                    alignment,
                    blocks,
                    ..
                } = backend.medium()
                else {
                    return None;
                };
                files.push(file);
                let index = FileIndex::try_from(files.len() - 1).ok()?;
                // A target that stores whole blocks alone changes no part of one.
                let unit = target.unit() as u64;
                let blocks = blocks.filter(|_| !unit.is_multiple_of(alignment));
                Some(RingFile {
                    index,
                    start,
                    alignment,
                    blocks,
                })
            })
            .collect();
        Ok(Self {
            ring: Ring::new(SLOTS, SLOT, &files)?,
            mapping,
            files: ring_files,
            watching: vec![false; watched.len()],
            slot_states: (0..SLOTS).map(|_| State::Idle).collect(),
            in_flight: 0,
            unfinished: Vec::with_capacity(SLOTS),
            done: VecDeque::with_capacity(SLOTS),
        })
    }

    pub(super) fn transfer_read(
        &mut self,
        slot: Slot,
        offset: u64,
        len: usize,
        record: &mut Record,
    ) {
        if self.try_transfer_read(&slot, offset, len).is_some() {
            return;
        }
        let mapping = self.mapping;
        let settled = self.end_writes();
        self.run_by_call(slot, |buffer| {
            settled.map_err(VolumeError::Queue)?;
            mapping.read_from_targets(offset, &mut buffer[..len], record)
        });
    }

    fn try_transfer_read(&mut self, slot: &Slot, offset: u64, len: usize) -> Option<()> {
        let extent = self.extent(offset, len)?;
        let watch = match extent.target.locks() {
            Some(locks) => Some(locks.watch(extent.within, len as u64)?),
            None => None,
        };
        let at = extent.in_file();
        let started = self.ring.read(slot.0, extent.file.index, at, len);
        started.ok()?;
        self.slot_states[slot.0] = State::Reading { extent, watch };
        self.in_flight += 1;
        Some(())
    }

    /// Carries out a request by a call, which is given the slot's buffer.
    pub(super) fn run_by_call(
        &mut self,
        slot: Slot,
        call: impl FnOnce(&mut [u8]) -> Result<(), VolumeError>,
    ) {
        let result = call(self.ring.buffer(slot.0));
        self.slot_states[slot.0] = State::Plain;
        self.done.push_back(Completion { slot, result });
    }

    pub(super) fn transfer_write(
        &mut self,
        slot: Slot,
        offset: u64,
        data: &mut [u8],
        record: &mut Record,
    ) {
        if self
            .try_transfer_write(&slot, offset, data, record)
            .is_some()
        {
            return;
        }
        // A read-modify-write waits for the writes to its region to end: these must not be ours.
        let result = match self.settle() {
            Ok(()) => (self.mapping).write_to_targets(offset, data, Durability::Cached, record),
            Err(error) => Err(VolumeError::Queue(error)),
        };
        self.done.push_back(Completion { slot, result });
    }

    fn try_transfer_write(
        &mut self,
        slot: &Slot,
        offset: u64,
        data: &[u8],
        record: &mut Record,
    ) -> Option<()> {
        if self.mapping.is_read_only() {
            return None;
        }
        let extent = self.extent(offset, data.len())?;
        let len = data.len() as u64;
        let sectors = match extent.target.locks() {
            Some(locks) => Some(locks.try_share(extent.within, len)?),
            None => None,
        };
        let blocks = match extent.file.blocks {
            Some(blocks) => {
                let at = extent.in_file();
                Some(blocks.try_share(&(at..at + len))?)
            }
            None => None,
        };
        let buffer = &mut self.ring.buffer(slot.0)[..data.len()];
        extent.target.encrypt(extent.within, data, buffer);
        record.trace.mark(Stage::Cipher);
        let started = self
            .ring
            .write(slot.0, extent.file.index, extent.in_file(), data.len());
        started.ok()?;
        self.slot_states[slot.0] = State::Writing {
            extent,
            sectors,
            _blocks: blocks,
        };
        self.in_flight += 1;
        Some(())
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn collect(&mut self, slot: &Slot, into: &mut [u8], record: &mut Record) {
        let from = &mut self.ring.buffer(slot.0)[..into.len()];
        match std::mem::replace(&mut self.slot_states[slot.0], State::Idle) {
            State::Fetched(extent) => {
                extent.target.decrypt(extent.within, from, into);
                record.trace.mark(Stage::Cipher);
            }
            _ => {
                into.copy_from_slice(from);
                record.copied_bytes += into.len();
            }
        }
    }

    pub(super) fn next_completion(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    pub(super) fn submit_and_reap(&mut self) -> io::Result<()> {
        if self.in_flight > 0 {
            self.ring.submit(0)?;
        }
        self.reap()
    }

    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.reap()?;
        if !self.done.is_empty() {
            return Ok(());
        }
        for (index, watching) in self.watching.iter_mut().enumerate() {
            if !*watching {
                self.ring.watch(FileIndex::try_from(index).unwrap_or(0))?;
                *watching = true;
            }
        }
        self.ring.submit(1)?;
        self.reap()
    }

    pub(super) fn wait_for_completion(&mut self) -> io::Result<()> {
        self.reap()?;
        if self.done.is_empty() && self.in_flight > 0 {
            self.ring.submit(1)?;
            self.reap()?;
        }
        Ok(())
    }

    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.reap()?;
        while self.in_flight > 0 {
            self.ring.submit(1)?;
            self.reap()?;
        }
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        self.end_transfers();
        if self.unfinished.is_empty() {
            return Ok(());
        }
        let ended = self.end_writes();
        while let Some(slot) = self.unfinished.pop() {
            let result = match &ended {
                Ok(()) => self.repeat_by_call(slot),
                Err(error) => Err(VolumeError::Queue(error.kind().into())),
            };
            let slot = Slot(slot);
            self.done.push_back(Completion { slot, result });
        }
        ended
    }

    /// Ends all writes in flight. A call may wait for a read-modify-write of another thread, which waits for the locks
    /// of writes in flight: with our own in flight, both would wait for ever.
    fn end_writes(&mut self) -> io::Result<()> {
        let is_writing = |state: &State| matches!(state, State::Writing { .. });
        while self.slot_states.iter().any(is_writing) {
            self.ring.submit(1)?;
            self.end_transfers();
        }
        Ok(())
    }

    /// Repeats the whole transfer of a slot by a call, which reports errors in full.
    fn repeat_by_call(&mut self, slot: usize) -> Result<(), VolumeError> {
        let state = std::mem::replace(&mut self.slot_states[slot], State::Plain);
        let buffer = self.ring.buffer(slot);
        match &state {
            State::Disturbed(extent) => {
                // Its request counts already.
                let mut record = Record::default();
                let buffer = &mut buffer[..extent.len];
                extent.target.map_read(extent.within, buffer, &mut record)
            }
            State::Cut { extent, .. } => {
                let buffer = &buffer[..extent.len];
                let written = extent
                    .backend
                    .write_at(extent.at, buffer, Durability::Cached);
                Ok(written?)
            }
            _ => Ok(()),
        }
    }

    fn end_transfers(&mut self) {
        while let Some(event) = self.ring.next_event() {
            match event {
                Event::Readable(file) => {
                    if let Some(watching) = self.watching.get_mut(file as usize) {
                        *watching = false;
                    }
                }
                Event::Transfer { slot, result } => self.end_transfer(slot, &result),
            }
        }
    }

    /// Ends a transfer. A short or failed read is completed by a call, which waits for no lock and reports the error. A
    /// short or failed write is repeated later, also by a call ([`Self::repeat_by_call`]).
    fn end_transfer(&mut self, slot: usize, result: &io::Result<usize>) {
        self.in_flight -= 1;
        let moved = *result.as_ref().unwrap_or(&0);
        let mut result: Result<(), BackendError> = Ok(());
        match std::mem::replace(&mut self.slot_states[slot], State::Idle) {
            State::Reading { extent, watch } => {
                let moved = moved.min(extent.len);
                let rest = &mut self.ring.buffer(slot)[moved..extent.len];
                if !rest.is_empty() {
                    result = extent.backend.read_at(extent.at + moved as u64, rest);
                }
                let locks = extent.target.locks().zip(watch);
                if locks.is_some_and(|(locks, watch)| !locks.is_undisturbed(&watch)) {
                    self.slot_states[slot] = State::Disturbed(extent);
                    self.unfinished.push(slot);
                    return;
                }
                self.slot_states[slot] = State::Fetched(extent);
            }
            State::Writing {
                extent, sectors, ..
            } if moved < extent.len => {
                self.slot_states[slot] = State::Cut {
                    extent,
                    _sectors: sectors,
                };
                self.unfinished.push(slot);
                return;
            }
            // Nothing else was started.
            _ => {}
        }
        self.done.push_back(Completion {
            slot: Slot(slot),
            result: result.map_err(VolumeError::from),
        });
    }

    /// Returns the place of a range on the storage, if the ring can reach it.
    fn extent(&self, offset: u64, len: usize) -> Option<Extent<'v>> {
        let (index, within) = self.mapping.target_of(offset, len)?;
        let file = (*self.files.get(index)?)?;
        let target = &self.mapping.targets()[index];
        let (backend, start) = target.storage()?;
        let at = start + within;
        let unit = target.unit() as u64;
        let aligned = |number: u64| number.is_multiple_of(file.alignment);
        file.start.checked_add(at)?;
        // A file would be made longer.
        let there = at.checked_add(len as u64)? <= backend.info().size;
        let whole = within.is_multiple_of(unit) && (len as u64).is_multiple_of(unit);
        (there && whole && aligned(at) && aligned(len as u64)).then_some(Extent {
            target,
            within,
            backend,
            at,
            file,
            len,
        })
    }
}

impl Drop for RingEngine<'_> {
    fn drop(&mut self) {
        if self.settle().is_err() {
            // The kernel may still write: the locks of that must not be released.
            self.slot_states.drain(..).for_each(std::mem::forget);
        }
    }
}
