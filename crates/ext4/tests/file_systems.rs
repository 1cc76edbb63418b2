//! File systems as `mke2fs` makes them, with features and without, read back byte by byte. What they must hold is
//! the folder that they were made of.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test may panic"
)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scrim_ext4::{Device, Error, FileSystem, Inode, Kind, Patience, Place, ROOT};
use tempfile::TempDir;

/// An image in a file.
struct Image(File);

impl Device for Image {
    fn read(&self, offset: u64, into: &mut [u8], _: Patience) -> io::Result<()> {
        self.0.read_exact_at(into, offset)
    }
}

/// Whether the programs are there; in CI they have to be.
fn have_e2fsprogs() -> bool {
    let there = ["mke2fs", "debugfs"].iter().all(|name| {
        let path = std::env::var("PATH").unwrap_or_default() + ":/sbin:/usr/sbin";
        path.split(':')
            .any(|folder| Path::new(folder).join(name).exists())
    });
    assert!(
        there || std::env::var_os("CI").is_none(),
        "mke2fs is missing in CI"
    );
    if !there {
        println!("skipped: mke2fs or debugfs is missing (scripts/setup.sh test installs it)");
    }
    there
}

fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default() + ":/sbin:/usr/sbin";
    command
        .env("PATH", path)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Bytes that are like no others, the same for the same seed.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A tree with what file systems have: files of all lengths around blocks, holes, names, links, many names.
fn tree(place: &Path) -> PathBuf {
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

/// Makes an image of a tree; nothing where this version of mke2fs cannot.
fn image(place: &Path, options: &str, tree: &Path, mib: u64) -> Option<PathBuf> {
    let path = place.join("image");
    File::create(&path).unwrap().set_len(mib << 20).unwrap();
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F"]).args(options.split_whitespace());
    let made = mke2fs.arg("-d").arg(tree).arg(&path).status().unwrap();
    made.success().then_some(path)
}

fn open(image: &Path) -> Result<FileSystem, Error> {
    FileSystem::open(Box::new(Image(File::open(image).unwrap())))
}

/// All of a file, as its runs say.
fn content(fs: &FileSystem, image: &Path, inode: &Inode) -> Vec<u8> {
    if let Some(inline) = inode.inline() {
        return inline.to_vec();
    }
    let file = File::open(image).unwrap();
    let mut content = Vec::new();
    while (content.len() as u64) < inode.size() {
        let run = fs.run(inode, content.len() as u64, Patience::Wait).unwrap();
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

/// What a tree holds: each path with its content, a link's target or nothing for a folder, and its time.
type Found = BTreeMap<Vec<u8>, (Vec<u8>, i64)>;

fn found(fs: &FileSystem, image: &Path, inode: &Inode, path: &[u8], into: &mut Found) {
    let mut names = Vec::new();
    fs.entries(inode, |entry| {
        names.push((entry.name.to_vec(), entry.inode));
        ControlFlow::Continue(())
    })
    .unwrap();
    for (name, number) in names {
        assert_eq!(fs.lookup(inode, &name).unwrap(), Some(number));
        let child = fs.inode(number, Patience::Wait).unwrap();
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
            Kind::Other => panic!("there is no such thing in the tree"),
        };
        into.insert(path, (bytes, child.modified().0));
    }
}

fn expected(folder: &Path, path: &[u8], into: &mut Found) {
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

/// Makes a file system with these options and compares all of it with the tree.
#[track_caller]
fn check(options: &str, tree: &Path, wanted: &Found) {
    let place = TempDir::new().unwrap();
    let Some(image) = image(place.path(), options, tree, 64) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "mke2fs {options} fails in CI"
        );
        println!("skipped: this mke2fs cannot {options}");
        return;
    };
    let fs = open(&image).unwrap_or_else(|error| panic!("{options}: {error}"));
    let root = fs.inode(ROOT, Patience::Wait).unwrap();
    let mut all = Found::new();
    found(&fs, &image, &root, b"", &mut all);
    assert!(all.keys().eq(wanted.keys()), "{options}: other names");
    for (path, content) in &all {
        // mke2fs 1.47.0 gives a file with holes a wrong length then.
        if options.contains("inline_data") && path == b"/sparse" {
            continue;
        }
        assert!(
            *content == wanted[path],
            "{options}: {}",
            path.escape_ascii()
        );
    }
}

#[test]
fn file_systems_with_and_without_features_hold_what_was_put_there() {
    if !have_e2fsprogs() {
        return;
    }
    let place = TempDir::new().unwrap();
    let tree = tree(place.path());
    let mut wanted = Found::new();
    expected(&tree, b"", &mut wanted);
    for options in [
        "-t ext4",
        "-t ext4 -b 1024",
        "-t ext4 -b 2048",
        "-t ext4 -b 4096 -O 64bit",
        "-t ext4 -O ^64bit",
        "-t ext4 -O ^metadata_csum,uninit_bg",
        "-t ext4 -O metadata_csum,metadata_csum_seed",
        "-t ext4 -O ^extents,^64bit",
        "-t ext4 -O ^has_journal",
        "-t ext4 -O bigalloc -C 65536",
        "-t ext4 -O inline_data -I 256",
        "-t ext4 -O inline_data -I 1024 -b 1024",
        "-t ext4 -O large_dir",
        "-t ext4 -O casefold",
        "-t ext4 -O encrypt",
        "-t ext4 -O meta_bg,^resize_inode -b 1024 -g 1024",
        "-t ext4 -O sparse_super2 -E num_backup_sb=1",
        "-t ext4 -O ^sparse_super,^resize_inode",
        "-t ext4 -O ^flex_bg",
        "-t ext4 -O ^dir_index",
        "-t ext4 -I 128 -O ^64bit,^metadata_csum",
        "-t ext4 -O ea_inode,mmp",
        "-t ext3",
        "-t ext3 -b 1024",
        "-t ext2",
        "-t ext2 -b 1024",
        "-t ext2 -b 2048 -O ^filetype",
        "-t ext2 -b 1024 -r 0",
    ] {
        check(options, &tree, &wanted);
    }
}

/// Runs commands of debugfs on an image.
fn debugfs(image: &Path, commands: &str) {
    let mut child = program("debugfs");
    let mut child = child
        .args(["-w", "-f", "-"])
        .arg(image)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(commands.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success());
}

fn lookup(fs: &FileSystem, name: &str) -> Inode {
    let root = fs.inode(ROOT, Patience::Wait).unwrap();
    let number = fs.lookup(&root, name.as_bytes()).unwrap().unwrap();
    fs.inode(number, Patience::Wait).unwrap()
}

#[test]
fn a_fragmented_file_with_a_deep_tree_of_extents_is_read_whole() {
    if !have_e2fsprogs() {
        return;
    }
    for options in ["-t ext4 -b 1024", "-t ext2 -b 1024"] {
        let place = TempDir::new().unwrap();
        let tree = place.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let image = image(place.path(), options, &tree, 32).unwrap();
        // Small files fill the file system, and every second one goes: what is left are gaps of one block.
        let block = place.path().join("block");
        fs::write(&block, noise(1024, 7)).unwrap();
        let file = place.path().join("file");
        let bytes = noise(1_500_000, 8);
        fs::write(&file, &bytes).unwrap();
        let mut commands = String::from("mkdir filler\ncd filler\n");
        for number in 0..4000 {
            commands += &format!("write {} {number}\n", block.display());
        }
        for number in (0..4000).step_by(2) {
            commands += &format!("rm {number}\n");
        }
        commands += &format!("cd /\nwrite {} file\n", file.display());
        debugfs(&image, &commands);
        let fs = open(&image).unwrap();
        let inode = lookup(&fs, "file");
        assert!(content(&fs, &image, &inode) == bytes, "{options}");
        let first = fs.run(&inode, 0, Patience::Wait).unwrap();
        assert!(first.len < 100_000, "{options}: it is in one piece");
    }
}

#[test]
fn what_was_reserved_and_never_written_reads_as_zeros() {
    if !have_e2fsprogs() {
        return;
    }
    let place = TempDir::new().unwrap();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let secret = noise(1 << 20, 3);
    fs::write(tree.join("old"), &secret).unwrap();
    let image = image(place.path(), "-t ext4 -b 4096", &tree, 16).unwrap();
    // The blocks of a removed file, which still hold its bytes, are reserved for another.
    let new = place.path().join("new");
    fs::write(&new, "").unwrap();
    let commands = format!(
        "rm old\nwrite {} new\nfallocate new 0 255\nset_inode_field new size 1048576\n",
        new.display()
    );
    debugfs(&image, &commands);
    let fs = open(&image).unwrap();
    let inode = lookup(&fs, "new");
    assert!(content(&fs, &image, &inode) == vec![0; 1 << 20]);
}

#[test]
fn a_place_far_in_a_large_sparse_file_is_found_at_once() {
    if !have_e2fsprogs() {
        return;
    }
    let place = TempDir::new().unwrap();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let file = File::create(tree.join("large")).unwrap();
    file.set_len(40 << 30).unwrap();
    let far = (33 << 30) + 4096;
    file.write_all_at(b"here", far).unwrap();
    let image = image(place.path(), "-t ext4", &tree, 16).unwrap();
    let fs = open(&image).unwrap();
    let inode = lookup(&fs, "large");
    assert_eq!(inode.size(), 40 << 30);
    let run = fs.run(&inode, 1, Patience::Wait).unwrap();
    assert_eq!((run.place, run.len), (Place::Zeros, far - 1));
    let run = fs.run(&inode, far, Patience::Wait).unwrap();
    let Place::At(at) = run.place else {
        panic!("it is there");
    };
    let mut bytes = [0; 4];
    File::open(&image)
        .unwrap()
        .read_exact_at(&mut bytes, at)
        .unwrap();
    assert_eq!(&bytes, b"here");
    assert_eq!(fs.run(&inode, 40 << 30, Patience::Wait).unwrap().len, 0);
}

#[test]
fn what_cannot_be_served_says_why() {
    if !have_e2fsprogs() {
        return;
    }
    let place = TempDir::new().unwrap();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let fresh = || image(place.path(), "-t ext4", &tree, 16).unwrap();
    let says = |image: &Path| match open(image) {
        Ok(_) => panic!("it is opened"),
        Err(error) => error.to_string(),
    };
    let image = fresh();
    debugfs(&image, "feature needs_recovery\n");
    assert!(says(&image).contains("unmount"), "{}", says(&image));
    let image = fresh();
    let file = File::options().write(true).open(&image).unwrap();
    file.write_all_at(&[0x55], 1024 + 0x60).unwrap();
    assert!(says(&image).contains("checksum"), "{}", says(&image));
    file.write_all_at(&[0; 1024], 1024).unwrap();
    assert!(says(&image).contains("no ext2"), "{}", says(&image));
    file.set_len(1024).unwrap();
    assert!(says(&image).contains("byte 1024"), "{}", says(&image));
}
