//! A folder with more names than Scrim holds at a time.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::Files;
use crate::support::have;

/// Number of names, which is more than the 65,536 that are held at a time.
const COUNT: usize = 70_000;
/// Number of names of the first of two files: an inode takes up to 65,000 links.
const OF_FIRST: usize = 40_000;

const BLOCK: usize = 4096;
/// Inodes that debugfs allocates on a new file system, in this order.
const FIRST: u32 = 12;
const SECOND: u32 = 13;
const FOLDER: u32 = 14;

/// Commands of debugfs that make a folder of the file `names`, which has the folder's content.
const COMMANDS: &str = "\
write first first
write second second
write names names
unlink first
unlink second
unlink names
set_inode_field <12> links_count 40000
set_inode_field <13> links_count 30000
set_inode_field <14> mode 040755
set_inode_field <14> links_count 2
link <14> many
set_inode_field / links_count 4
";

/// Content of a folder on an ext4 file system without checksums: the names of two files in no order.
fn entries() -> Vec<u8> {
    const FILE: u8 = 1;
    const DIRECTORY: u8 = 2;
    // 7919 has no factor in common with the count, so each number comes once.
    let numbers = (0..COUNT).map(|nth| nth * 7919 % COUNT);
    let names = numbers.map(|number| {
        let inode = if number < OF_FIRST { FIRST } else { SECOND };
        (inode, FILE, number.to_string())
    });
    let own = [
        (FOLDER, DIRECTORY, ".".to_owned()),
        (2, DIRECTORY, "..".to_owned()),
    ];
    let mut content = Vec::new();
    let mut last = 0;
    for (inode, kind, name) in own.into_iter().chain(names) {
        let length = (8 + name.len()).next_multiple_of(4);
        let rest = content.len().next_multiple_of(BLOCK) - content.len();
        if rest != 0 && rest < length {
            lengthen(&mut content, last, rest);
        }
        last = content.len();
        content.extend(inode.to_le_bytes());
        content.extend(u16::try_from(length).unwrap().to_le_bytes());
        content.extend([u8::try_from(name.len()).unwrap(), kind]);
        content.extend(name.as_bytes());
        content.resize(last + length, 0);
    }
    let rest = content.len().next_multiple_of(BLOCK) - content.len();
    lengthen(&mut content, last, rest);
    content
}

/// Gives the rest of a block to its last entry.
fn lengthen(content: &mut Vec<u8>, last: usize, rest: usize) {
    let length = content.len() + rest - last;
    let length = u16::try_from(length).unwrap().to_le_bytes();
    content[last + 4..last + 6].copy_from_slice(&length);
    content.resize(content.len() + rest, 0);
}

/// The names come in the order of the disk, each of them once. mke2fs would search the whole folder for each name that it
/// adds, so the folder's content is made here, and e2fsck finds no fault in it.
#[test]
fn a_folder_with_very_many_names_is_listed_and_walked() {
    if !have(&["e2fsck"]) {
        return;
    }
    let Some(files) = Files::new() else { return };
    files.plain("-t ext4 -b 4096 -O ^metadata_csum", 32);
    files.0.write("first", "x");
    files.0.write("second", "y");
    files.0.write("names", entries());
    files.0.write("commands", COMMANDS);
    files
        .0
        .run("debugfs", ["-w", "-f", "commands", "plain.img"]);
    // It counts one folder more, and then nothing is left to repair.
    let counted = files.0.run_with_input("e2fsck", ["-fp", "plain.img"], b"");
    assert_eq!(counted.status.code(), Some(1), "{counted:?}");
    files.0.run("e2fsck", ["-fn", "plain.img"]);
    files.encrypt();
    let listed = files.scrim("ls disk.img:/many");
    let mut names: Vec<usize> = listed.lines().map(|line| line.parse().unwrap()).collect();
    names.sort_unstable();
    assert!(names.iter().copied().eq(0..COUNT));
    files.scrim("cp -r disk.img:/many out");
    assert_eq!(fs::read_dir(files.path("out")).unwrap().count(), COUNT);
    let links = |name: &str| fs::metadata(files.path(name)).unwrap().nlink();
    assert_eq!(links("out/1"), 40_000);
    assert_eq!(links("out/69999"), 30_000);
}
