//! Phases of bonnie++, and the parameters of its work.

use serde::{Deserialize, Serialize};

/// Most bytes of a large file.
const BYTES_MAX: u64 = 1 << 50;
/// Most single bytes, places or files of a phase.
const COUNT_MAX: u64 = 1 << 30;

/// A phase, in the order in which bonnie++ runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    CharWrite,
    BlockWrite,
    Rewrite,
    CharRead,
    BlockRead,
    Seeks,
    Create,
    Stat,
    Delete,
}

impl Phase {
    /// All phases, in their order.
    pub const ALL: [Self; 9] = [
        Self::CharWrite,
        Self::BlockWrite,
        Self::Rewrite,
        Self::CharRead,
        Self::BlockRead,
        Self::Seeks,
        Self::Create,
        Self::Stat,
        Self::Delete,
    ];
    /// Phases that move the large file in blocks, in order.
    pub const BLOCKS: [Self; 3] = [Self::BlockWrite, Self::Rewrite, Self::BlockRead];

    /// Name of the phase as a part of series' names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CharWrite => "char_write",
            Self::BlockWrite => "block_write",
            Self::Rewrite => "rewrite",
            Self::CharRead => "char_read",
            Self::BlockRead => "block_read",
            Self::Seeks => "seeks",
            Self::Create => "create",
            Self::Stat => "stat",
            Self::Delete => "delete",
        }
    }

    /// Description of the work, as bonnie++ does it.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::CharWrite => "a file written by calls of 1 byte, with fsync",
            Self::BlockWrite => "a file written by calls of 8 KiB, with fsync",
            Self::Rewrite => "8 KiB read, changed and written back in place, with fsync",
            Self::CharRead => "the file read by calls of 1 byte",
            Self::BlockRead => "the file read by calls of 8 KiB",
            Self::Seeks => "8 KiB at random places by 5 threads, of which 1 in 10 is written back",
            Self::Create => "empty files created in one directory",
            Self::Stat => "their attributes read",
            Self::Delete => "they are deleted",
        }
    }

    /// Unit of the phase's rate.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Seeks => "seeks/s",
            Self::Create | Self::Stat | Self::Delete => "files/s",
            _ => "MB/s",
        }
    }

    /// Returns whether the rate counts bytes.
    #[must_use]
    pub fn moves_bytes(self) -> bool {
        self.unit() == "MB/s"
    }

    /// Returns whether the phase reads what an earlier one wrote, so that caches are dropped before it.
    pub(super) fn starts_cold(self) -> bool {
        !matches!(self, Self::CharWrite | Self::BlockWrite | Self::Create)
    }
}

/// Parameters of the work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Bytes of the large file.
    pub bytes: u64,
    /// Most bytes of the character phases.
    pub char_bytes: u64,
    /// Most random places, over all threads.
    pub seeks: u64,
    /// Most empty files that are created.
    pub files: u64,
    /// Seconds after which a phase that counts characters, places or files ends; its rate counts what was done.
    pub limit_seconds: f64,
}

impl Load {
    /// Load of a night, with bonnie++'s own numbers where they end in time.
    #[must_use]
    pub fn full(bytes: u64) -> Self {
        Self {
            bytes,
            char_bytes: 20 << 20,
            seeks: 8192,
            files: 4096,
            limit_seconds: 20.0,
        }
    }

    /// Load of a first look.
    #[must_use]
    pub fn quick(bytes: u64) -> Self {
        Self {
            bytes,
            char_bytes: 1 << 20,
            seeks: 512,
            files: 256,
            limit_seconds: 2.0,
        }
    }

    /// Describes the sizes and the limit.
    pub(super) fn describe(&self) -> String {
        format!(
            "a file of {} bytes, at most {} single bytes, {} places, {} files and {} s",
            self.bytes, self.char_bytes, self.seeks, self.files, self.limit_seconds
        )
    }

    /// Checks that the numbers are of a load that a run can have.
    pub(super) fn check(&self) -> Result<(), String> {
        let fits = (1..=BYTES_MAX).contains(&self.bytes)
            && (1..=COUNT_MAX).contains(&self.char_bytes)
            && (1..=COUNT_MAX).contains(&self.seeks)
            && (1..=COUNT_MAX).contains(&self.files)
            && (0.001..=3600.0).contains(&self.limit_seconds);
        match fits {
            true => Ok(()),
            false => Err("a load that no run has".to_owned()),
        }
    }

    /// Bytes of a volume that holds all files of the load, with their file system.
    #[must_use]
    pub fn volume_bytes(&self) -> u64 {
        let files = self.bytes + self.char_bytes + super::bystander::FILE_BYTES;
        // A journal, inode tables, and blocks that file systems keep for themselves.
        let volume = files + files / 16 + (96 << 20) + self.files * 1024;
        volume.next_multiple_of(1 << 20)
    }
}
