//! Ceph's librbd behind safe functions. The library is loaded when the first image is opened, so neither the build nor
//! a machine without Ceph needs it.
//!
//! Lengths and strings that the library returns are checked here; errors are the library's error numbers.

mod library;

pub use library::{Missing, versions};
