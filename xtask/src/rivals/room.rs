//! A place for images and sockets that is cleared away at the end, and the wish to end early.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use scrim_sys::file_system::{FileSystem, SHARED_MEMORY};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::error::{Doing, Error};

/// A directory on a tmpfs, removed when this is dropped.
pub(super) struct Room {
    directory: TempDir,
    interrupted: Arc<AtomicBool>,
    /// True if it is in memory, as it should be: else the disk is measured too.
    pub(super) in_memory: bool,
}

impl Room {
    /// From here on SIGINT, SIGTERM and SIGHUP only make [`Room::check`] fail.
    pub(super) fn new() -> Result<Self, Error> {
        let (place, in_memory) = place();
        Self::make(&place, in_memory)
    }

    /// The same in a directory on a disk, which is to be measured too.
    pub(super) fn on_disk(directory: &Path) -> Result<Self, Error> {
        Self::make(directory, is_tmpfs(directory))
    }

    fn make(place: &Path, in_memory: bool) -> Result<Self, Error> {
        let directory = tempfile::Builder::new()
            .prefix("scrim-rivals-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(place)
            .doing(|| format!("make a directory in {}", place.display()))?;
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))
                .doing(|| "handle signals".to_owned())?;
        }
        let room = Self {
            directory,
            interrupted,
            in_memory,
        };
        let runtime = room.runtime_directory();
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&runtime)
            .doing(|| format!("make {}", runtime.display()))?;
        Ok(room)
    }

    /// Fails if a signal has asked the tool to stop.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a small file in this room.
    pub(super) fn write(&self, name: &str, content: &str) -> Result<PathBuf, Error> {
        let path = self.path(name);
        fs::write(&path, content).doing(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// A command that works in this room and keeps its runtime files there.
    pub(super) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .current_dir(self.directory.path())
            .env("XDG_RUNTIME_DIR", self.runtime_directory())
            .env("LC_ALL", "C");
        command
    }

    /// Fails unless `needed` bytes are free here, and in memory where the room is in memory.
    pub(super) fn reserve(&self, needed: u64) -> Result<(), Error> {
        let place = self.directory.path();
        let there = FileSystem::at(place).doing(|| format!("look at {}", place.display()))?;
        let mut free = there.free_bytes;
        if self.in_memory {
            free = free.min(available_memory().unwrap_or(free));
        }
        if free < needed {
            return Err(Error::Room {
                place: place.to_path_buf(),
                needed,
                free,
            });
        }
        Ok(())
    }

    fn runtime_directory(&self) -> PathBuf {
        self.path("runtime")
    }
}

/// The user's choice where it is a tmpfs, else the usual tmpfs; and whether it is one at all.
fn place() -> (PathBuf, bool) {
    let places = [std::env::temp_dir(), PathBuf::from(SHARED_MEMORY)];
    let tmpfs = places.into_iter().find(|place| is_tmpfs(place));
    let in_memory = tmpfs.is_some();
    (tmpfs.unwrap_or_else(std::env::temp_dir), in_memory)
}

fn is_tmpfs(path: &Path) -> bool {
    FileSystem::at(path).is_ok_and(|there| there.is_tmpfs)
}

fn available_memory() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}
