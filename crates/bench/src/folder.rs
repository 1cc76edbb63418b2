//! Folders that go with the measurement that made them.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use scrim_sys::file_system::FileSystem;

/// A folder of ours alone, which is removed with this.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes a folder in `base`, with the number of this process in its name.
    pub(crate) fn make(base: &Path, prefix: &str) -> io::Result<Self> {
        let mut number = 0;
        loop {
            let path = base.join(format!("{prefix}-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                // A process with this number may have been killed and have left its folder.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes what processes that were killed have left in `base`: folders with the number of a process that
    /// does not run, as far as permissions allow. A lock would not tell: a process that makes a socket in a
    /// folder locks it too.
    pub(crate) fn sweep(base: &Path, prefix: &str) {
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let rest = name
                .strip_prefix(prefix)
                .and_then(|rest| rest.strip_prefix('-'));
            let owner = rest
                .and_then(|rest| rest.split_once('-'))
                .and_then(|(owner, _)| owner.parse().ok());
            let is_left = |owner| test_kill_process(owner) == Err(Errno::SRCH);
            if owner.and_then(Pid::from_raw).is_some_and(is_left) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes that are free in a folder in memory; `None` where it is on a disk.
pub(crate) fn free_memory(folder: &Path) -> Option<u64> {
    let there = FileSystem::at(folder).ok()?;
    there.is_tmpfs.then_some(there.free_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dead_have_left_is_swept() {
        let base = Folder::make(&std::env::temp_dir(), "scrim-sweep").unwrap();
        let living = Folder::make(base.path(), "kept").unwrap();
        // There is no number as high (PID_MAX_LIMIT).
        let dead = base.path().join("kept-2000000000-0");
        fs::create_dir(&dead).unwrap();
        let other = base.path().join("kept-x-0");
        fs::create_dir(&other).unwrap();
        Folder::sweep(base.path(), "kept");
        assert!(living.path().exists() && other.exists() && !dead.exists());
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
