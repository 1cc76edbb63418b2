//! Folders ("Directory Entries"): from names to inodes.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::checksum::crc32c;
use crate::fields::{index, u16_at, u32_at};
use crate::index::Told;
use crate::map::Place;
use crate::{Budget, Error, FileSystem, Inode, Kind, ReadMode, inline};

/// Bytes of an entry before its name.
const HEAD: usize = 8;
/// Bytes of the last entry of a block, which is not an entry but holds the checksum.
const TAIL: usize = 12;
/// Most bytes of a link's target (PATH_MAX).
const TARGET_MAX: u64 = 4096;

/// A name in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name: any bytes but NUL and slashes.
    pub name: &'a [u8],
    /// The inode that it leads to.
    pub inode: u32,
    /// Type of that inode as the entry has it; `None` where it has none. The inode itself decides.
    pub kind: Option<Kind>,
    /// Place of the next entry in the folder; see [`FileSystem::entries_from`].
    pub next: u64,
}

impl FileSystem {
    /// The inode that a folder has under a name.
    ///
    /// # Errors
    /// When the device fails, the folder is not one, or is damaged, or is encrypted, or the budget is used up.
    pub fn lookup(
        &self,
        folder: &Inode,
        name: &[u8],
        budget: &Budget,
    ) -> Result<Option<u32>, Error> {
        let mut found = self.lookup_all(folder, &[name], budget)?;
        Ok(found.pop().flatten())
    }

    /// The inodes that a folder has under some names, in their order. Where the folder has no index, it is searched
    /// once for all of them.
    ///
    /// # Errors
    /// As for [`FileSystem::lookup`].
    pub fn lookup_all(
        &self,
        folder: &Inode,
        names: &[&[u8]],
        budget: &Budget,
    ) -> Result<Vec<Option<u32>>, Error> {
        check_folder(folder)?;
        let mut found = vec![None; names.len()];
        // Names of which the index tells nothing.
        let mut left = Vec::new();
        for (nth, name) in names.iter().enumerate() {
            match self.lookup_indexed(folder, name, budget)? {
                Told::There(inode) => found[nth] = Some(inode),
                Told::NotThere => {}
                Told::Nothing => left.push(nth),
            }
        }
        if left.is_empty() {
            return Ok(found);
        }
        self.entries(folder, budget, |entry| {
            left.retain(|&nth| {
                let is_it = names[nth] == entry.name;
                if is_it {
                    found[nth] = Some(entry.inode);
                }
                !is_it
            });
            match left.is_empty() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        Ok(found)
    }

    /// Calls `each` for the names in a folder, but not for `.` and `..`, until it has had enough.
    ///
    /// # Errors
    /// As for [`FileSystem::lookup`].
    pub fn entries(
        &self,
        folder: &Inode,
        budget: &Budget,
        each: impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.entries_from(folder, 0, budget, each)
    }

    /// As [`FileSystem::entries`], from a place in the folder on: 0 is its front, and an entry tells where the next
    /// one is. So a folder of any length can be read in parts. A place within an entry counts for the next one.
    ///
    /// # Errors
    /// As for [`FileSystem::lookup`].
    pub fn entries_from(
        &self,
        folder: &Inode,
        from: u64,
        budget: &Budget,
        mut each: impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        check_folder(folder)?;
        let number = folder.number();
        let mut each = |entry: Entry<'_>, at: u64| match at < from {
            true => ControlFlow::Continue(()),
            false => each(entry),
        };
        if let Some(data) = folder.inline() {
            budget.take(data.len() as u64, number)?;
            for (start, part) in inline::folder_parts(data) {
                if entries(part, start, number, &mut each)?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let block_size = u64::from(self.block_size());
        for nth in from / block_size..folder.size().div_ceil(block_size) {
            let block = self.folder_block(folder, nth, budget)?;
            let covered = self.verified(folder, &block, nth == 0)?;
            if entries(covered, nth * block_size, number, &mut each)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The inode of the folder that has `folder` in it, as the entry `..` says; the root is its own.
    ///
    /// # Errors
    /// As for [`FileSystem::lookup`].
    pub fn parent(&self, folder: &Inode, budget: &Budget) -> Result<u32, Error> {
        check_folder(folder)?;
        if let Some(data) = folder.inline() {
            return Ok(u32_at(data, 0));
        }
        let block = self.folder_block(folder, 0, budget)?;
        let covered = self.verified(folder, &block, true)?;
        // The entry follows the one for the folder itself.
        let parent = covered.get(rec_len(covered, covered.len())..);
        match parent.filter(|entry| entry.get(HEAD - 2..HEAD + 2).is_some_and(is_parent)) {
            Some(entry) => Ok(u32_at(entry, 0)),
            None => Err(Error::corrupt("the entry of its parent", folder.number())),
        }
    }

    /// The inode under a name in one block of a folder, which is not of its index.
    pub(crate) fn find_in_block(
        &self,
        folder: &Inode,
        nth: u64,
        name: &[u8],
        budget: &Budget,
    ) -> Result<Option<u32>, Error> {
        let block = self.folder_block(folder, nth, budget)?;
        let covered = self.verified(folder, &block, false)?;
        let mut found = None;
        let _ = entries(covered, 0, folder.number(), &mut |entry, _| {
            if entry.name == name {
                found = Some(entry.inode);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Reads a block of a folder, which must not be missing.
    pub(crate) fn folder_block(
        &self,
        folder: &Inode,
        nth: u64,
        budget: &Budget,
    ) -> Result<Arc<[u8]>, Error> {
        let number = folder.number();
        let block_size = u64::from(self.block_size());
        budget.take_block(self.block_size(), number)?;
        let run = self.run(folder, nth * block_size, ReadMode::Wait)?;
        let Place::At(place) = run.place else {
            return Err(Error::corrupt("a hole in a folder", number));
        };
        self.block(place / block_size, number, ReadMode::Wait)
    }

    /// A block of a folder without its checksum, if that is right. Blocks of the index have theirs elsewhere,
    /// and no entries.
    fn verified<'a>(
        &self,
        folder: &Inode,
        block: &'a [u8],
        is_first: bool,
    ) -> Result<&'a [u8], Error> {
        let Some(seed) = folder.seed else {
            return Ok(block);
        };
        let (covered, tail) = block.split_at(block.len() - TAIL);
        let has_tail =
            u32_at(tail, 0) == 0 && u16_at(tail, 4) == 12 && tail[6] == 0 && tail[7] == 0xde;
        if has_tail {
            return match crc32c(seed, covered) == u32_at(tail, 8) {
                true => Ok(covered),
                false => Err(Error::corrupt("a checksum is wrong", folder.number())),
            };
        }
        let is_empty = u32_at(block, 0) == 0 && rec_len(block, block.len()) == block.len();
        match folder.is_indexed() && (is_first || is_empty) {
            true => Ok(block),
            false => Err(Error::corrupt("a checksum is missing", folder.number())),
        }
    }

    /// Reads the path to which a symbolic link leads.
    ///
    /// # Errors
    /// When the device fails, or `link` is not a link, or is damaged, or is encrypted.
    pub fn target(&self, link: &Inode) -> Result<Vec<u8>, Error> {
        let number = link.number();
        link.check_readable()?;
        if link.kind() != Kind::Link || link.size() == 0 || link.size() > TARGET_MAX {
            return Err(Error::corrupt("a symbolic link", number));
        }
        let len = index(link.size());
        if let Some(data) = link.inline() {
            return Ok(data.to_vec());
        }
        if len < link.root.len() {
            return Ok(link.root[..len].to_vec());
        }
        let mut target = Vec::new();
        while target.len() < len {
            let run = self.run(link, target.len() as u64, ReadMode::Wait)?;
            let Place::At(place) = run.place else {
                return Err(Error::corrupt("a symbolic link", number));
            };
            let block_size = u64::from(self.block_size());
            let block = self.block(place / block_size, number, ReadMode::Wait)?;
            let within = index(place % block_size);
            let here = (len - target.len()).min(block.len() - within);
            target.extend_from_slice(&block[within..within + here]);
        }
        Ok(target)
    }
}

/// Returns whether the end of an entry's head, and what follows, are those of `..`.
fn is_parent(end: &[u8]) -> bool {
    matches!(end, [2, _, b'.', b'.'])
}

fn check_folder(folder: &Inode) -> Result<(), Error> {
    match folder.is_folder() {
        true => folder.check_readable(),
        false => Err(Error::corrupt("it is no folder", folder.number())),
    }
}

/// The length of the entry that `bytes` begin with; 64 KiB do not fit the field.
fn rec_len(bytes: &[u8], left: usize) -> usize {
    match u16_at(bytes, 4) {
        0 | 65_535 if left >= 1 << 16 => 1 << 16,
        len => usize::from(len),
    }
}

/// Calls `each` for the entries in `bytes`, which are `start` bytes behind the folder's front, with their places.
fn entries(
    mut bytes: &[u8],
    start: u64,
    number: u32,
    each: &mut impl FnMut(Entry<'_>, u64) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    let mut next = start;
    while bytes.len() >= HEAD {
        let len = rec_len(bytes, bytes.len());
        let name_len = usize::from(bytes[6]);
        if len < HEAD || !len.is_multiple_of(4) || len > bytes.len() || name_len > len - HEAD {
            return Err(Error::corrupt("an entry of a folder", number));
        }
        let (entry, rest) = bytes.split_at(len);
        bytes = rest;
        let at = next;
        next += len as u64;
        let inode = u32_at(entry, 0);
        let name = &entry[HEAD..HEAD + name_len];
        // Without the feature `filetype` this is the upper byte of the name's length, which is zero.
        let kind = Kind::of_entry(entry[7]);
        if inode == 0 || matches!(name, b"" | b"." | b"..") {
            continue;
        }
        if name.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return Err(Error::corrupt("a name in a folder", number));
        }
        let entry = Entry {
            name,
            inode,
            kind,
            next,
        };
        if each(entry, at).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
