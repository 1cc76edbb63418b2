//! The ways in which a mount begins and ends.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use scrim_export::fuse::{
    Attributes, DirectoryEntry, DirectoryFault, Entry, FileError, FileKind, FileTree, MountError,
    MountOptions, OpenFile, PageCache, ROOT_ID, RawFile, Statistics, Time, UnmountError,
};

use crate::common::{NAME, SIZE, Stage, alone, is_mounted, mounted, volume};

#[test]
fn a_busy_mount_stays_until_nothing_uses_it() {
    let Some(stage) = Stage::set() else { return };
    let file = stage.open();
    let busy = stage.mounted.unmount();
    assert!(matches!(busy, Err(UnmountError::Busy { .. })), "{busy:?}");
    assert!(!stage.mounted.ended());
    file.read_exact_at(&mut [0; 512], 0).unwrap();
    drop(file);
    stage.end();
}

#[test]
fn a_mount_ends_when_somebody_else_unmounts_it() {
    let Some(stage) = Stage::set() else { return };
    let directory = stage.mounted.directory().to_owned();
    assert!(!stage.mounted.ended());
    let mut umount = Command::new("fusermount3");
    assert!(umount.arg("-u").arg(&directory).status().unwrap().success());
    stage.mounted.wait();
    assert!(stage.mounted.ended());
    stage.mounted.unmount().unwrap();
    assert!(!is_mounted(&directory));
    stage.end();
}

#[test]
fn a_stop_ends_requests_of_programs_that_still_use_it() {
    let Some(stage) = Stage::set() else { return };
    let file = stage.open();
    let directory = stage.mounted.directory().to_owned();
    assert_eq!(stage.mounted.stop(), 0);
    assert!(!is_mounted(&directory));
    let error = file.read_at(&mut [0; 512], 0).unwrap_err();
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    assert!(
        matches!(errno, Some(Errno::NOTCONN | Errno::CONNABORTED)),
        "{error}"
    );
}

#[test]
fn a_stop_leaves_a_thread_that_waits_for_the_storage() {
    let Some(stage) = Stage::set() else { return };
    let (begun, first) = std::sync::mpsc::channel();
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let hook = move || {
        begun.send(()).unwrap();
        // The other end is dropped at the end.
        let _ = wait.lock().unwrap().recv();
    };
    assert!(stage.backend.on_read.set(Box::new(hook)).is_ok());
    let file = stage.open();
    let reader = std::thread::spawn(move || file.read_at(&mut [0; 4096], 0));
    first.recv().unwrap();
    let directory = stage.mounted.directory().to_owned();
    assert_eq!(stage.mounted.stop(), 1);
    assert!(!is_mounted(&directory));
    drop(go_on);
    // The data, or an error: but an answer.
    let _ = reader.join().unwrap();
}

#[test]
fn dropping_it_takes_the_mount_away() {
    let Some(stage) = Stage::set() else { return };
    let directory = stage.mounted.directory().to_owned();
    assert!(is_mounted(&directory));
    assert!(stage.mounted.is_guarded());
    drop(stage);
    assert!(!is_mounted(&directory));
}

#[test]
fn folders_that_do_not_suit_are_refused() {
    let Some(stage) = Stage::set() else { return };
    let (other, _) = volume("");
    let tree = Arc::new(RawFile::new(other, NAME).unwrap());
    let start = |path: &Path| {
        let tree = Arc::clone(&tree) as Arc<dyn FileTree>;
        match scrim_export::fuse::Mounted::start(tree, path, &MountOptions::default()) {
            Err(MountError::Directory { fault, .. }) => Some(fault),
            _ => None,
        }
    };
    let directory = stage.mounted.directory().to_owned();
    assert!(matches!(
        start(&directory),
        Some(DirectoryFault::MountPoint)
    ));
    let missing = std::env::temp_dir().join("scrim-no-such-folder");
    assert!(matches!(start(&missing), Some(DirectoryFault::Absent)));
    assert!(matches!(
        start(&stage.path()),
        Some(DirectoryFault::NotDirectory)
    ));
    stage.end();
}

/// A tree whose one file fails in different ways, and whose folder has many files.
struct Broken;

const MANY: u64 = 5000;

impl Broken {
    fn at(node: u64) -> Attributes {
        let is_root = node == ROOT_ID;
        Attributes {
            inode: node,
            size: if is_root { 0 } else { SIZE },
            blocks: 0,
            accessed: Time::default(),
            modified: Time::default(),
            changed: Time::default(),
            kind: match is_root {
                true => FileKind::Directory,
                false => FileKind::Regular,
            },
            permissions: 0o755,
            links: 1,
            uid: 0,
            gid: 0,
            device: 0,
            block_size: 4096,
        }
    }
}

impl FileTree for Broken {
    fn lookup(&self, _parent: u64, name: &[u8]) -> Result<Entry, FileError> {
        let name = std::str::from_utf8(name).map_err(|_| Errno::NOENT)?;
        let number: u64 = name.parse().map_err(|_| Errno::NOENT)?;
        Ok(Entry {
            node: 10 + number,
            generation: 0,
            attributes: Self::at(10 + number),
        })
    }

    fn attributes(&self, node: u64) -> Result<Attributes, FileError> {
        Ok(Self::at(node))
    }

    fn open(&self, node: u64, _writes: bool) -> Result<u64, FileError> {
        Ok(node)
    }

    fn read(&self, file: OpenFile, _offset: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        match file.handle {
            10 => panic!("a fault of the tree"),
            11 => Err(FileError::new(Errno::IO, "the storage is gone")),
            _ => {
                buffer.fill(7);
                Ok(buffer.len().min(100))
            }
        }
    }

    fn read_directory(
        &self,
        _directory: OpenFile,
        cursor: u64,
        sink: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<(), FileError> {
        for number in cursor..MANY {
            let name = number.to_string();
            let entry = DirectoryEntry {
                inode: 10 + number,
                kind: FileKind::Regular,
                name: name.as_bytes(),
                next: number + 1,
            };
            if !sink(&entry) {
                break;
            }
        }
        Ok(())
    }

    fn statistics(&self) -> Result<Statistics, FileError> {
        Err(Errno::NOSYS.into())
    }
}

#[test]
fn a_fault_of_a_tree_fails_one_request() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let Some(mounted) = mounted(Arc::new(Broken), folder.path(), &MountOptions::default()) else {
        return;
    };
    let read = |name: &str| {
        let mut data = Vec::new();
        let file = File::open(folder.path().join(name)).unwrap();
        file.take(100).read_to_end(&mut data).map(|_| data)
    };
    for name in ["0", "1", "0"] {
        let error = read(name).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    }
    assert_eq!(read("2").unwrap(), [7; 100]);
    let reasons: Vec<_> = mounted.failures().into_iter().map(|f| f.reason).collect();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert_eq!(reasons[1], "the storage is gone");
    mounted.unmount().unwrap();
    assert_eq!(mounted.stop(), 0);
}

#[test]
fn a_large_folder_is_listed_whole_with_attributes() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for cache in [PageCache::Bypass, PageCache::WriteBack] {
        let options = MountOptions {
            cache,
            read_only: true,
            ..MountOptions::default()
        };
        let Some(mounted) = mounted(Arc::new(Broken), folder.path(), &options) else {
            return;
        };
        for _ in 0..2 {
            let mut numbers: Vec<u64> = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| {
                    let entry = entry.unwrap();
                    assert_eq!(entry.metadata().unwrap().len(), SIZE);
                    entry.file_name().to_str().unwrap().parse().unwrap()
                })
                .collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..MANY));
        }
        mounted.unmount().unwrap();
        assert_eq!(mounted.stop(), 0);
    }
}
