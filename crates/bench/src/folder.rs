//! Folders that go with the measurement that made them.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, getuid, test_kill_process};
use scrim_sys::file_system::FileSystem;

/// Name of the file that tells a folder of ours from a user's. It names the PID namespace of the folder's process.
const MARKER: &str = ".scrim-bench";

/// A folder of ours alone, which is removed with this.
pub struct Folder(PathBuf);

impl Folder {
    /// Makes a folder in `base`, with the number of this process in its name.
    ///
    /// # Errors
    /// When it cannot be made, or its marker cannot be written.
    pub fn make(base: &Path, prefix: &str) -> io::Result<Self> {
        let mut number = 0;
        loop {
            let path = base.join(format!("{prefix}-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let folder = Self(path);
                    fs::write(folder.0.join(MARKER), pid_namespace()?)?;
                    return Ok(folder);
                }
                // A process with this number may have been killed and have left its folder.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes what processes of this user that were killed have left in `base`: folders that [`Folder::make`] made,
    /// with the number of a process that does not run. A lock would not tell: a process that makes a socket in a
    /// folder locks it too.
    pub fn sweep(base: &Path, prefix: &str) {
        let Ok(namespace) = pid_namespace() else {
            return;
        };
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| owner_of(name, prefix));
            let is_left = |owner| test_kill_process(owner) == Err(Errno::SRCH);
            if owner.is_some_and(is_left) && is_ours(&entry.path(), &namespace) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the process in a name `PREFIX-PID-NUMBER`.
fn owner_of(name: &str, prefix: &str) -> Option<Pid> {
    let (owner, number) = name
        .strip_prefix(prefix)?
        .strip_prefix('-')?
        .split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(owner) || !is_number(number) {
        return None;
    }
    Pid::from_raw(owner.parse().ok()?)
}

/// Returns whether `path` is a directory of this user with a marker of this PID namespace. A process number means
/// nothing in another namespace.
fn is_ours(path: &Path, namespace: &str) -> bool {
    let is_own = fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == getuid().as_raw());
    let marker = path.join(MARKER);
    is_own
        && fs::symlink_metadata(&marker).is_ok_and(|found| found.is_file() && found.len() < 256)
        && fs::read(&marker).is_ok_and(|text| text == namespace.as_bytes())
}

fn pid_namespace() -> io::Result<String> {
    let namespace = fs::read_link("/proc/self/ns/pid")?;
    Ok(namespace.to_string_lossy().into_owned())
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
        let others = [
            "kept-x-0",
            "kept-2000000000-11-25",
            "kept-2000000000-x",
            "kept-2000000000-1",
            "kept-2000000000-2",
        ]
        .map(|name| base.path().join(name));
        for folder in others.iter().chain([&dead]) {
            fs::create_dir(folder).unwrap();
        }
        // One folder has no marker, and one has that of another namespace.
        for folder in others[..3].iter().chain([&dead]) {
            fs::write(folder.join(MARKER), pid_namespace().unwrap()).unwrap();
        }
        fs::write(others[4].join(MARKER), "pid:[1]").unwrap();
        let link = base.path().join("kept-2000000000-3");
        std::os::unix::fs::symlink(living.path(), &link).unwrap();
        Folder::sweep(base.path(), "kept");
        assert!(living.path().exists() && link.exists() && !dead.exists());
        assert!(others.iter().all(|folder| folder.exists()));
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
