//! A simulated disk: from a seed, everything that a disk may do to a program that trusts it too much.
//!
//! [`SimBackend`] is a [`Backend`](crate::Backend) in memory with a volatile cache before its medium. It is public
//! because the tests and tools of several crates stand on it; the program does not use it.
//!
//! # What it may do
//!
//! - **Cache**: a write is seen by reads at once and is durable only after a flush that began when
//!   it had returned. A durable write (`FUA`) makes itself durable and nothing else: what lies in
//!   the cache beside it stays there. (A [`FileBackend`](crate::FileBackend) flushes all.)
//! - **Power cut** ([`Faults::cut_at`]) during any write, discard or flush. That call and all that
//!   follow fail. [`SimBackend::after_cut`] is the disk after the power is back: of what was not
//!   durable, the interrupted write included, each write is kept, dropped or torn, independently of
//!   the order in which they came; of one sector the latest version that is kept counts. One seed is
//!   one outcome.
//! - **Tear** at 512 bytes: any subset of the sectors of a write. A sector itself is old or new.
//! - **Errors** on the nth call of a kind ([`Faults::failures`]): `EIO` of a write leaves any subset
//!   of its sectors, `ENOSPC` a part from its start; what was written before stays. A flush that
//!   fails makes some sectors durable, loses some, so that reads see what was there before, and keeps
//!   some in the cache; and every later flush and durable write fails too, as the trait says.
//! - **Short transfers**: a system call that transfers less is repeated inside a backend, so what
//!   the trait shows is an end that comes too early: part of a buffer is filled, or part of a write
//!   done, and an error returned.
//! - **Discard**: each whole sector keeps its content, or reads as zeros or as noise; and all of
//!   that is in the cache, so that the content may be back after a power cut.
//! - **Latency** ([`Faults::latency`]): calls pause, and large ones are done in several steps. Of
//!   overlapping concurrent writes each sector holds one or the other.
//!
//! # What it does not do
//!
//! It does not rot bits, write to the wrong place, lose what it has acknowledged as durable, tear a
//! sector, or move a later write of one sector before an earlier one. Nor does it grow or shrink.
//!
//! # Replay
//!
//! Every decision comes from the seed and the number of the call, so a history that makes its calls
//! in one order sees the same faults every time. With several threads the order is the operating
//! system's: the same seed brings the same faults to another order. Errors name the seed.

mod backend;
mod disk;
mod survival;

pub use backend::SimBackend;

/// Faults to inject. Calls are counted from 1, from when the faults were set.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// The power fails during this one of the calls that change something: writes, zeros, discards
    /// and flushes together, as [`SimBackend::changes`] counts them.
    pub cut_at: Option<u64>,
    pub failures: Vec<Fault>,
    /// True if calls pause, and yield to other threads in their middle.
    pub latency: bool,
}

/// A call that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Calls of this kind are counted.
    pub call: Call,
    /// The first is 1.
    pub nth: u64,
    /// Error with which the call fails.
    pub failure: Failure,
}

/// Kinds of calls, as the trait [`Backend`](crate::Backend) has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Read,
    /// A write, of data or of zeros.
    Write,
    Flush,
    Discard,
}

/// Error with which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The call fails with `EIO`.
    Io,
    /// `ENOSPC`; a read fails with `EIO` instead.
    NoSpace,
    /// The transfer ends before its end; a flush or discard fails with `EIO` instead.
    Short,
}
