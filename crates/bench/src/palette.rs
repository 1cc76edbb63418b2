//! Colours by what they stand for: a data path has the same one on every page, by its place in
//! [`COLOURS`](crate::svg::COLOURS).

/// Requests that the receiving thread encrypts, and `auto`, which does so with short ones.
pub(crate) const INLINE: usize = 0;
/// Requests that are handed over through queues, in the kernel's dm-crypt too.
pub(crate) const QUEUED: usize = 1;
/// No encryption at all.
pub(crate) const PLAIN: usize = 2;
/// A mount by the kernel.
pub(crate) const KERNEL: usize = 3;
