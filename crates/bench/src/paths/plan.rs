//! Requests to measure, and the storage below them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use scrim_backend::Backend;

use super::load::Workload;

/// Requests to measure, and the storage below them.
pub struct Plan {
    /// Storage below the volumes.
    pub storage: Storage,
    /// The program that serves them, `scrim`.
    pub program: PathBuf,
    /// Bytes of a request, but where several sizes are compared; a multiple of 512.
    pub block: usize,
    /// Requests in flight at a time, each of a thread of its own.
    pub depth: usize,
    /// Reads among a hundred requests of the mixed workload.
    pub reads: u8,
    /// Time for which one figure is measured in one round.
    pub slice: Duration,
}

/// Storage below the volumes.
pub enum Storage {
    /// Memory: in this process as it is, for a served volume as a file in memory.
    Ram {
        /// Most bytes of memory that it takes.
        bytes: u64,
    },
    /// A file or device of the user's. What is there is taken for ciphertext under a throw-away key.
    Users(Users),
}

/// A file or device of the user's.
pub struct Users {
    /// The file or device, opened.
    pub backend: Arc<dyn Backend>,
    /// Absolute path of the file; `None` where no other process can open it at the same time.
    pub path: Option<PathBuf>,
    /// Options by which the program opens it in the same way.
    pub options: Vec<String>,
    /// True if its data may be overwritten.
    pub writes: bool,
}

impl Plan {
    /// Workloads that the storage allows.
    pub(super) fn workloads(&self) -> &'static [Workload] {
        match &self.storage {
            Storage::Users(users) if !users.writes => &[Workload::Read],
            _ => &Workload::ALL,
        }
    }
}
