//! Folders of a volume's file system that a site serves.

mod tree;

pub(super) use tree::VolumeTree;
