//! The kernel's FUSE protocol, versions 7.31 to 7.45, as a server speaks it: numbers, requests and replies.
//!
//! [`request`] turns the bytes of a request into a typed one, and [`reply`] and [`directory`] write the bytes of its
//! answer. Nothing here does I/O or decides anything about files.
//!
//! All numbers travel in the byte order of the machine: both sides are on it. A structure is read and written field by
//! field at the offsets of `linux/fuse.h`, so no memory is reinterpreted and no code is unsafe.

#![forbid(unsafe_code)]

pub mod attributes;
pub mod directory;
pub mod reply;
pub mod request;
pub mod wire;

pub use attributes::{Attributes, FileKind, Statistics, Time};
pub use request::{Malformed, Operation, Request};
