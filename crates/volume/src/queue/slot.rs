//! A queue's slots, and the requests that end in them.

use crate::error::VolumeError;

/// Bytes of a slot's buffer: the longest request that any slot takes.
pub const SLOT: usize = 128 << 10;
/// Slots of a queue: the most requests of one thread in flight.
pub const SLOTS: usize = 32;

/// Bytes of the longest request to another machine. If its target starts at a multiple of this length in the table, one
/// lock covers the request, and the target does not cut it.
pub(super) const LONG_SLOT: usize = 1 << 20;
/// Number of slots that take a request of more than [`SLOT`] bytes: those with the lowest numbers. This bounds the
/// memory of a queue.
pub(super) const LONG_SLOTS: usize = 8;

/// Lengths of requests, in bytes: powers of two, [`SLOT`] or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// The longest request. One that ends at a multiple of it is not cut on its way.
    pub longest: usize,
    /// The pieces of a request beside which there is no other: no longer than `longest`.
    pub alone: usize,
}

impl Lengths {
    /// The lengths where every slot takes every request.
    pub(super) const LOCAL: Self = Self {
        longest: SLOT,
        alone: SLOT,
    };
}

/// A buffer and the right to make one request with it.
#[derive(Debug, PartialEq, Eq)]
pub struct Slot(pub(super) usize);

impl Slot {
    /// Returns its number, below [`SLOTS`].
    #[must_use]
    pub fn index(&self) -> usize {
        self.0
    }
}

/// A request that has ended.
#[derive(Debug)]
pub struct Completion {
    /// Slot with which the request was made.
    pub slot: Slot,
    /// Result of the request.
    pub result: Result<(), VolumeError>,
}
