//! Layout of an inode, which its fields and its inline content share.

use crate::fields::u16_at;

/// Offset of the bytes in which the map of a file's blocks begins, or a short link's target stands.
pub(crate) const ROOT: usize = 0x28;
/// Length of these bytes.
pub(crate) const ROOT_LEN: usize = 60;
/// Offset of the fields that the oldest inodes lack; their length stands there first.
pub(crate) const EXTRA: usize = 0x80;

/// Bytes that this inode uses behind those of the oldest inodes.
pub(crate) fn extra_len(bytes: &[u8]) -> usize {
    let len = usize::from(u16_at(bytes, EXTRA));
    len.min(bytes.len().saturating_sub(EXTRA))
}
