//! Directory listings, written into the reply's buffer entry by entry.

use std::time::Duration;

use crate::attributes::FileKind;
use crate::reply::{Entry, Writer};
use crate::wire::{DIRENT, ENTRY_OUT};

/// A listing in a buffer whose length the kernel has chosen.
pub struct Listing<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> Listing<'a> {
    /// Begins an empty listing.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 0 }
    }

    /// Bytes of the entries so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry (`fuse_dirent`). `next` is the cursor behind it. Returns `false` if no space is left for it.
    pub fn push(&mut self, inode: u64, next: u64, kind: FileKind, name: &[u8]) -> bool {
        self.put([0; 0], inode, next, kind, name)
    }

    /// Checks if an entry with attributes and a name of `name_len` bytes still fits.
    #[must_use]
    pub fn has_room_for_attributes(&self, name_len: usize) -> bool {
        padded(ENTRY_OUT + DIRENT + name_len) <= self.buffer.len() - self.len
    }

    /// Adds an entry with its attributes (`fuse_direntplus`), which counts as a lookup of the name. Without `entry` the
    /// kernel looks the name up when it needs it. Returns `false` if no space is left for it.
    pub fn push_with_attributes(
        &mut self,
        entry: Option<(&Entry, Duration)>,
        (inode, next): (u64, u64),
        kind: FileKind,
        name: &[u8],
    ) -> bool {
        let mut head = Writer::<ENTRY_OUT>::new();
        if let Some((entry, valid)) = entry {
            entry.put(&mut head, valid);
        }
        self.put(head.done(), inode, next, kind, name)
    }

    fn put<const N: usize>(
        &mut self,
        head: [u8; N],
        inode: u64,
        next: u64,
        kind: FileKind,
        name: &[u8],
    ) -> bool {
        let Ok(name_len) = u32::try_from(name.len()) else {
            return false;
        };
        let whole = padded(N + DIRENT + name.len());
        let Some(space) = self.buffer[self.len..].get_mut(..whole) else {
            return false;
        };
        let mut fields = Writer::<DIRENT>::new();
        fields.u64(inode);
        fields.u64(next);
        fields.u32(name_len);
        fields.u32(kind.directory_type());
        let (front, rest) = space.split_at_mut(N);
        let (middle, rest) = rest.split_at_mut(DIRENT);
        let (text, padding) = rest.split_at_mut(name.len());
        front.copy_from_slice(&head);
        middle.copy_from_slice(&fields.done());
        text.copy_from_slice(name);
        padding.fill(0);
        self.len += whole;
        true
    }
}

/// Length of an entry with its padding.
fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_padded_and_end_where_the_buffer_does() {
        let mut buffer = [0xAA; 71];
        let mut listing = Listing::new(&mut buffer);
        assert!(listing.is_empty());
        assert!(listing.push(5, 1, FileKind::Directory, b"."));
        assert_eq!(listing.len(), 32);
        assert!(listing.push(9, 2, FileKind::Regular, b"abcdefgh"));
        assert_eq!(listing.len(), 64);
        assert!(!listing.push(10, 3, FileKind::Regular, b"x"), "no space");
        assert_eq!(listing.len(), 64);
        assert_eq!(buffer[..8], 5u64.to_ne_bytes());
        assert_eq!(buffer[8..16], 1u64.to_ne_bytes());
        assert_eq!(buffer[16..20], 1u32.to_ne_bytes());
        assert_eq!(buffer[20..24], 4u32.to_ne_bytes());
        assert_eq!(buffer[24..32], *b".\0\0\0\0\0\0\0");
        assert_eq!(buffer[56..64], *b"abcdefgh");
        assert_eq!(buffer[64..], [0xAA; 7]);
    }

    #[test]
    fn an_entry_without_attributes_has_node_0() {
        let mut buffer = [0xAA; 160];
        let mut listing = Listing::new(&mut buffer);
        assert!(listing.has_room_for_attributes(8));
        assert!(!listing.has_room_for_attributes(9));
        assert!(listing.push_with_attributes(None, (7, 1), FileKind::Directory, b".."));
        assert_eq!(listing.len(), 160);
        assert_eq!(buffer[..128], [0; 128]);
        assert_eq!(buffer[128..136], 7u64.to_ne_bytes());
    }
}
