//! The file system that a file lies on.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FsWord, StatFs, fstatfs, statfs};

/// Folder of the usual tmpfs.
pub const SHARED_MEMORY: &str = "/dev/shm";

/// Magic number of tmpfs (`statfs(2)`).
const TMPFS: FsWord = 0x0102_1994;

/// Properties of a mounted file system, as they were when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// True for a tmpfs, whose files are in memory.
    pub is_tmpfs: bool,
    /// Bytes that an unprivileged process can still write.
    pub free_bytes: u64,
}

impl FileSystem {
    /// File system of an open file.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::new(&fstatfs(file)?))
    }

    /// File system of what lies at `path`.
    ///
    /// # Errors
    /// If there is nothing, or the kernel does not say.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::new(&statfs(path)?))
    }

    fn new(status: &StatFs) -> Self {
        let block_bytes = u64::try_from(status.f_bsize).unwrap_or(0);
        Self {
            is_tmpfs: status.f_type == TMPFS,
            free_bytes: status.f_bavail.saturating_mul(block_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_its_path_have_the_same_file_system() {
        let place = std::env::temp_dir();
        let folder = std::fs::File::open(&place).unwrap();
        let (of, at) = (FileSystem::of(&folder), FileSystem::at(&place));
        assert_eq!(of.unwrap().is_tmpfs, at.unwrap().is_tmpfs);
        assert!(FileSystem::at(Path::new("/nowhere/at/all")).is_err());
    }

    #[test]
    fn a_file_system_of_the_kernels_is_none_in_memory() {
        let processes = FileSystem::at(Path::new("/proc")).unwrap();
        assert!(!processes.is_tmpfs && processes.free_bytes == 0);
    }
}
