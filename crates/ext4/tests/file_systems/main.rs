//! File systems as `mke2fs` makes them, with features and without, read back byte by byte. What they must hold is
//! the folder that they were made of.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test may panic"
)]

mod index;
mod makers;
#[path = "../../../../tests/support/noise.rs"]
mod noise;
mod tools;
mod tree;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use scrim_ext4::{FileSystem, Inode, Place, ROOT, ReadMode};
use tempfile::TempDir;

use noise::noise;
use tools::Tools;
use tree::{Found, all, budget, content, expected, open, tree};

/// Makes a file system with these options and compares all of it with the tree.
#[track_caller]
fn check(tools: &Tools, options: &str, tree: &Path, wanted: &Found) {
    let place = TempDir::new().unwrap();
    let Some(image) = tools.image(place.path(), options, tree, 64) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "mke2fs {options} fails in CI"
        );
        println!("skipped: this mke2fs cannot {options}");
        return;
    };
    let fs = open(&image).unwrap_or_else(|error| panic!("{options}: {error}"));
    let all = all(&fs, &image);
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
    let Some(tools) = Tools::of_this_system() else {
        return;
    };
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
        check(&tools, options, &tree, &wanted);
    }
}

fn lookup(fs: &FileSystem, name: &str) -> Inode {
    let root = fs.inode(ROOT, ReadMode::Wait).unwrap();
    let number = fs
        .lookup(&root, name.as_bytes(), &budget())
        .unwrap()
        .unwrap();
    fs.inode(number, ReadMode::Wait).unwrap()
}

#[test]
fn a_fragmented_file_with_a_deep_tree_of_extents_is_read_whole() {
    let Some(tools) = Tools::of_this_system() else {
        return;
    };
    for options in ["-t ext4 -b 1024", "-t ext2 -b 1024"] {
        let place = TempDir::new().unwrap();
        let tree = place.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let image = tools.image(place.path(), options, &tree, 32).unwrap();
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
        tools.debugfs(&image, &commands);
        let fs = open(&image).unwrap();
        let inode = lookup(&fs, "file");
        assert!(content(&fs, &image, &inode) == bytes, "{options}");
        let first = fs.run(&inode, 0, ReadMode::Wait).unwrap();
        assert!(first.len < 100_000, "{options}: it is in one piece");
    }
}

#[test]
fn what_was_reserved_and_never_written_reads_as_zeros() {
    let Some(tools) = Tools::of_this_system() else {
        return;
    };
    let place = TempDir::new().unwrap();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let secret = noise(1 << 20, 3);
    fs::write(tree.join("old"), &secret).unwrap();
    let image = tools
        .image(place.path(), "-t ext4 -b 4096", &tree, 16)
        .unwrap();
    // The blocks of a removed file, which still hold its bytes, are reserved for another.
    let new = place.path().join("new");
    fs::write(&new, "").unwrap();
    let commands = format!(
        "rm old\nwrite {} new\nfallocate new 0 255\nset_inode_field new size 1048576\n",
        new.display()
    );
    tools.debugfs(&image, &commands);
    let fs = open(&image).unwrap();
    let inode = lookup(&fs, "new");
    assert!(content(&fs, &image, &inode) == vec![0; 1 << 20]);
}

#[test]
fn a_place_far_in_a_large_sparse_file_is_found_at_once() {
    let Some(tools) = Tools::of_this_system() else {
        return;
    };
    let place = TempDir::new().unwrap();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let file = File::create(tree.join("large")).unwrap();
    file.set_len(40 << 30).unwrap();
    let far = (33 << 30) + 4096;
    file.write_all_at(b"here", far).unwrap();
    let image = tools.image(place.path(), "-t ext4", &tree, 16).unwrap();
    let fs = open(&image).unwrap();
    let inode = lookup(&fs, "large");
    assert_eq!(inode.size(), 40 << 30);
    let run = fs.run(&inode, 1, ReadMode::Wait).unwrap();
    assert_eq!((run.place, run.len), (Place::Zeros, far - 1));
    let run = fs.run(&inode, far, ReadMode::Wait).unwrap();
    let Place::At(at) = run.place else {
        panic!("it is there");
    };
    let mut bytes = [0; 4];
    File::open(&image)
        .unwrap()
        .read_exact_at(&mut bytes, at)
        .unwrap();
    assert_eq!(&bytes, b"here");
    assert_eq!(fs.run(&inode, 40 << 30, ReadMode::Wait).unwrap().len, 0);
}

#[test]
fn what_cannot_be_served_says_why() {
    let Some(tools) = Tools::of_this_system() else {
        return;
    };
    let place = TempDir::new().unwrap();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let fresh = || tools.image(place.path(), "-t ext4", &tree, 16).unwrap();
    let says = |image: &Path| match open(image) {
        Ok(_) => panic!("it is opened"),
        Err(error) => error.to_string(),
    };
    let image = fresh();
    tools.debugfs(&image, "feature needs_recovery\n");
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
