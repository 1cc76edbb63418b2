//! Storage of ciphertext: a file, a block device, memory, an NBD export or an image of a Ceph
//! cluster, behind one trait; and [`sim`], a disk that fails, for tests.
//!
//! A backend moves bytes and knows nothing of their meaning. It reports every failure as a
//! [`BackendError`] that names the operation, the place and the next step.

#![forbid(unsafe_code)]

mod access;
mod backend;
mod blocks;
mod direct;
mod error;
mod file;
mod guard;
mod header_lock;
mod medium;
mod memory;
pub mod own_file;
mod page_cache;
mod range;
mod rbd;
pub mod remote;
mod server_protocol;
pub mod sim;

pub use access::Access;
pub use backend::{Backend, Durability, Info};
pub use blocks::{BlockLocks, SharedBlocks};
pub use error::{BackendError, Operation};
pub use file::FileBackend;
pub use header_lock::{HeaderLock, LockKind};
pub use medium::Medium;
pub use memory::MemoryBackend;
pub use page_cache::{Cached, PageCache};
pub use rbd::{RbdBackend, RbdLock, RbdName, RbdNameError, RbdStatus};
pub use remote::{RemoteBackend, RemoteOptions, RemoteStatus};
pub use server_protocol::ServerProtocol;
