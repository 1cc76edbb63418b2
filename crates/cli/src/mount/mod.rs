//! Mounts of an open volume: its plaintext as one file over FUSE, and the program or kernel code that shows the file
//! system in it.
//!
//! A mount is a chain. Scrim's FUSE session serves the plaintext as one file (`raw`); for files, a program or a loop
//! device of the kernel has that file open, and is mounted on the user's directory. The chain is built from the bottom
//! and taken down from the top, so that nothing is ever cached above what has gone.

mod check;
mod holders;
mod method;
mod mounted;
mod program;
mod request;

pub(crate) use mounted::{Directory, MountedVolume, Source};
pub(crate) use request::{MountRequest, MountStatus, Served, UmountRequest};
