//! Reads ext2, ext3 and ext4 file systems without mounting them: from the bytes of a [`Device`] to names,
//! inodes, and the places where a file's bytes lie ([`Run`]). It reads no file's content itself, so that the
//! caller can read as much at once as it likes, to where it likes.
//!
//! The format is that of the kernel's `Documentation/filesystems/ext4`; each module names its chapter. A file
//! system may have been made by an attacker: every number is checked before it is used, no search goes on for
//! longer than its [`Budget`], and memory is bounded by the block size. Checksums are verified where the file
//! system has them (`metadata_csum`). The crate writes nothing, and it replays no journal: a file system that
//! was not unmounted is refused.

#![forbid(unsafe_code)]

mod blocks;
mod budget;
mod checksum;
mod directory;
mod error;
mod fields;
mod file_system;
mod groups;
mod hash;
mod index;
mod inline;
mod inode;
mod layout;
mod map;
mod superblock;

pub use budget::Budget;
pub use directory::Entry;
pub use error::Error;
pub use file_system::{Device, FileSystem, ROOT, ReadMode};
pub use inode::{Inode, Kind};
pub use map::{Place, Run};
pub use superblock::Space;
