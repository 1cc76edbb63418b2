//! Files with several names (hard links): the name under which each was copied first.

use std::collections::HashMap;

use scrim_files::Inode;

/// Limit on the bytes of the names that are kept; files beyond that are copied once for each name.
const BYTES_MAX: usize = 32 << 20;
/// Bytes that an entry takes besides its path.
const ENTRY_BYTES: usize = 64;

/// Paths of files that have further names, by their inodes.
#[derive(Default)]
pub(super) struct Links {
    /// Path below the folder that is copied, and the number of names that are still to come.
    first: HashMap<u32, (Vec<u8>, u16)>,
    bytes: usize,
}

impl Links {
    /// The path under which a file was copied before. It is forgotten with the last name.
    pub(super) fn take(&mut self, inode: &Inode) -> Option<Vec<u8>> {
        let (path, left) = self.first.get_mut(&inode.number())?;
        if *left > 1 {
            *left -= 1;
            return Some(path.clone());
        }
        let (path, _) = self.first.remove(&inode.number())?;
        self.bytes -= path.len() + ENTRY_BYTES;
        Some(path)
    }

    /// Keeps the path of a file that was copied. Returns false if there is no space left for it.
    pub(super) fn keep(&mut self, inode: &Inode, path: &[u8]) -> bool {
        let bytes = path.len() + ENTRY_BYTES;
        if inode.links() < 2 || self.first.contains_key(&inode.number()) {
            return true;
        }
        if self.bytes + bytes > BYTES_MAX {
            return false;
        }
        self.bytes += bytes;
        let entry = (path.to_vec(), inode.links() - 1);
        self.first.insert(inode.number(), entry);
        true
    }
}
