//! The plaintext as one file (`scrim mount --raw`) under programs that use disk images: qemu-io, debugfs, fallocate and
//! blkdiscard.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::{Command, Output};

use crate::mount::{Disk, root_may_mount};
use crate::support::{Place, assert_same, have, may, noise, succeeded};

/// Bytes of the plaintext that the programs write.
const USED: usize = 8 << 20;

/// Size of an encryption sector of the volumes.
const SECTOR: usize = 4096;

fn qemu_io(disk: &Disk, options: &str, steps: &[&str]) -> Output {
    let mut command = disk.0.command("timeout");
    command.args(["120", "qemu-io", "-f", "raw"]);
    command.args(options.split_whitespace());
    for step in steps {
        command.args(["-c", step]);
    }
    command.arg("mnt/disk").output().unwrap()
}

/// The first bytes of the plaintext, as `scrim export` decrypts them without a mount.
fn exported(place: &Place) -> Vec<u8> {
    let _ = fs::remove_file(place.path("plain.img"));
    place.scrim("export -q disk.img plain.img --key-file key".split(' '));
    let mut bytes = vec![0; USED];
    let plain = fs::File::open(place.path("plain.img")).unwrap();
    plain.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Requests of a virtual machine: at places that are no whole sectors, with zeros that may become holes, and discards,
/// which are refused and leave the data.
#[test]
fn qemu_reads_what_it_has_written_zeroed_and_discarded() {
    if !root_may_mount() || !have(&["qemu-io"]) {
        return;
    }
    for options in ["", "--page-cache", "--allow-discards"] {
        let disk = Disk::new("48M", "true");
        let mut wanted = vec![0; USED];
        let mut fill = |range: Range<usize>, byte: u8| wanted[range].fill(byte);
        disk.mount(&format!("--raw {options}"));
        for cache in ["none", "writeback"] {
            let steps = [
                "write -P 0x11 0 8M",
                "write -P 0x22 1000001 4097",
                "write -z 2097153 70001",
                "write -z -u 3M 512k",
                "discard 3584k 64k",
                "aio_write -P 0x33 4M 1M",
                "aio_write -P 0x44 5M 512k",
                "aio_flush",
                "write -f -P 0x55 6M 8k",
                "read -P 0x11 0 1000001",
                "read -P 0x22 1000001 4097",
                "read -P 0x11 1004098 1093055",
                "read -P 0 2097153 70001",
                "read -P 0x11 2167154 978574",
                "read -P 0 3M 512k",
                "read -P 0x11 3584k 512k",
                "read -P 0x33 4M 1M",
                "read -P 0x44 5M 512k",
                "read -P 0x55 6M 8k",
                "flush",
            ];
            let output = qemu_io(&disk, &format!("-t {cache} -d unmap"), &steps);
            let said = succeeded("qemu-io", &output);
            assert!(!said.contains("failed"), "{options} {cache}: {said}");
        }
        disk.unmount();
        fill(0..USED, 0x11);
        fill(1_000_001..1_004_098, 0x22);
        fill(2_097_153..2_167_154, 0);
        fill(3 << 20..3584 << 10, 0);
        fill(4 << 20..5 << 20, 0x33);
        fill(5 << 20..5632 << 10, 0x44);
        fill(6 << 20..(6 << 20) + (8 << 10), 0x55);
        assert_same(&exported(&disk.0), &wanted, options);
    }
}

/// A volume that is mounted as one file, with noise in its first part.
fn with_noise(options: &str) -> (Disk, Vec<u8>) {
    let disk = Disk::new("48M", "true");
    disk.mount(&format!("--raw {options}"));
    let data = noise(USED, 4);
    let file = fs::File::options()
        .write(true)
        .open(disk.0.path("mnt/disk"));
    file.unwrap().write_all_at(&data, 0).unwrap();
    (disk, data)
}

/// Checks that a range of the plaintext has no ciphertext any more, and that all else is as it was.
fn is_discarded(disk: &Disk, range: Range<usize>, data: &[u8]) {
    let found = exported(&disk.0);
    assert_same(&found[..range.start], &data[..range.start], "before it");
    assert_same(&found[range.end..], &data[range.end..], "after it");
    let header = 16 << 20;
    let mut bytes = vec![1; range.len()];
    let image = fs::File::open(disk.0.path("disk.img")).unwrap();
    let at = (header + range.start) as u64;
    image.read_exact_at(&mut bytes, at).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0), "{range:?}");
}

#[test]
fn a_hole_is_refused_or_a_discard_of_whole_sectors() {
    if !root_may_mount() || !have(&["fallocate", "qemu-io"]) {
        return;
    }
    // From within a sector to within another one.
    let punch = "--punch-hole --offset 1048676 --length 65536 mnt/disk";
    let sectors = (1 << 20) + SECTOR..(1 << 20) + (64 << 10);
    for options in ["", "--allow-discards"] {
        let (disk, data) = with_noise(options);
        let mut command = disk.0.command("fallocate");
        let output = command.args(punch.split(' ')).output().unwrap();
        assert!(!output.status.success(), "{options}: {output:?}");
        disk.unmount();
        assert_same(&exported(&disk.0), &data, options);
    }
    let (disk, data) = with_noise("--allow-discards --discard-holes");
    disk.0.run("fallocate", punch.split(' '));
    disk.unmount();
    is_discarded(&disk, sectors, &data);
    let (disk, data) = with_noise("--allow-discards --discard-holes");
    let output = qemu_io(&disk, "-t none -d unmap", &["discard 2M 1M", "flush"]);
    succeeded("qemu-io", &output);
    disk.unmount();
    is_discarded(&disk, 2 << 20..3 << 20, &data);
}

/// A loop device on the file, which is detached at the end.
struct Loop<'a>(&'a Disk, String);

impl<'a> Loop<'a> {
    fn new(disk: &'a Disk) -> Self {
        let words = ["--find", "--show", "--direct-io=on", "mnt/disk"];
        Self(disk, disk.0.run("losetup", words).trim().to_owned())
    }

    fn blkdiscard(&self, words: &str) -> Output {
        let mut command = self.0.0.command("blkdiscard");
        let command = command.args(words.split(' ')).arg(&self.1);
        command.output().unwrap()
    }
}

impl Drop for Loop<'_> {
    fn drop(&mut self) {
        let mut command = self.0.0.command("losetup");
        let _ = command.args(["--detach", &self.1]).status();
    }
}

#[test]
fn blkdiscard_zeroes_and_discards_by_a_loop_device() {
    if !root_may_mount() || !have(&["blkdiscard"]) {
        return;
    }
    if !may("to use loop devices", Command::new("losetup").arg("-f")) {
        return;
    }
    let range = 1 << 20..(1 << 20) + (256 << 10);
    for (options, is_done) in [("", false), ("--allow-discards --discard-holes", true)] {
        let (disk, mut data) = with_noise(options);
        let device = Loop::new(&disk);
        let output = device.blkdiscard("--offset 1M --length 256K");
        // The kernel tells nobody that a discard was refused.
        succeeded("blkdiscard", &output);
        let output = device.blkdiscard("--zeroout --offset 3M --length 256K");
        succeeded("blkdiscard --zeroout", &output);
        drop(device);
        disk.unmount();
        data[3 << 20..(3 << 20) + (256 << 10)].fill(0);
        match is_done {
            true => is_discarded(&disk, range.clone(), &data),
            false => assert_same(&exported(&disk.0), &data, options),
        }
    }
}

#[test]
fn debugfs_changes_a_file_system_that_the_kernel_then_reads() {
    if !root_may_mount() {
        return;
    }
    for options in ["--raw", "--raw --page-cache"] {
        let disk = Disk::new("64M", "mkfs.ext4 -q -b 4096");
        let place = &disk.0;
        place.write("new", noise(3_000_001, 8));
        place.write(
            "commands",
            "mkdir folder\nwrite new folder/new\nsymlink link folder/new\n",
        );
        disk.mount(options);
        place.run("debugfs", ["-w", "-f", "commands", "mnt/disk"]);
        place.run("debugfs", ["-R", "dump /folder/new back", "mnt/disk"]);
        place.run("cmp", ["new", "back"]);
        place.run("e2fsck", ["-fn", "mnt/disk"]);
        disk.unmount();
        disk.mount("--method kernel");
        place.run("cmp", ["new", "mnt/link"]);
        place.run("rm", ["-r", "mnt/folder"]);
        disk.unmount();
        disk.mount(options);
        let listed = place.run("debugfs", ["-R", "ls -l /", "mnt/disk"]);
        assert!(
            listed.contains("link") && !listed.contains("folder"),
            "{listed}"
        );
        place.run("e2fsck", ["-fn", "mnt/disk"]);
        disk.unmount();
    }
}
