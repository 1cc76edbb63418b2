//! Files that the kernel shows in a folder, by FUSE: [`Mounted`] serves a [`FileTree`].
//!
//! [`RawFile`] is the tree of a volume's plaintext: one folder with one file. [`VolumeFiles`] is that of the files of an
//! ext2, ext3 or ext4 file system in the volume, read-only.
//!
//! # A write, from the kernel to the storage
//!
//! 1. A thread of the session reads one request into its own buffer (`worker.rs`), so that a payload begins at a page.
//! 2. `scrim_fuse` turns the bytes into a typed request, and `worker.rs` passes the payload, where it was received, to
//!    [`FileTree::write`].
//! 3. `raw.rs` passes it to `Volume::write`, which encrypts it in place and writes it to the storage.
//! 4. One write to the device is the reply.
//!
//! A read is decrypted in the same buffer, behind the place of the reply's header, and one write sends both. So a request
//! takes one read and one write on the device, and no byte is copied in memory. The threads wait in the kernel, each on a
//! descriptor of its own.
//!
//! # Mounting
//!
//! `mount.rs` chooses the way: mount(2) with the right to it, else the program `fusermount3`. `guard.rs` is the process
//! that takes the mount away when this one is killed.

mod buffer;
mod error;
mod execute;
mod files;
mod guard;
mod helper;
mod limits;
mod mount;
mod mounted;
mod options;
mod other;
mod raw;
mod session;
mod stall;
mod tree;
mod worker;

pub use error::{DirectoryFault, FileError, MountError, UnmountError};
pub use files::{Access, VolumeFiles};
pub use limits::STALL;
pub use mount::{KIND, Method};
pub use mounted::Mounted;
pub use options::{MountOptions, PageCache};
pub use other::OtherMount;
pub use raw::{FileNameError, PunchHole, RawFile};
pub use session::Failure;
pub use stall::StallLimit;
pub use tree::{DirectoryEntry, Durability, FileTree, OpenFile, SyncKind};

pub use scrim_fuse::request::{Allocate, AllocateMode, NewTime, SetAttributes, Whence};
pub use scrim_fuse::wire::ROOT_ID;
pub use scrim_fuse::{Attributes, FileKind, Statistics, Time, reply::Entry};
