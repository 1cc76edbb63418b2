//! A file system that `mke2fs` made, as a file system in user space would ask for it: by inodes, places and offsets.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test may panic"
)]

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use scrim_backend::{Backend, MemoryBackend};
use scrim_files::{Inode, Kind, LastLink, Missing, ReadMode, Span, Tree};
use scrim_volume::{CryptTable, DataPath, Volume};

/// Makes a file system of a folder and opens it; `None` where mke2fs is missing.
fn tree(folder: &Path, options: &str) -> Option<Tree> {
    let image = folder.join("image");
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let mut command = Command::new("mke2fs");
    command.env("PATH", path).args(["-q", "-F", "-d"]);
    command
        .arg(folder.join("tree"))
        .args(options.split(' '))
        .arg(&image);
    match command.status() {
        Ok(status) => assert!(status.success(), "mke2fs {options}: {status}"),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "mke2fs in CI: {error}");
            println!("skipped: mke2fs: {error}");
            return None;
        }
    }
    let bytes = fs::read(&image).unwrap();
    let sectors = bytes.len() / 512;
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new(bytes));
    let table = CryptTable::parse(&format!("0 {sectors} linear image 0")).unwrap();
    let volume = Volume::start(table, DataPath::Inline, |_| Ok(Arc::clone(&backend)));
    Some(Tree::open(volume.unwrap(), true).unwrap())
}

fn found(tree: &Tree, path: &str) -> Inode {
    let found = tree.find(path.as_bytes(), LastLink::Keep).unwrap();
    Inode::clone(found.unwrap().last())
}

fn missing(tree: &Tree, path: &str) -> Missing {
    tree.find(path.as_bytes(), LastLink::Follow)
        .unwrap()
        .unwrap_err()
}

/// Names and places of the entries from a place on.
fn names(tree: &Tree, folder: &Inode, from: u64) -> Vec<(Vec<u8>, u64)> {
    let mut names = Vec::new();
    tree.list(folder, from, |entry| {
        names.push((entry.name.to_vec(), entry.next));
        ControlFlow::Continue(())
    })
    .unwrap();
    names
}

#[test]
fn a_folder_is_read_on_from_every_place() {
    let place = tempfile::tempdir().unwrap();
    let many = place.path().join("tree/many");
    fs::create_dir_all(&many).unwrap();
    for number in 0..500 {
        fs::write(many.join(format!("name-{number}")), "").unwrap();
    }
    fs::create_dir_all(place.path().join("tree/few")).unwrap();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        fs::write(place.path().join("tree/few").join(name), "").unwrap();
    }
    for options in ["-t ext4 -b 1024", "-t ext4 -b 4096 -O inline_data -I 256"] {
        let Some(tree) = tree(place.path(), options) else {
            return;
        };
        for (folder, count) in [("/many", 500), ("/few", 9)] {
            let folder = found(&tree, folder);
            let all = names(&tree, &folder, 0);
            assert_eq!(all.len(), count, "{options}");
            for (nth, (_, next)) in all.iter().enumerate() {
                assert_eq!(names(&tree, &folder, *next), all[nth + 1..], "{options}");
            }
            assert_eq!(names(&tree, &folder, u64::MAX), []);
        }
    }
}

#[test]
fn paths_follow_links_and_say_why_they_end() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("tree");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/b/file"), "x").unwrap();
    for (target, name) in [
        ("/a/b", "absolute"),
        ("../../../../a", "a/b/up"),
        ("circle", "circle"),
        ("absolute/file", "file"),
    ] {
        symlink(target, root.join(name)).unwrap();
    }
    let Some(tree) = tree(place.path(), "-t ext4") else {
        return;
    };
    let wanted = found(&tree, "/a/b/file").number();
    for path in [
        "/absolute/file",
        "a//./b/../b/file",
        "/a/b/up/b/file",
        "/../../a/b/file",
        "/absolute/up/b/up/b/file",
    ] {
        assert_eq!(found(&tree, path).number(), wanted, "{path}");
    }
    assert_eq!(found(&tree, "/file").kind(), Kind::Link);
    assert_eq!(found(&tree, "/absolute/").kind(), Kind::Folder);
    let name = |name: &str| Missing::Name(name.as_bytes().into());
    let not_in = |name: &str| Missing::NotInFolder(name.as_bytes().into());
    assert_eq!(missing(&tree, "/a/none/x"), name("none"));
    assert_eq!(missing(&tree, "/a/b/file/x"), not_in("x"));
    assert_eq!(missing(&tree, "/a/b/file/"), not_in(""));
    assert_eq!(missing(&tree, "/a/b/file/.."), not_in(".."));
    assert_eq!(missing(&tree, "/circle"), Missing::Links);
    assert_eq!(missing(&tree, &"a/../".repeat(5000)), Missing::TooLong);
}

#[test]
fn threads_read_one_file_at_any_offset() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("tree")).unwrap();
    let file = File::create(place.path().join("tree/file")).unwrap();
    let data: Vec<u8> = (0..100_000_u32)
        .map(|number| (number % 251) as u8)
        .collect();
    file.write_all_at(&data, 1 << 20).unwrap();
    file.set_len(3 << 20).unwrap();
    let bytes = fs::read(place.path().join("tree/file")).unwrap();
    for options in ["-t ext4 -b 1024", "-t ext2 -b 1024", "-t ext4 -b 4096"] {
        let Some(tree) = tree(place.path(), options) else {
            return;
        };
        let inode = Arc::new(found(&tree, "/file"));
        let file = tree.file(inode).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (file, bytes) = (&file, &bytes);
                scope.spawn(move || {
                    let mut into = vec![1; 70_000];
                    for nth in 0..40 {
                        let offset = (nth * 4 + thread) * 23_001 % bytes.len();
                        let read = file.read_at(&mut into, offset as u64, ReadMode::Wait);
                        let end = bytes.len().min(offset + into.len());
                        assert_eq!(read.unwrap(), end - offset);
                        assert!(into[..end - offset] == bytes[offset..end], "{options}");
                    }
                });
            }
        });
        // The spans cover the file, and holes are zeros.
        let (mut offset, mut holes) = (0, 0);
        loop {
            match file.span(offset, ReadMode::Wait).unwrap() {
                Span::Data(0) => break,
                Span::Data(len) => offset += len,
                Span::Hole(len) => {
                    let range =
                        usize::try_from(offset).unwrap()..usize::try_from(offset + len).unwrap();
                    assert!(bytes[range].iter().all(|&byte| byte == 0));
                    (offset, holes) = (offset + len, holes + len);
                }
            }
        }
        assert_eq!(offset, bytes.len() as u64);
        assert!(holes > 2 << 20, "{options}: {holes}");
        assert!(tree.is_unchanged().unwrap());
    }
}
