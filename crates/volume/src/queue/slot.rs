//! A queue's slots, and the requests that end in them.

use crate::error::VolumeError;

/// Bytes of a slot's buffer: the longest request that any slot takes.
pub const SLOT: usize = 128 << 10;
/// Slots of a queue: the most requests of one thread in flight.
pub const SLOTS: usize = 32;

/// Bytes of the longest request to another machine. One lock covers it, so the target does not cut it.
pub(super) const LONG_SLOT: usize = 1 << 20;
/// Number of slots that take a request of more than [`SLOT`] bytes: those with the lowest numbers. This bounds the
/// memory of a queue.
pub(super) const LONG_SLOTS: usize = 8;

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
