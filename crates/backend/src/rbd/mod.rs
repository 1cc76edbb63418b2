//! Images of a Ceph cluster, by librbd.
//!
//! # What is durable when
//!
//! - A flush that has returned without an error covers every write that returned before it began: all replicas have it.
//!   A durable write is a write and a flush.
//! - Requests wait for the cluster as long as it takes, as with the kernel's RBD: an OSD that comes back answers them,
//!   and nothing is lost. Only connecting has a time limit.
//! - A flush that fails is final.
//!
//! # Two clients
//!
//! An image that is opened for writing has Ceph's exclusive lock until it is closed. librbd would hand the lock over to
//! any client that asks; with a lock that was taken on demand it refuses that. So a living owner is refused before, by
//! name, and a dead one's lock is broken by librbd, which blocks the dead client first: should it live on behind a
//! broken network, its writes fail.

mod advice;
mod backend;
mod flushes;
mod name;
mod opening;

pub use backend::RbdBackend;
pub use name::{RbdName, RbdNameError};

/// State of an image that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RbdStatus {
    /// Number by which the cluster knows this client, as in `client.4123`.
    pub client: u64,
    pub lock: RbdLock,
    /// Size of the objects that the image's data is cut into, in bytes.
    pub object_size: u64,
}

/// State of an image's exclusive lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RbdLock {
    /// Not taken, as the image is only read.
    Unneeded,
    /// Held by this client.
    Held,
    /// Lost to another client, which has blocked this one.
    Lost,
}
