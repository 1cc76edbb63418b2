//! Folders of a volume's file system that a site serves.

mod tree;
mod walk;

pub(super) use tree::VolumeTree;
pub(super) use walk::Located;
