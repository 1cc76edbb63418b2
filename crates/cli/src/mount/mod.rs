//! Mounts of an open volume: its plaintext as one file over FUSE, and the program or kernel code that shows the file
//! system in it.
//!
//! A mount is one FUSE session of Scrim's, or a chain. A session serves the plaintext as one file (`raw`), or the files of
//! an ext file system, read-only. For others, a program or a loop device of the kernel has the one file open, and is
//! mounted on the user's directory. The chain is built from the bottom
//! and taken down from the top, so that nothing is ever cached above what has gone.

mod attempt;
mod check;
mod freeze;
mod holders;
mod method;
mod mounted;
mod program;
mod request;

pub(crate) use attempt::read_in_time;
pub(crate) use freeze::Frozen;
pub(crate) use mounted::{MountedVolume, Source};
pub(crate) use program::{PROGRAMS, Program};
pub(crate) use request::{MountRequest, MountStatus, Served, UmountRequest};
