//! The numbers of the protocol, by the names that `linux/fuse.h` gives them.

/// Major version of the protocol (`FUSE_KERNEL_VERSION`).
pub const MAJOR: u32 = 7;
/// Oldest minor version that is served (Linux 5.2). From it on the kernel knows [`init::MAX_PAGES`], and all structures
/// have the lengths that are used here.
pub const OLDEST_MINOR: u32 = 31;
/// Newest minor version whose rules are followed.
pub const NEWEST_MINOR: u32 = 45;

/// Node id of the root of every file system (`FUSE_ROOT_ID`).
pub const ROOT_ID: u64 = 1;

/// Bytes of `fuse_in_header`, before every request.
pub const IN_HEADER: usize = 40;
/// Bytes of `fuse_write_in`, between the header of a write and its payload.
pub const WRITE_IN: usize = 40;
/// Bytes of `fuse_out_header`, before every reply.
pub const OUT_HEADER: usize = 16;
/// Bytes of `fuse_entry_out`, a name that was found.
pub const ENTRY_OUT: usize = 128;
/// Bytes of `fuse_attr`, the attributes of a file.
pub const ATTR: usize = 88;
/// Bytes of `fuse_dirent` without the name.
pub const DIRENT: usize = 24;

/// Kinds of requests (`enum fuse_opcode`).
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const TMPFILE: u32 = 51;
}

/// Flags of `FUSE_INIT`, those of both fields in one number (`flags2` is the upper half).
pub mod init {
    /// Reads of one file may be in flight side by side.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// Writes may be longer than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// Directory listings may bring the attributes of their entries along.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    /// One direct request of a program may be several requests in flight.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Buffered writes stay in the page cache until later.
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    /// Files need not be opened: after `ENOSYS` the kernel does not ask again, and keeps cached pages.
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    /// Lookups and listings in one directory may be in flight side by side.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// The reply has a field for the largest number of pages in a request.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// Targets of symbolic links stay in the page cache.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// As [`NO_OPEN_SUPPORT`], for directories, whose listings are then cached.
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    /// The second field of flags is there.
    pub const INIT_EXT: u64 = 1 << 30;
    /// Files opened with [`super::open::DIRECT_IO`] can be mapped into memory, shared.
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// Flags in the reply to `FUSE_OPEN` and `FUSE_OPENDIR` (`FOPEN_…`).
pub mod open {
    /// Reads and writes go past the page cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// Cached pages stay when the file is opened again.
    pub const KEEP_CACHE: u32 = 1 << 1;
    /// The listing of a directory may be cached.
    pub const CACHE_DIR: u32 = 1 << 3;
    /// A close need not be told where nothing was written to the page cache (since 7.36).
    pub const NOFLUSH: u32 = 1 << 5;
    /// Direct writes to one file may be in flight side by side.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Fields that a `FUSE_SETATTR` changes (`FATTR_…`).
pub mod set {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
}

/// The write comes from the page cache, so its handle is any open one (`FUSE_WRITE_CACHE`).
pub const WRITE_CACHE: u32 = 1 << 0;
/// Only data has to be made durable (`FUSE_FSYNC_FDATASYNC`).
pub const FSYNC_FDATASYNC: u32 = 1 << 0;

/// Modes of `FUSE_FALLOCATE` (`fallocate(2)`).
pub mod fallocate {
    pub const KEEP_SIZE: u32 = 0x01;
    pub const PUNCH_HOLE: u32 = 0x02;
    pub const ZERO_RANGE: u32 = 0x10;
}

/// Directions of `FUSE_LSEEK` (`lseek(2)`).
pub mod seek {
    pub const DATA: u32 = 3;
    pub const HOLE: u32 = 4;
}
