//! Options of a mount.

/// Wishes for a mount. Set-user-id bits and device files never count in it (`nosuid`, `nodev`).
#[derive(Debug, Clone, Default)]
pub struct MountOptions {
    /// Refuse writes before they reach the tree.
    pub read_only: bool,
    /// Let other users in, root included. The modes of the files still count.
    pub allow_other: bool,
    /// Keep plaintext in the kernel's page cache, and write it back later. Without it each request of a program reaches
    /// the tree, and no plaintext stays in memory. With it only one kernel may write the data, programs may map the file
    /// for writing also before Linux 6.6, and many small requests become few.
    pub cached: bool,
    /// The source that `mount` and `findmnt` show, usually the image's path.
    pub name: String,
}
