//! Folders with an index, as e2fsck makes them: each name is found by it, with each way to hash names, in a few
//! reads. The judge is the folder searched from its front, and e2fsprogs where a name has its hash.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use scrim_ext4::{Budget, Device, Error, FileSystem, Inode, Patience, Place, ROOT};
use tempfile::TempDir;

use crate::lookup;
use crate::tools::Tools;
use crate::tree::{Image, budget, open};

/// Counts what is read.
struct Counting(Image, Arc<AtomicU32>);

impl Device for Counting {
    fn read(&self, offset: u64, into: &mut [u8], mode: Patience) -> io::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read(offset, into, mode)
    }
}

/// The blocks of a folder without an index.
fn blocks_of(names: &BTreeSet<Vec<u8>>, block_size: usize) -> Vec<u8> {
    let mut blocks = Vec::new();
    let mut last = 0;
    for name in [b".".as_slice(), b".."]
        .into_iter()
        .chain(names.iter().map(Vec::as_slice))
    {
        let len = (8 + name.len()).next_multiple_of(4);
        let left = block_size - blocks.len() % block_size;
        if left < len || last == 0 {
            stretch(&mut blocks, last, block_size);
        }
        last = blocks.len();
        // The folder is the first inode behind `lost+found`, and the file that they lead to the second.
        let (inode, kind): (u32, u8) = match name {
            b"." => (12, 2),
            b".." => (ROOT, 2),
            _ => (13, 1),
        };
        blocks.extend_from_slice(&inode.to_le_bytes());
        blocks.extend_from_slice(&u16::try_from(len).unwrap().to_le_bytes());
        blocks.extend_from_slice(&[u8::try_from(name.len()).unwrap(), kind]);
        blocks.extend_from_slice(name);
        blocks.resize(last + len, 0);
    }
    stretch(&mut blocks, last, block_size);
    blocks
}

/// Has the last entry of a block take what is left of it.
fn stretch(blocks: &mut Vec<u8>, last: usize, block_size: usize) {
    let end = blocks.len().next_multiple_of(block_size);
    blocks.resize(end, 0);
    if end > last {
        let len = u16::try_from(end - last).unwrap();
        blocks[last + 4..last + 6].copy_from_slice(&len.to_le_bytes());
    }
}

/// Names of all lengths, with bytes of all values.
fn odd_names(count: u32) -> BTreeSet<Vec<u8>> {
    let mut names = BTreeSet::new();
    for number in 0..count {
        let mut name = format!("{number:x}").into_bytes();
        let len = number.wrapping_mul(2_654_435_761) >> 24;
        while name.len() < usize::try_from(len).unwrap() {
            let byte = u8::try_from(len)
                .unwrap()
                .wrapping_add(number.to_le_bytes()[0]);
            name.push(if matches!(byte, 0 | b'/') { 0xe4 } else { byte });
        }
        name.truncate(255);
        names.insert(name);
    }
    names
}

/// Hash function of a folder's names.
struct Hashes {
    method: &'static str,
    is_unsigned: bool,
}

/// Makes an image with a folder `many` of these names, which e2fsck gives an index. mke2fs would take the square of
/// their number to put them there, so they come as a file, which then is a folder: e2fsck sets right what it lacks.
fn indexed(
    tools: &Tools,
    place: &Path,
    options: &str,
    names: &BTreeSet<Vec<u8>>,
    hashes: &Hashes,
) -> PathBuf {
    let block_size = if options.contains("-b 1024") {
        1024
    } else {
        4096
    };
    let tree = place.join("tree");
    fs::create_dir_all(&tree).unwrap();
    fs::write(tree.join("many"), blocks_of(names, block_size)).unwrap();
    let options = format!("{options} -O ^metadata_csum");
    let image = tools.image(place, &options, &tree, 64).unwrap();
    let flags = 1 + u32::from(hashes.is_unsigned);
    tools.debugfs(
        &image,
        &format!(
            "write /dev/null file\nset_inode_field many mode 040755\nset_super_value flags {flags}\n"
        ),
    );
    let mut tune2fs = tools.command("tune2fs");
    tune2fs.arg("-E").arg(format!("hash_alg={}", hashes.method));
    assert!(tune2fs.arg(&image).status().unwrap().success());
    tools.index_folders(&image);
    tools.check(&image);
    image
}

/// The folder is made anew then, with room for them.
fn add_checksums(tools: &Tools, image: &Path) {
    let mut tune2fs = tools.command("tune2fs");
    let tuned = tune2fs.args(["-O", "metadata_csum"]).arg(image).status();
    assert!(tuned.unwrap().success(), "tune2fs -O metadata_csum");
    tools.index_folders(image);
    tools.check(image);
}

/// Names of a folder, searched from its front.
fn scanned(fs: &FileSystem, folder: &Inode) -> BTreeMap<Vec<u8>, u32> {
    let mut found = BTreeMap::new();
    fs.entries(folder, &budget(), |entry| {
        found.insert(entry.name.to_vec(), entry.inode);
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

/// Returns whether each name is found, and others are not; and how much of the device it takes at most to find one.
#[track_caller]
fn check_lookups(image: &Path, names: &BTreeSet<Vec<u8>>, most: u32, what: &str) {
    let fs = open(image).unwrap();
    let folder = lookup(&fs, "many");
    let scanned = scanned(&fs, &folder);
    assert!(scanned.keys().eq(names.iter()), "{what}: other names");
    for (name, &inode) in &scanned {
        let found = fs.lookup(&folder, name, &budget()).unwrap();
        assert_eq!(found, Some(inode), "{what}: {}", name.escape_ascii());
        let other = [&name[..name.len().min(254)], b"~"].concat();
        if !names.contains(&other) {
            assert_eq!(
                fs.lookup(&folder, &other, &budget()).unwrap(),
                None,
                "{what}"
            );
        }
    }
    for name in names.iter().step_by(names.len() / 50) {
        let reads = Arc::default();
        let device = Counting(Image(File::open(image).unwrap()), Arc::clone(&reads));
        let fs = FileSystem::open(Box::new(device)).unwrap();
        let folder = lookup(&fs, "many");
        let before = reads.load(Ordering::Relaxed);
        fs.lookup(&folder, name, &budget()).unwrap().unwrap();
        let took = reads.load(Ordering::Relaxed) - before;
        assert!(
            took <= most,
            "{what}: {took} reads for {}",
            name.escape_ascii()
        );
    }
}

#[test]
fn names_are_found_by_each_kind_of_hash() {
    let Some(tools) = Tools::of_this_system() else {
        return;
    };
    let names = odd_names(6000);
    for method in ["legacy", "half_md4", "tea"] {
        for is_unsigned in [false, true] {
            for options in ["-t ext4 -b 1024", "-t ext2 -b 4096 -O dir_index"] {
                let what = format!("{method}, unsigned {is_unsigned}, {options}");
                let place = TempDir::new().unwrap();
                let hashes = Hashes {
                    method,
                    is_unsigned,
                };
                let image = indexed(&tools, place.path(), options, &names, &hashes);
                // Blocks of the folder, and of its map.
                check_lookups(&image, &names, 8, &what);
                add_checksums(&tools, &image);
                check_lookups(&image, &names, 8, &format!("{what}, with checksums"));
            }
        }
    }
}

/// Names as long as they can be fill three levels of an index, with blocks as short as they can be.
#[test]
fn names_are_found_in_an_index_of_three_levels() {
    let Some(tools) = Tools::of_this_system() else {
        return;
    };
    let place = TempDir::new().unwrap();
    let names = (0..50_000)
        .map(|number| format!("{number:0>255}").into_bytes())
        .collect();
    let hashes = Hashes {
        method: "half_md4",
        is_unsigned: false,
    };
    let image = indexed(
        &tools,
        place.path(),
        "-t ext4 -b 1024 -O large_dir",
        &names,
        &hashes,
    );
    let said = tools.says("debugfs", &["-R", "htree_dump /many"], &image);
    assert!(said.contains("Indirect levels: 2"), "{}", &said[..500]);
    check_lookups(&image, &names, 10, "large_dir");
}

/// Length of the beginning that names with one hash share; these are their ends. A block has room for four of them.
const SAME_BEGINNING: usize = 240;
const SAME_ENDS: [&str; 9] = [
    "aaaaaaaa", "akamogii", "bpzwnsab", "btuxbuuc", "cavzmfub", "cedmjyby", "cwcmfpla", "dazovdgv",
    "dcxjzjkw",
];

#[test]
fn names_with_one_hash_are_found_in_all_blocks_that_have_them() {
    let Some(tools) = Tools::of_this_system() else {
        return;
    };
    let place = TempDir::new().unwrap();
    let mut names = odd_names(500);
    let beginning = "c".repeat(SAME_BEGINNING);
    names.extend(SAME_ENDS.map(|end| format!("{beginning}{end}").into_bytes()));
    let hashes = Hashes {
        method: "legacy",
        is_unsigned: false,
    };
    let image = indexed(&tools, place.path(), "-t ext4 -b 1024", &names, &hashes);
    let said = tools.says("debugfs", &["-R", "htree_dump /many"], &image);
    assert_eq!(
        said.matches("0x460dbc4b (**)").count(),
        2,
        "it is no collision"
    );
    check_lookups(&image, &names, 10, "one hash");
}

/// An image with an index of two levels, and where its root is.
fn indexed_for_damage(tools: &Tools, place: &Path) -> (BTreeSet<Vec<u8>>, PathBuf, u64) {
    let names = odd_names(6000);
    let hashes = Hashes {
        method: "half_md4",
        is_unsigned: false,
    };
    let options = "-t ext4 -b 1024 -E hash_seed=01020304-0506-0708-090a-0b0c0d0e0f10";
    let image = indexed(tools, place, options, &names, &hashes);
    let root = block_at(&image, 0);
    (names, image, root)
}

/// Offset of a block of the folder in the image.
fn block_at(image: &Path, nth: u64) -> u64 {
    let fs = open(image).unwrap();
    let folder = lookup(&fs, "many");
    let run = fs.run(&folder, nth * 1024, Patience::Wait).unwrap();
    let Place::At(at) = run.place else {
        panic!("a hole");
    };
    at
}

fn overwrite(image: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(image).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

#[test]
fn a_folder_whose_index_contradicts_itself_is_searched_from_its_front() {
    let Some(tools) = Tools::of_this_system() else {
        return;
    };
    let place = TempDir::new().unwrap();
    let (names, image, root) = indexed_for_damage(&tools, place.path());
    let sound = fs::read(&image).unwrap();
    let names: BTreeSet<_> = names.into_iter().step_by(200).collect();
    for (what, at, bytes) in [
        ("the hash", 0x1c, &[9][..]),
        ("a hash with a key", 0x1c, &[6]),
        ("the length of its head", 0x1d, &[7]),
        ("its levels", 0x1e, &[2]),
        ("its flags", 0x1f, &[1]),
        ("the limit", 0x20, &[1, 0]),
        ("no entries", 0x22, &[0, 0]),
        ("entries without end", 0x22, &[0xff, 0xff]),
        ("a root below the root", 0x24, &[0, 0, 0, 0]),
        ("a block that is not there", 0x24, &[0xff, 0xff, 0xff, 0x0f]),
        ("names instead of a node", 0x24, &[1, 0, 0, 0]),
    ] {
        fs::write(&image, &sound).unwrap();
        overwrite(&image, root + at, bytes);
        if at == 0x24 {
            // The index then has one entry, for all hashes.
            overwrite(&image, root + 0x22, &[1, 0]);
        }
        let fs = open(&image).unwrap();
        let folder = lookup(&fs, "many");
        for name in &names {
            let found = fs.lookup(&folder, name, &budget()).unwrap();
            assert_eq!(found, Some(13), "{what}: {}", name.escape_ascii());
        }
        assert_eq!(
            fs.lookup(&folder, b"none", &budget()).unwrap(),
            None,
            "{what}"
        );
    }
}

#[test]
fn a_wrong_checksum_in_an_index_is_an_error() {
    let Some(tools) = Tools::of_this_system() else {
        return;
    };
    let place = TempDir::new().unwrap();
    let (names, image, _) = indexed_for_damage(&tools, place.path());
    add_checksums(&tools, &image);
    overwrite(&image, block_at(&image, 0) + 0x28, &[0]);
    let fs = open(&image).unwrap();
    let folder = lookup(&fs, "many");
    let error = fs
        .lookup(&folder, names.first().unwrap(), &budget())
        .unwrap_err();
    assert!(
        error.to_string().contains("checksum of its index"),
        "{error}"
    );
}

/// All of an index goes on with one hash, and leads to the same blocks again and again.
#[test]
fn an_index_that_goes_in_circles_is_given_up() {
    let Some(tools) = Tools::of_this_system() else {
        return;
    };
    let place = TempDir::new().unwrap();
    let (_, image, root) = indexed_for_damage(&tools, place.path());
    let command = "dx_hash -h half_md4 -s 01020304-0506-0708-090a-0b0c0d0e0f10 none";
    let said = tools.says("debugfs", &["-R", command], &image);
    let hash = said
        .split_once("is 0x")
        .unwrap()
        .1
        .split_once(' ')
        .unwrap()
        .0;
    let hash = u32::from_str_radix(hash, 16).unwrap() | 1;
    let mut node = [0; 4];
    let file = File::open(&image).unwrap();
    file.read_exact_at(&mut node, root + 0x24).unwrap();
    let node = block_at(&image, u32::from_le_bytes(node).into());
    let mut leaf = [0; 4];
    file.read_exact_at(&mut leaf, node + 0xc).unwrap();
    let mut first = [0; 4];
    file.read_exact_at(&mut first, root + 0x24).unwrap();
    for (start, place, target) in [(0x20, root, first), (0x8, node, leaf)] {
        let mut limit = [0; 2];
        file.read_exact_at(&mut limit, place + start).unwrap();
        let count = u16::from_le_bytes(limit);
        let mut entries = [limit, limit].concat();
        entries.extend_from_slice(&target);
        for _ in 1..count {
            entries.extend_from_slice(&hash.to_le_bytes());
            entries.extend_from_slice(&target);
        }
        overwrite(&image, place + start, &entries);
    }
    let fs = open(&image).unwrap();
    let folder = lookup(&fs, "many");
    let error = fs
        .lookup(&folder, b"none", &Budget::new(1 << 20))
        .unwrap_err();
    assert!(matches!(error, Error::SearchTooLong { .. }), "{error}");
}
