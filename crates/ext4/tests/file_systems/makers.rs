//! File systems by several versions of mke2fs, and by others that make them. What they must hold is the tree that
//! they were made of, and what each version's own debugfs and e2fsck find in them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::lookup;
use crate::noise::noise;
use crate::tools::Tools;
use crate::tree::{Found, all, content, expected, open, tree};

/// Packages of e2fsprogs and what it needs, before and after Debian's change to 64 bits of time.
const E2FSPROGS_BEFORE_T64: [&str; 7] = [
    "e2fsprogs",
    "libext2fs2",
    "libblkid1",
    "libc6",
    "libcom-err2",
    "libss2",
    "libuuid1",
];
const E2FSPROGS: [&str; 7] = [
    "e2fsprogs",
    "libext2fs2t64",
    "libblkid1",
    "libc6",
    "libcom-err2",
    "libss2",
    "libuuid1",
];

/// A tree with a long file and a folder of thousands besides, and what it holds.
fn large_tree(place: &Path) -> (PathBuf, Found) {
    let root = tree(place);
    fs::write(root.join("large"), noise(9_000_001, 77)).unwrap();
    fs::create_dir(root.join("thousands")).unwrap();
    for number in 0..3000 {
        let name = format!("thousands/{number}");
        fs::write(root.join(name), "").unwrap();
    }
    let mut wanted = Found::new();
    expected(&root, b"", &mut wanted);
    (root, wanted)
}

/// Writes a file into what is left between many others, which are there no more.
fn add_fragmented(tools: &Tools, image: &Path, bytes: &[u8]) {
    let place = image.parent().unwrap();
    let [one, file] = ["one", "fragmented"].map(|name| place.join(name));
    fs::write(&one, noise(20_000, 7)).unwrap();
    fs::write(&file, bytes).unwrap();
    let mut commands = String::from("mkdir filler\ncd filler\n");
    for number in 0..300 {
        commands += &format!("write {} {number}\n", one.display());
    }
    for number in (0..300).step_by(2) {
        commands += &format!("rm {number}\n");
    }
    commands += &format!("cd /\nwrite {} fragmented\n", file.display());
    tools.debugfs(image, &commands);
}

/// A file, as debugfs reads it.
fn dumped(tools: &Tools, image: &Path, path: &str) -> Vec<u8> {
    let out = image.with_extension("out");
    tools.debugfs(image, &format!("dump {path} {}\n", out.display()));
    fs::read(out).unwrap()
}

/// Compares an image with `wanted`. Files below `/filler` do not belong to the tree.
fn check_against(image: &Path, wanted: &Found, has_times: bool, what: &str) {
    let fs = open(image).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut all = all(&fs, image);
    all.retain(|path, _| !path.starts_with(b"/filler") && path != b"/fragmented");
    assert!(all.keys().eq(wanted.keys()), "{what}: other names");
    for (path, (bytes, time)) in &all {
        let (wanted, wanted_time) = &wanted[path];
        let same = bytes == wanted && (!has_times || time == wanted_time);
        assert!(same, "{what}: {}", path.escape_ascii());
    }
}

/// Makes file systems by the e2fsprogs of a suite of Debian.
fn check_suite(suite: &str, packages: &[&str]) {
    let Some(tools) = Tools::of_suite(suite, packages) else {
        return;
    };
    let place = TempDir::new().unwrap();
    let (tree, wanted) = large_tree(place.path());
    let fragmented = noise(3_000_000, 8);
    for options in [
        "-t ext4",
        "-t ext4 -b 1024 -I 256 -O inline_data",
        "-t ext3",
        "-t ext2 -b 1024",
    ] {
        let what = format!("{suite}: {options}");
        let place = TempDir::new().unwrap();
        let image = tools.image(place.path(), &format!("-N 8192 {options}"), &tree, 64);
        let image = image.unwrap_or_else(|| panic!("{what}: mke2fs fails"));
        add_fragmented(&tools, &image, &fragmented);
        tools.index_folders(&image);
        tools.check(&image);
        let said = tools.says("debugfs", &["-R", "stat /thousands"], &image);
        assert!(
            said.contains("Flags: 0x1000") || said.contains("Flags: 0x81000"),
            "{what}: {said}"
        );
        // Some versions give a file with holes a wrong length then; what debugfs has is what is there.
        let mut wanted = wanted.clone();
        if options.contains("inline_data") {
            let (bytes, _) = wanted.get_mut(b"/sparse".as_slice()).unwrap();
            *bytes = dumped(&tools, &image, "/sparse");
        }
        check_against(&image, &wanted, true, &what);
        let fs = open(&image).unwrap();
        let inode = lookup(&fs, "fragmented");
        assert!(content(&fs, &image, &inode) == fragmented, "{what}");
        let theirs = dumped(&tools, &image, "/fragmented");
        assert!(theirs == fragmented, "{what}: debugfs");
    }
}

#[test]
fn what_e2fsprogs_1_46_makes_is_what_was_put_there() {
    check_suite("bullseye", &E2FSPROGS_BEFORE_T64);
}

#[test]
fn what_e2fsprogs_1_47_0_makes_is_what_was_put_there() {
    check_suite("bookworm", &E2FSPROGS_BEFORE_T64);
}

#[test]
fn what_e2fsprogs_1_47_2_makes_is_what_was_put_there() {
    check_suite("trixie", &E2FSPROGS);
}

#[test]
fn what_e2fsprogs_of_sid_makes_is_what_was_put_there() {
    check_suite("sid", &E2FSPROGS);
}

/// Not of e2fsprogs: genext2fs, which shares no code with it.
#[test]
fn what_genext2fs_makes_is_what_was_put_there() {
    let packages = ["genext2fs", "libc6", "libarchive13t64"];
    let made_by = Tools::of_suite("trixie", &packages);
    let (Some(made_by), Some(checked_by)) = (made_by, Tools::of_this_system()) else {
        return;
    };
    let place = TempDir::new().unwrap();
    let (tree, wanted) = large_tree(place.path());
    for (block, options) in [(1024, "--allow-holes"), (2048, ""), (4096, "--allow-holes")] {
        let what = format!("genext2fs, blocks of {block}, {options}");
        let image = place.path().join("image");
        let mut genext2fs = made_by.command("genext2fs");
        genext2fs
            .args(options.split_whitespace())
            .args(["-N", "8192", "-B"]);
        genext2fs
            .arg(block.to_string())
            .arg("-b")
            .arg(((64 << 20) / block).to_string());
        let made = genext2fs.arg("-d").arg(&tree).arg(&image).status();
        assert!(made.unwrap().success(), "{what}");
        checked_by.check(&image);
        check_against(&image, &wanted, true, &what);
    }
}

/// Nor is busybox's, which makes an empty ext2 of its own layout.
#[test]
fn what_is_put_into_a_file_system_of_busybox_is_there() {
    let made_by = Tools::of_suite("trixie", &["busybox-static"]);
    let (Some(made_by), Some(filled_by)) = (made_by, Tools::of_this_system()) else {
        return;
    };
    let place = TempDir::new().unwrap();
    let bytes = noise(700_000, 9);
    let file = place.path().join("file");
    fs::write(&file, &bytes).unwrap();
    for block in ["1024", "4096"] {
        let image = place.path().join("image");
        File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let mut mke2fs = made_by.command("busybox");
        let made = mke2fs
            .args(["mke2fs", "-F", "-b", block])
            .arg(&image)
            .status();
        assert!(made.unwrap().success(), "{block}");
        let (file, long) = (file.display(), "l".repeat(70));
        filled_by.debugfs(
            &image,
            &format!("mkdir a\nmkdir a/b\nwrite {file} a/b/file\nsymlink link {long}\n"),
        );
        filled_by.check(&image);
        let fs = open(&image).unwrap();
        let all = all(&fs, &image);
        let names = ["/a", "/a/b", "/a/b/file", "/link"].map(str::as_bytes);
        assert!(all.keys().eq(names), "{block}");
        assert!(all[b"/a/b/file".as_slice()].0 == bytes, "{block}");
        assert_eq!(all[b"/link".as_slice()].0, long.as_bytes(), "{block}");
    }
}
