//! Options of a mount.

/// Wishes for a mount. Set-user-id bits and device files never count in it (`nosuid`, `nodev`).
#[derive(Debug, Clone, Default)]
pub struct MountOptions {
    /// Refuse writes before they reach the tree.
    pub read_only: bool,
    /// Let other users in, root included. The modes of the files still count.
    pub allow_other: bool,
    /// Use of the kernel's page cache for what programs read and write.
    pub cache: PageCache,
    /// The source that `mount` and `findmnt` show, usually the image's path.
    pub name: String,
}

/// Use of the kernel's page cache. With it only one kernel may write the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageCache {
    /// Each request of a program reaches the tree, and no plaintext stays in memory.
    #[default]
    Bypass,
    /// Data stays in memory. Writes reach the tree later, many as one; by `fsync` at the latest. Programs may map the file
    /// for writing also before Linux 6.6.
    WriteBack,
}
