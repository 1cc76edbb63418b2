//! Attributes of files and of file systems.

/// Kind of a file, as the type bits of `st_mode` tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Fifo,
    CharacterDevice,
    Directory,
    BlockDevice,
    Regular,
    SymbolicLink,
    Socket,
}

impl FileKind {
    /// Type bits of `st_mode`.
    #[must_use]
    pub fn mode_bits(self) -> u32 {
        self.directory_type() << 12
    }

    /// Type in a directory entry (`DT_…`).
    #[must_use]
    pub fn directory_type(self) -> u32 {
        match self {
            Self::Fifo => 1,
            Self::CharacterDevice => 2,
            Self::Directory => 4,
            Self::BlockDevice => 6,
            Self::Regular => 8,
            Self::SymbolicLink => 10,
            Self::Socket => 12,
        }
    }
}

/// Time since the beginning of 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Time {
    /// Seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after the second, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// Attributes of a file (`fuse_attr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Number that programs see as `st_ino`.
    pub inode: u64,
    /// Length of the contents, in bytes.
    pub size: u64,
    /// Allocated storage, in units of 512 bytes.
    pub blocks: u64,
    pub accessed: Time,
    pub modified: Time,
    pub changed: Time,
    pub kind: FileKind,
    /// Permission bits, with those for set-user-id, set-group-id and sticky.
    pub permissions: u16,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    /// Device number of a device file, as `makedev(3)` makes it.
    pub device: u32,
    /// Preferred size of requests, in bytes.
    pub block_size: u32,
}

/// State of a file system (`fuse_kstatfs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Size of a block, in bytes.
    pub block_size: u32,
    /// Number of all blocks.
    pub blocks: u64,
    pub free_blocks: u64,
    /// Free blocks that ordinary users may take.
    pub available_blocks: u64,
    /// Number of all inodes.
    pub files: u64,
    pub free_files: u64,
    /// Longest name, in bytes.
    pub name_max: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_bits_of_stat() {
        let bits = [
            (FileKind::Fifo, 0o010_000),
            (FileKind::CharacterDevice, 0o020_000),
            (FileKind::Directory, 0o040_000),
            (FileKind::BlockDevice, 0o060_000),
            (FileKind::Regular, 0o100_000),
            (FileKind::SymbolicLink, 0o120_000),
            (FileKind::Socket, 0o140_000),
        ];
        for (kind, bits) in bits {
            assert_eq!(kind.mode_bits(), bits);
        }
    }
}
