//! Trees of which file systems are made, and trees that are found in them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crate::noise::noise;
use scrim_ext4::{Budget, Device, Error, FileSystem, Inode, Kind, Place, ROOT, ReadMode};

/// An image in a file.
pub(crate) struct Image(pub(crate) File);

impl Device for Image {
    fn read(&self, offset: u64, into: &mut [u8], _: ReadMode) -> io::Result<()> {
        self.0.read_exact_at(into, offset)
    }
}

/// More than a search of these tests takes.
pub(crate) fn budget() -> Budget {
    Budget::new(1 << 30)
}

/// A tree with what file systems have: files of all lengths around blocks, holes, names, links, many names.
pub(crate) fn tree(place: &Path) -> PathBuf {
    let root = place.join("tree");
    fs::create_dir_all(root.join("a/b/c/d/e/f")).unwrap();
    let lens = [
        0, 1, 59, 60, 61, 100, 150, 1023, 1024, 1025, 4095, 4096, 4097, 70_000, 700_000,
    ];
    for (seed, len) in lens.into_iter().enumerate() {
        fs::write(root.join(format!("a/{len}")), noise(len, seed as u64)).unwrap();
    }
    fs::write(root.join("a/b/c/d/e/f/deep"), "deep").unwrap();
    fs::create_dir(root.join("many")).unwrap();
    for number in 0..600 {
        let name = format!("many/a name that is long enough to fill blocks with {number}");
        fs::write(root.join(name), number.to_string()).unwrap();
    }
    fs::create_dir(root.join("odd")).unwrap();
    let names: [&[u8]; 6] = [
        b"\xff\xfe",
        b"line\nbreak",
        b"\"quoted' \\",
        b" ",
        &[b'n'; 255],
        "ä".as_bytes(),
    ];
    for name in names {
        fs::write(root.join("odd").join(OsStr::from_bytes(name)), name).unwrap();
    }
    let sparse = File::create(root.join("sparse")).unwrap();
    for offset in [0, 300_000, 5_000_000] {
        sparse.write_all_at(&noise(5000, offset), offset).unwrap();
    }
    sparse.set_len(9_000_000).unwrap();
    symlink("a/100", root.join("short")).unwrap();
    symlink("x".repeat(59), root.join("59")).unwrap();
    symlink("x".repeat(60), root.join("60")).unwrap();
    symlink("y".repeat(900), root.join("long")).unwrap();
    root
}

pub(crate) fn open(image: &Path) -> Result<FileSystem, Error> {
    FileSystem::open(Box::new(Image(File::open(image).unwrap())))
}

/// All of a file, as its runs say.
pub(crate) fn content(fs: &FileSystem, image: &Path, inode: &Inode) -> Vec<u8> {
    if let Some(inline) = inode.inline() {
        return inline.to_vec();
    }
    let file = File::open(image).unwrap();
    let mut content = Vec::new();
    while (content.len() as u64) < inode.size() {
        let run = fs.run(inode, content.len() as u64, ReadMode::Wait).unwrap();
        assert!(run.len > 0);
        let from = content.len();
        content.resize(from + usize::try_from(run.len).unwrap(), 0);
        if let Place::At(at) = run.place {
            file.read_exact_at(&mut content[from..], at).unwrap();
        }
    }
    assert_eq!(content.len() as u64, inode.size());
    content
}

/// Content of a tree: each path with its content, a link's target or nothing for a folder, and its time.
pub(crate) type Found = BTreeMap<Vec<u8>, (Vec<u8>, i64)>;

pub(crate) fn found(fs: &FileSystem, image: &Path, inode: &Inode, path: &[u8], into: &mut Found) {
    let mut names = Vec::new();
    fs.entries(inode, &budget(), |entry| {
        names.push((entry.name.to_vec(), entry.inode));
        ControlFlow::Continue(())
    })
    .unwrap();
    for (name, number) in names {
        assert_eq!(fs.lookup(inode, &name, &budget()).unwrap(), Some(number));
        let child = fs.inode(number, ReadMode::Wait).unwrap();
        let path = [path, b"/", &name].concat();
        if path == b"/lost+found" {
            continue;
        }
        let bytes = match child.kind() {
            Kind::Folder => {
                found(fs, image, &child, &path, into);
                Vec::new()
            }
            Kind::Link => fs.target(&child).unwrap(),
            Kind::File => content(fs, image, &child),
            other => panic!("there is no {other:?} in the tree"),
        };
        into.insert(path, (bytes, child.modified().0));
    }
}

pub(crate) fn expected(folder: &Path, path: &[u8], into: &mut Found) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = [path, b"/", entry.file_name().as_bytes()].concat();
        let metadata = entry.metadata().unwrap();
        let bytes = if metadata.is_dir() {
            expected(&entry.path(), &path, into);
            Vec::new()
        } else if metadata.is_symlink() {
            fs::read_link(entry.path())
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        } else {
            fs::read(entry.path()).unwrap()
        };
        into.insert(path, (bytes, metadata.mtime()));
    }
}

/// All of a file system.
pub(crate) fn all(fs: &FileSystem, image: &Path) -> Found {
    let root = fs.inode(ROOT, ReadMode::Wait).unwrap();
    let mut all = Found::new();
    found(fs, image, &root, b"", &mut all);
    all
}
