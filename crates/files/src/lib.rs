//! Files of the ext2, ext3 or ext4 file system in a volume that is not mounted: their names, their attributes and their
//! bytes. `scrim serve` sends them, and `scrim ls`, `cat` and `cp` show and copy them.
//!
//! | module | content |
//! |---|---|
//! | `device` | the volume as the file system's device |
//! | `walk` | from a path to an inode, by names and symbolic links |
//! | `file` | a file's bytes: where they are, and plaintext |
//! | `tree` | all of it for a program that copies, shows or mounts files |
//!
//! Everything takes `&self` and may be shared by threads. Inodes have numbers, folders are read in parts from a place on,
//! and files from an offset on, so a file system in user space can answer its requests with it. The crate writes nothing.
//! The file system may have been made by an attacker; [`scrim_ext4`] says how that is bounded.

#![forbid(unsafe_code)]

mod device;
mod file;
mod tree;
mod walk;

pub use scrim_ext4::{
    Budget, Entry, Error, FileSystem, Inode, Kind, Place, ROOT, ReadMode, Run, Space,
};

pub use device::{open, read_now};
pub use file::{File, Span};
pub use tree::Tree;
pub use walk::{LastLink, Located, Missing, SEARCH_BYTES_MAX, Symlinks};
