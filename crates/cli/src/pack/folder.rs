//! The folder that is packed: its entries, and the blocks that they need in a file system.

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, SeekFrom, access, llistxattr, seek};
use rustix::io::Errno;
use serde::Serialize;

use crate::error::CliError;
use crate::terminal::progress::Display;

/// Size of a file system's block in bytes: as large as the largest encryption sector.
pub(super) const BLOCK: u64 = 4096;

/// Longest target of a symbolic link that fits into an inode, in bytes.
const SHORT_LINK: u64 = 59;

/// Bytes of a folder's block that entries may leave unused: the longest entry, and the checksum at the end.
const UNUSED: u64 = 264 + 12;

/// Blocks that one extent holds, and extents that an inode and a block of extents hold.
const EXTENT_BLOCKS: u64 = 32_768;
const EXTENTS_IN_INODE: u64 = 4;
const EXTENTS_IN_BLOCK: u64 = 340;

/// Counts of what a folder contains, with all folders below it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Content {
    pub(super) files: u64,
    /// Bytes of the files, without holes.
    pub(super) bytes: u64,
    pub(super) folders: u64,
    pub(super) symbolic_links: u64,
    pub(super) hard_links: u64,
    pub(super) special_files: u64,
    /// Blocks of the file system for all that, at most.
    #[serde(skip)]
    pub(super) blocks: u64,
    /// Owner and group of the folder itself.
    #[serde(skip)]
    pub(super) owner: (u32, u32),
}

impl Content {
    /// Looks at everything in `folder`. Fails at the first entry that cannot be read, before anything is made.
    pub(super) fn of(folder: &Path) -> Result<Self, CliError> {
        let found = fs::metadata(folder).map_err(|error| cannot("look at", folder, &error))?;
        let mut content = Self {
            owner: (found.uid(), found.gid()),
            ..Self::default()
        };
        let mut display = Display::new("counting", "stops it; nothing was written");
        let mut several_names = HashSet::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let mut names = 0;
            let entries = fs::read_dir(&folder).map_err(|e| cannot("read", &folder, &e))?;
            for entry in entries {
                let entry = entry.map_err(|error| cannot("read", &folder, &error))?;
                let path = entry.path();
                let found = entry.metadata().map_err(|e| cannot("look at", &path, &e))?;
                // Inode, lengths and type, and the name, filled up to a multiple of 4.
                names += 8 + (entry.file_name().as_bytes().len() as u64).next_multiple_of(4);
                if found.is_dir() {
                    folders.push(path.clone());
                } else if found.nlink() > 1
                    && !found.is_symlink()
                    && !several_names.insert((found.dev(), found.ino()))
                {
                    content.hard_links += 1;
                    continue;
                }
                content.count(&path, &found)?;
            }
            content.blocks += 1 + names.div_ceil(BLOCK - UNUSED);
            display.count(|| format!("counting: {} files", content.files));
        }
        Ok(content)
    }

    /// Inodes that it needs, without those that each file system has.
    pub(super) fn inodes(&self) -> u64 {
        self.files + self.folders + self.symbolic_links + self.special_files
    }

    fn count(&mut self, path: &Path, found: &Metadata) -> Result<(), CliError> {
        if has_attributes(path) {
            self.blocks += 1;
        }
        let kind = found.file_type();
        if kind.is_dir() {
            self.folders += 1;
        } else if kind.is_symlink() {
            self.symbolic_links += 1;
            self.blocks += u64::from(found.len() > SHORT_LINK);
        } else if kind.is_file() {
            access(path, Access::READ_OK).map_err(|error| cannot("read", path, &error.into()))?;
            let data = Data::of(path, found)?;
            self.files += 1;
            self.bytes = self.bytes.saturating_add(data.bytes);
            self.blocks = self.blocks.saturating_add(data.blocks_with_extents());
        } else {
            self.special_files += 1;
        }
        Ok(())
    }
}

/// Data of a file, without its holes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Data {
    bytes: u64,
    blocks: u64,
    /// Number of ranges that have holes between them.
    ranges: u64,
}

impl Data {
    fn of(path: &Path, found: &Metadata) -> Result<Self, CliError> {
        let size = found.len();
        if size == 0 {
            return Ok(Self::default());
        }
        let mut data = Self::default();
        if found.blocks().saturating_mul(512) >= size {
            data.add(0, size);
            return Ok(data);
        }
        // It has holes, or its file system compresses it.
        let fail = |error: Errno| cannot("read", path, &error.into());
        let file = File::open(path).map_err(|error| cannot("read", path, &error))?;
        let mut end = 0;
        while end < size {
            let start = match seek(&file, SeekFrom::Data(end)) {
                Ok(start) => start,
                Err(Errno::NXIO) => break,
                Err(error) => return Err(fail(error)),
            };
            end = match seek(&file, SeekFrom::Hole(start)) {
                // It has become shorter.
                Ok(end) if end <= start => break,
                Ok(end) => end,
                Err(error) => return Err(fail(error)),
            };
            data.add(start, end);
        }
        Ok(data)
    }

    fn add(&mut self, start: u64, end: u64) {
        self.bytes += end - start;
        self.blocks += end.div_ceil(BLOCK) - start / BLOCK;
        self.ranges += 1;
    }

    /// Number of blocks, with those that hold the extents.
    fn blocks_with_extents(&self) -> u64 {
        let extents = self.ranges + self.blocks / EXTENT_BLOCKS;
        match extents > EXTENTS_IN_INODE {
            // Half full at worst, with the levels above.
            true => self.blocks + extents.div_ceil(EXTENTS_IN_BLOCK / 2) + 1,
            false => self.blocks,
        }
    }
}

fn has_attributes(path: &Path) -> bool {
    let mut none: [u8; 0] = [];
    llistxattr(path, &mut none).is_ok_and(|len| len > 0)
}

fn cannot(doing: &str, path: &Path, error: &std::io::Error) -> CliError {
    CliError::io(format_args!("{doing} {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn entries_and_their_blocks_are_counted() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| -> PathBuf { place.path().join(name) };
        fs::create_dir(path("folder")).unwrap();
        fs::write(path("folder/a"), [1; 5000]).unwrap();
        fs::hard_link(path("folder/a"), path("b")).unwrap();
        std::os::unix::fs::symlink("x".repeat(60), path("link")).unwrap();
        File::create(path("hole"))
            .unwrap()
            .set_len(1 << 30)
            .unwrap();
        let content = Content::of(place.path()).unwrap();
        assert_eq!(
            (content.files, content.folders, content.bytes),
            (2, 1, 5000)
        );
        assert_eq!((content.symbolic_links, content.hard_links), (1, 1));
        assert_eq!(content.inodes(), 4);
        // Two for the file, two for each folder, one for the link.
        assert_eq!(content.blocks, 7);
    }

    #[test]
    fn many_ranges_need_blocks_for_their_extents() {
        let mut data = Data::default();
        for index in 0..1000 {
            data.add(index * 8192, index * 8192 + 4096);
        }
        assert_eq!(data.blocks, 1000);
        assert_eq!(data.blocks_with_extents(), 1007);
    }
}
