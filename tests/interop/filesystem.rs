//! The main job on real input: a file system with files in it goes in and comes out.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use crate::support::{Place, assert_same, have, noise};
use crate::volume::{Case, Image, LUKS1, LUKS2, USUAL};

/// Bytes of these volumes' payload.
const SIZE: u64 = 24 << 20;

/// An image with room for a file system.
fn roomy(case: Case) -> Image {
    let image = Image::made_by_cryptsetup(case);
    let end = case.default_offset() as u64 + SIZE;
    let file = fs::File::options()
        .write(true)
        .open(image.place.path("disk.img"));
    file.unwrap().set_len(end).unwrap();
    image
}

/// A folder with files of many sizes, names and kinds.
fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    for (seed, len) in [0, 1, 511, 512, 4095, 4096, 4097, 70_000, 3 << 20]
        .into_iter()
        .enumerate()
    {
        let name = format!("a/b/file of {len} bytes");
        fs::write(root.join(name), noise(len, seed as u64)).unwrap();
    }
    for number in 0..200 {
        fs::write(
            root.join(format!("a/small-{number}")),
            format!("{number}\n"),
        )
        .unwrap();
    }
    let sparse = fs::File::create(root.join("a/sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    symlink("b/file of 1 bytes", root.join("a/link")).unwrap();
}

/// Name and hash of every file.
fn hashes(place: &Place, root: &str) -> String {
    let script = format!(
        "cd {root} && find . -type f ! -path './lost+found/*' -print0 | sort -z | xargs -0 sha256sum
         && readlink a/link"
    );
    place.run("bash", ["-c", &script.replace('\n', " ")])
}

fn check_ext4(case: Case) {
    let image = roomy(case);
    let place = &image.place;
    make_tree(&place.path("tree"));
    place.sparse("plain.img", SIZE);
    place.run("mkfs.ext4", ["-q", "-d", "tree", "plain.img"]);

    let uri = image.open_with("key", "secret", &[]);
    place.run("nbdcopy", ["--flush", "plain.img", &uri]);
    place.close("secret");

    let uri = image.open_with("key", "secret", &["--readonly"]);
    place.run("nbdcopy", [&uri, "back.img"]);
    place.close("secret");
    let [plain, back] = ["plain.img", "back.img"].map(|name| fs::read(place.path(name)).unwrap());
    assert_same(&back, &plain, "the file system");
    place.run("e2fsck", ["-f", "-n", "back.img"]);
    fs::create_dir(place.path("back")).unwrap();
    place.run("debugfs", ["-R", "rdump / back", "back.img"]);
    assert_eq!(hashes(place, "back"), hashes(place, "tree"));
}

#[test]
fn an_ext4_file_system_goes_in_and_comes_out() {
    if have(&[
        "cryptsetup",
        "nbdcopy",
        "mkfs.ext4",
        "e2fsck",
        "debugfs",
        "bash",
    ]) {
        for case in [LUKS1[1], LUKS2[1], USUAL] {
            check_ext4(case);
        }
    }
}

/// Random writes of all sizes from one encryption sector on, each block checked, then again after the
/// volume has been opened anew.
#[test]
fn fio_finds_what_it_wrote() {
    if !have(&["cryptsetup", "fio"]) {
        return;
    }
    for case in [LUKS1[1], USUAL] {
        let image = roomy(case);
        let place = &image.place;
        let sector = case.sector;
        let fio = |uri: &str, more: &str| {
            let line = format!(
                "--name=verify --ioengine=nbd --uri={uri} --rw=randwrite --size=16M \
                 --bsrange={sector}-64k --blockalign={sector} --iodepth=16 --randseed=7 --verify=crc32c \
                 --verify_fatal=1 --verify_state_save=0 {more}"
            );
            place.run("fio", line.split_whitespace());
        };
        let uri = image.open_with("key", "secret", &[]);
        fio(&uri, "--do_verify=1");
        place.close("secret");
        let uri = image.open_with("key", "secret", &["--readonly"]);
        fio(&uri, "--verify_only");
        place.close("secret");
    }
}

#[test]
fn qemu_img_converts_in_and_compares() {
    if !have(&["cryptsetup", "qemu-img", "mkfs.ext4"]) {
        return;
    }
    let image = roomy(USUAL);
    let place = &image.place;
    make_tree(&place.path("tree"));
    place.sparse("plain.img", SIZE);
    place.run("mkfs.ext4", ["-q", "-d", "tree", "plain.img"]);
    place.run(
        "qemu-img",
        "convert -O qcow2 plain.img disk.qcow2".split(' '),
    );
    let uri = image.open_with("key", "secret", &[]);
    place.run(
        "qemu-img",
        ["convert", "-n", "-O", "raw", "disk.qcow2", &uri],
    );
    place.run("qemu-img", ["compare", "-F", "raw", "disk.qcow2", &uri]);
    place.close("secret");
    let uri = image.open_with("key", "secret", &["--readonly"]);
    place.run("qemu-img", ["compare", "-F", "raw", "disk.qcow2", &uri]);
    place.run(
        "qemu-img",
        ["convert", "-f", "raw", "-O", "raw", &uri, "back.img"],
    );
    place.close("secret");
    place.run("e2fsck", ["-f", "-n", "back.img"]);
}

/// Discards make holes only where the user allowed them; zeros are always written as ciphertext.
#[test]
fn discards_reach_the_disk_only_where_allowed() {
    if !have(&["cryptsetup", "qemu-io", "nbdcopy"]) {
        return;
    }
    let image = roomy(USUAL);
    let place = &image.place;
    let blocks = || fs::metadata(place.path("disk.img")).unwrap().blocks();
    let payload = noise(usize::try_from(SIZE).unwrap(), 1);
    image.fill(&payload);
    let full = blocks();

    let uri = image.open_with("key", "secret", &[]);
    let (_, said) = place.qemu_io(&uri, "discard 4M 8M");
    assert_same(
        &place.copy_out(&uri),
        &payload,
        &format!("not discarded: {said}"),
    );
    let (done, said) = place.qemu_io(&uri, "write -z 1M 2M");
    assert!(done, "{said}");
    place.close("secret");
    assert_eq!(blocks(), full, "nothing has become a hole");
    assert_same(&image.read()[1 << 20..3 << 20], &vec![0; 2 << 20], "zeros");
    let disk = fs::read(place.path("disk.img")).unwrap();
    let zeros = [0; 4096];
    assert!(
        disk[(17 << 20)..(19 << 20)]
            .chunks(4096)
            .all(|sector| sector != zeros)
    );

    let uri = image.open_with("key", "secret", &["--allow-discards"]);
    let (done, said) = place.qemu_io(&uri, "discard 4M 8M");
    assert!(done, "{said}");
    place.close("secret");
    assert!(blocks() < full, "{} of {full} blocks", blocks());
    assert_same(
        &image.read()[12 << 20..],
        &payload[12 << 20..],
        "what was not discarded",
    );
}
