//! A file system on a device.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::blocks::Blocks;
use crate::fields::index;
use crate::superblock::{self, Space, Superblock};
use crate::{Error, Inode, groups};

/// The inode of the root folder.
pub const ROOT: u32 = 2;

/// Behaviour of a read that would have to wait for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMode {
    /// Only what is in memory: [`io::ErrorKind::WouldBlock`] where it is not.
    Now,
    /// However long it takes.
    Wait,
}

/// Storage of a file system's bytes.
pub trait Device: Send + Sync {
    /// Fills `into` with the bytes from `offset` on.
    ///
    /// # Errors
    /// When the range passes its end, or it fails; [`io::ErrorKind::WouldBlock`] where it would have to wait,
    /// and must not.
    fn read(&self, offset: u64, into: &mut [u8], mode: ReadMode) -> io::Result<()>;
}

/// A file system that is read.
pub struct FileSystem {
    device: Box<dyn Device>,
    superblock: Superblock,
    /// The superblock as it was when this was opened.
    first_bytes: [u8; superblock::LEN],
    blocks: Blocks,
}

impl fmt::Debug for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSystem")
            .field("superblock", &self.superblock)
            .finish_non_exhaustive()
    }
}

impl FileSystem {
    /// Opens the file system on a device.
    ///
    /// # Errors
    /// When it has no file system that can be read here.
    pub fn open(device: Box<dyn Device>) -> Result<Self, Error> {
        let first_bytes = superblock_of(&*device)?;
        let fs = Self {
            superblock: Superblock::parse(&first_bytes)?,
            device,
            first_bytes,
            blocks: Blocks::default(),
        };
        match fs.inode(ROOT, ReadMode::Wait)?.is_folder() {
            true => Ok(fs),
            false => Err(Error::corrupt("the root is no folder", ROOT)),
        }
    }

    /// Looks again, where others may write to the device, and returns whether it is still as it was when this
    /// was opened. A system that mounts it for writing changes that. What is known of it is no longer valid
    /// then.
    ///
    /// # Errors
    /// When the device fails.
    pub fn is_as_it_was(&self) -> Result<bool, Error> {
        Ok(superblock_of(&*self.device)? == self.first_bytes)
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.superblock.block_size
    }

    /// Bytes of an inode, with what it has inline.
    #[must_use]
    pub fn inode_size(&self) -> u16 {
        self.superblock.inode_size
    }

    /// Name of its kind by its features: `ext2`, `ext3` or `ext4`.
    #[must_use]
    pub fn family(&self) -> &'static str {
        self.superblock.family
    }

    /// Its space, used and free.
    #[must_use]
    pub fn space(&self) -> Space {
        self.superblock.space
    }

    /// The number that tells it from other file systems (`s_uuid`).
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.superblock.uuid
    }

    /// Reads an inode.
    ///
    /// # Errors
    /// When the device fails, or there is no such inode, or it is damaged.
    pub fn inode(&self, number: u32, mode: ReadMode) -> Result<Inode, Error> {
        let superblock = &self.superblock;
        let nth = match number.checked_sub(1) {
            Some(nth) if nth < superblock.inodes => nth,
            _ => return Err(Error::corrupt("an inode's number", number)),
        };
        let group = nth / superblock.inodes_per_group;
        let location = groups::locate(superblock, group)?;
        let descriptors = self.block(location.block, 0, mode)?;
        let table = groups::inode_table(superblock, group, &location, &descriptors)?;
        let size = u64::from(superblock.inode_size);
        let at = u64::from(nth % superblock.inodes_per_group) * size;
        let block_size = u64::from(superblock.block_size);
        let block = table
            .checked_add(at / block_size)
            .ok_or_else(|| Error::corrupt("the place of an inode", number))?;
        let block = self.block(block, number, mode)?;
        let start = index(at % block_size);
        let bytes = &block[start..start + usize::from(superblock.inode_size)];
        Inode::parse(number, bytes, superblock.seed)
    }

    pub(crate) fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Reads a block of metadata that belongs to the inode of this number, or to no inode (0).
    pub(crate) fn block(
        &self,
        number: u64,
        inode: u32,
        mode: ReadMode,
    ) -> Result<Arc<[u8]>, Error> {
        if number == 0 && self.superblock.first_data_block > 0 || number >= self.superblock.blocks {
            return Err(Error::corrupt("a block's number", inode));
        }
        if let Some(block) = self.blocks.get(number) {
            return Ok(block);
        }
        let size = self.superblock.block_size;
        let offset = number * u64::from(size);
        let mut block = vec![0; size as usize];
        self.device
            .read(offset, &mut block, mode)
            .map_err(|source| Error::Device { offset, source })?;
        let block = Arc::from(block);
        self.blocks.put(number, &block);
        Ok(block)
    }
}

fn superblock_of(device: &dyn Device) -> Result<[u8; superblock::LEN], Error> {
    let mut bytes = [0; superblock::LEN];
    let offset = superblock::OFFSET;
    device
        .read(offset, &mut bytes, ReadMode::Wait)
        .map_err(|source| Error::Device { offset, source })?;
    Ok(bytes)
}
