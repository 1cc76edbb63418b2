//! The target of every ratio.

/// Least part of its rate that a client must keep.
pub(super) const KEPT: f64 = 0.8;
