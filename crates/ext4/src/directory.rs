//! Folders ("Directory Entries"): from names to inodes.

use std::ops::ControlFlow;

use crate::checksum::crc32c;
use crate::fields::{index, u16_at, u32_at};
use crate::map::Place;
use crate::{Error, FileSystem, Inode, Kind, Patience, inline};

/// Bytes of an entry before its name.
const HEAD: usize = 8;
/// Bytes of the last entry of a block, which is none but holds the checksum.
const TAIL: usize = 12;
/// Most bytes of a folder that are searched: about a million names. Folders are searched from their beginning,
/// and not by their index.
const SEARCHED: u64 = 64 << 20;
/// Most bytes of a link's target (PATH_MAX).
const TARGET_MAX: u64 = 4096;

/// A name in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name: any bytes but NUL and slashes.
    pub name: &'a [u8],
    /// The inode that it leads to.
    pub inode: u32,
}

impl FileSystem {
    /// The inode that a folder has under a name.
    ///
    /// # Errors
    /// When the device fails, the folder is none, or is damaged, or is encrypted.
    pub fn lookup(&self, folder: &Inode, name: &[u8]) -> Result<Option<u32>, Error> {
        let mut found = None;
        self.entries(folder, |entry| {
            if entry.name == name {
                found = Some(entry.inode);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
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
        mut each: impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let number = folder.number();
        if !folder.is_folder() {
            return Err(Error::corrupt("it is no folder", number));
        }
        folder.check_readable()?;
        if let Some(data) = folder.inline() {
            for part in inline::folder_parts(data) {
                if entries(part, number, &mut each)?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        if folder.size() > SEARCHED {
            return Err(Error::FolderTooLarge { inode: number });
        }
        let block_size = u64::from(self.block_size());
        let mut offset = 0;
        while offset < folder.size() {
            let Place::At(place) = self.run(folder, offset, Patience::Wait)?.place else {
                return Err(Error::corrupt("a hole in a folder", number));
            };
            let block = self.block(place / block_size, number, Patience::Wait)?;
            let covered = self.verified(folder, &block, offset == 0)?;
            if entries(covered, number, &mut each)?.is_break() {
                return Ok(());
            }
            offset += block_size;
        }
        Ok(())
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

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// When the device fails, or it is no link, or is damaged, or is encrypted.
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
            let run = self.run(link, target.len() as u64, Patience::Wait)?;
            let Place::At(place) = run.place else {
                return Err(Error::corrupt("a symbolic link", number));
            };
            let block_size = u64::from(self.block_size());
            let block = self.block(place / block_size, number, Patience::Wait)?;
            let within = index(place % block_size);
            let here = (len - target.len()).min(block.len() - within);
            target.extend_from_slice(&block[within..within + here]);
        }
        Ok(target)
    }
}

/// The length of the entry that `bytes` begin with; 64 KiB do not fit the field.
fn rec_len(bytes: &[u8], left: usize) -> usize {
    match u16_at(bytes, 4) {
        0 | 65_535 if left >= 1 << 16 => 1 << 16,
        len => usize::from(len),
    }
}

fn entries(
    mut bytes: &[u8],
    number: u32,
    each: &mut impl FnMut(Entry<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    while bytes.len() >= HEAD {
        let len = rec_len(bytes, bytes.len());
        let name_len = usize::from(bytes[6]);
        if len < HEAD || !len.is_multiple_of(4) || len > bytes.len() || name_len > len - HEAD {
            return Err(Error::corrupt("an entry of a folder", number));
        }
        let (entry, rest) = bytes.split_at(len);
        bytes = rest;
        let inode = u32_at(entry, 0);
        let name = &entry[HEAD..HEAD + name_len];
        if inode == 0 || matches!(name, b"" | b"." | b"..") {
            continue;
        }
        if name.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return Err(Error::corrupt("a name in a folder", number));
        }
        if each(Entry { name, inode }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
