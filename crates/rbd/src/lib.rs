//! Ceph's librbd behind safe functions. The library is loaded when the first image is opened, so neither the build nor
//! a machine without Ceph needs it.
//!
//! Lengths and strings that the library returns are checked here. Errors are the library's error numbers, as
//! [`std::io::Error`]s with that number.
//!
//! Every call blocks its thread until the cluster has answered. librbd makes the same requests of a blocking call as of
//! an asynchronous one, and Scrim has a thread for each request in flight anyway, so completions and their callbacks
//! into our code would gain nothing.

mod cluster;
mod foreign;
mod image;
mod library;

pub use cluster::{Cluster, ConnectError, Pool, Settings};
pub use image::{Image, Mode, Parent, Stat, Watcher, feature};
pub use library::Missing;
