//! The choice of an engine, and the engine of a queue at work.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::sync::Arc;

use scrim_backend::Medium;

use super::ring::{self, RingEngine};
use super::slot::{Completion, Lengths, Slot};
use super::workers::{RunningPool, WorkerEngine};
use crate::error::VolumeError;
use crate::mapping::Mapping;
use crate::stats::Record;
use crate::volume::Volume;

/// Engine by which requests reach the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Calls on the thread that asks.
    Plain,
    /// A ring of the kernel's.
    IoUring,
    /// Calls on other threads.
    Threads,
}

impl Engine {
    /// Returns the engine for the medium that a volume lies on.
    #[must_use]
    pub fn for_volume(volume: &Volume) -> Self {
        let (mut waits, mut files) = (false, true);
        for backend in volume.mapping().backends() {
            match backend.medium() {
                Medium::Memory
                | Medium::File {
                    cached: Some(_), ..
                } => {}
                Medium::File { cached: None, .. } => waits = true,
                Medium::Remote { .. } => (waits, files) = (true, false),
            }
        }
        match (waits, files) {
            (false, _) => Self::Plain,
            (true, true) if Self::IoUring.is_allowed() => Self::IoUring,
            (true, _) => Self::Threads,
        }
    }

    /// Returns whether this process may use the engine.
    #[must_use]
    pub fn is_allowed(self) -> bool {
        self != Self::IoUring || ring::is_allowed()
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::IoUring => "io_uring",
            Self::Threads => "threads",
        })
    }
}

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        [Self::Plain, Self::IoUring, Self::Threads]
            .into_iter()
            .find(|engine| engine.to_string() == text)
            .ok_or(UnknownEngine)
    }
}

/// A text that names no engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownEngine;

impl fmt::Display for UnknownEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the engines are plain, io_uring and threads")
    }
}

impl std::error::Error for UnknownEngine {}

/// The engine of a queue: one that carries requests out while their requester goes on.
pub(super) enum RunningEngine<'v> {
    Ring(Box<RingEngine<'v>>),
    Workers(WorkerEngine<'v>),
}

impl<'v> RunningEngine<'v> {
    /// Starts an engine; `None` where no queue is needed, for [`Engine::Plain`] without a queued direction.
    ///
    /// # Errors
    /// When the system refuses a ring, a thread or memory, or when too many files are to be watched.
    pub(super) fn start(
        engine: Engine,
        mapping: &'v Arc<Mapping>,
        watched: &[BorrowedFd<'v>],
    ) -> io::Result<Option<Self>> {
        Ok(Some(if mapping.is_queued() {
            Self::Workers(WorkerEngine::on_kcryptd(mapping, watched)?)
        } else {
            match engine {
                Engine::Plain => return Ok(None),
                Engine::IoUring => Self::Ring(Box::new(RingEngine::new(mapping, watched)?)),
                Engine::Threads => Self::Workers(WorkerEngine::with_pool(mapping, watched)?),
            }
        }))
    }

    /// Returns the lengths of requests.
    pub(super) fn lengths(&self) -> Lengths {
        match self {
            Self::Ring(_) => Lengths::LOCAL,
            Self::Workers(workers) => workers.slots.lengths(),
        }
    }

    pub(super) fn begin_read(&mut self, slot: Slot, offset: u64, len: usize, record: &mut Record) {
        match self {
            Self::Ring(ring) => ring.transfer_read(slot, offset, len, record),
            Self::Workers(workers) => workers.hand_over_read(slot, offset, len, record),
        }
    }

    pub(super) fn begin_write(
        &mut self,
        slot: Slot,
        offset: u64,
        data: &mut [u8],
        record: &mut Record,
    ) {
        match self {
            Self::Ring(ring) => ring.transfer_write(slot, offset, data, record),
            Self::Workers(workers) => workers.hand_over_write(slot, offset, data, record),
        }
    }

    /// Returns the pool that carries the requests out; `None` if something else does.
    pub(super) fn pool(&mut self) -> Option<RunningPool<'_, 'v>> {
        match self {
            Self::Ring(_) => None,
            Self::Workers(workers) => workers.pool(),
        }
    }

    /// Carries out a request by a call, which is given a buffer of at least `len` bytes.
    pub(super) fn run_by_call(
        &mut self,
        slot: Slot,
        len: usize,
        call: impl FnOnce(&mut [u8]) -> Result<(), VolumeError>,
    ) {
        match self {
            Self::Ring(ring) => ring.run_by_call(slot, call),
            Self::Workers(workers) => workers.slots.run_by_call(slot, len, call),
        }
    }

    pub(super) fn collect(&mut self, slot: &Slot, into: &mut [u8], record: &mut Record) {
        match self {
            Self::Ring(ring) => ring.collect(slot, into, record),
            Self::Workers(workers) => workers.slots.collect(slot, into, record),
        }
    }

    /// Returns a slot's buffer, if what was read is plaintext there.
    pub(super) fn plaintext(&self, slot: &Slot) -> Option<&[u8]> {
        match self {
            Self::Ring(_) => None,
            Self::Workers(workers) => workers.slots.plaintext(slot),
        }
    }

    pub(super) fn submit_started(&mut self) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.submit_and_reap(),
            // These begin at once.
            Self::Workers(_) => Ok(()),
        }
    }

    /// Returns the next request that has ended, with the record of the worker that carried it out.
    pub(super) fn next_completion(&mut self) -> Option<(Completion, Option<Record>)> {
        match self {
            Self::Ring(ring) => Some((ring.next_completion()?, None)),
            Self::Workers(workers) => workers.slots.next_completion(),
        }
    }

    /// Waits until a request has ended, a watched file can be read from, or a signal came. If the queue `is_idle`, so
    /// that no buffer holds data, a long wait gives the memory of long requests back.
    pub(super) fn wait(&mut self, is_idle: bool) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.wait(),
            Self::Workers(workers) => workers.slots.wait(is_idle),
        }
    }

    /// Waits as [`wait`](Self::wait) does, but not for watched files.
    pub(super) fn wait_for_completion(&mut self) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.wait_for_completion(),
            Self::Workers(workers) => workers.slots.wait_for_completion(),
        }
    }

    /// Waits until no request is in flight.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.settle(),
            Self::Workers(workers) => workers.slots.settle(),
        }
    }

    /// Resumes the panic of a worker, which [`settle`](Self::settle) leaves.
    pub(super) fn resume_panic(&mut self) {
        match self {
            Self::Ring(_) => {}
            Self::Workers(workers) => workers.slots.resume_panic(),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        match self {
            Self::Ring(ring) => ring.in_flight(),
            Self::Workers(workers) => workers.slots.in_flight(),
        }
    }
}
