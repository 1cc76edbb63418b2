//! Images of a Ceph cluster, by librbd.

mod name;

pub use name::{RbdName, RbdNameError};
