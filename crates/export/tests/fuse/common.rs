//! A volume in memory that notes what reaches its storage, mounted in a folder of its own.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scrim_backend::Backend;
use scrim_export::fuse::{
    FileTree, MountError, MountOptions, Mounted, PageCache, PunchHole, RawFile,
};
use scrim_seeded::Random;
use scrim_volume::{CryptTable, DataPath, Volume};

#[path = "../common/storage.rs"]
mod storage;

use storage::{Counting, crypt_table};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const SIZE: u64 = 16 * MIB;
pub(crate) const NAME: &str = "disk";

/// An encrypted volume, whose table has `options` at its end.
pub(crate) fn volume(options: &str) -> (Arc<Volume>, Arc<Counting>) {
    let backend = Counting::new(SIZE);
    let open = |_: &str| Ok(Arc::clone(&backend) as Arc<dyn Backend>);
    let table =
        CryptTable::parse(&crypt_table(SIZE, options)).unwrap_or_else(|error| panic!("{error}"));
    let volume = Volume::start(table, DataPath::Inline, open);
    let volume = volume.unwrap_or_else(|error| panic!("{error}"));
    (Arc::new(volume), backend)
}

/// Locks out other tests of this process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Mounts a tree, unless this machine does not allow that: then the test is skipped, unless `CI` is set.
pub(crate) fn mounted(
    tree: Arc<dyn FileTree>,
    directory: &Path,
    options: &MountOptions,
) -> Option<Mounted> {
    match Mounted::start(tree, directory, options) {
        Ok(mounted) => Some(mounted),
        Err(error @ (MountError::NoDevice(_) | MountError::NoHelper)) => {
            skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Skips a test, unless `CI` is set.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "{reason}");
    println!("skipped: {reason}");
}

/// Runs a program that may be missing here: then the test is skipped.
pub(crate) fn tool(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip(&format!("{} is missing", command.get_program().display()));
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
}

/// A mounted volume, with its storage.
pub(crate) struct Stage {
    pub(crate) mounted: Mounted,
    pub(crate) volume: Arc<Volume>,
    pub(crate) backend: Arc<Counting>,
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    /// Mounts a volume with the usual options.
    pub(crate) fn set() -> Option<Self> {
        Self::with("", PunchHole::Refuse, &MountOptions::default())
    }

    /// Mounts a volume whose plaintext may stay in the page cache.
    pub(crate) fn cached() -> Option<Self> {
        let options = MountOptions {
            cache: PageCache::WriteBack,
            ..MountOptions::default()
        };
        Self::with("", PunchHole::Refuse, &options)
    }

    pub(crate) fn with(table: &str, holes: PunchHole, options: &MountOptions) -> Option<Self> {
        let alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let (volume, backend) = volume(table);
        let tree = RawFile::new(Arc::clone(&volume), NAME).unwrap();
        let tree = Arc::new(tree.with_holes(holes));
        let mounted = mounted(tree, folder.path(), options)?;
        Some(Self {
            mounted,
            volume,
            backend,
            folder,
            _alone: alone,
        })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }

    pub(crate) fn open(&self) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).open(self.path()).unwrap()
    }

    /// Plaintext of the volume, read past the mount.
    pub(crate) fn plaintext(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.volume.read(offset, &mut data).unwrap();
        data
    }

    /// Ends it in order, and checks that nothing is left.
    pub(crate) fn end(self) {
        let failures = self.mounted.failures();
        assert!(failures.is_empty(), "{failures:?}");
        self.mounted
            .unmount()
            .unwrap_or_else(|error| panic!("{error}"));
        self.mounted.wait();
        assert_eq!(self.mounted.stop(), 0);
        assert!(!is_mounted(self.folder.path()));
    }
}

/// Returns whether the kernel's table has a mount on a folder. It does not look at the mount itself.
pub(crate) fn is_mounted(directory: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let point = format!(" {} ", directory.display());
    table.lines().any(|line| line.contains(&point))
}

/// Bytes that differ from place to place and from seed to seed.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    Random::new(seed).bytes(len)
}
