//! Lack of space, of memory and of permission to write, and files that vanish under an open volume.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::support::{Background, Place, assert_same, have, is_root, may, noise};
use crate::volume::{Image, LUKS1, PAYLOAD, USUAL};

const TOOLS: [&str; 5] = ["unshare", "nsenter", "mount", "nbdcopy", "qemu-io"];

/// A tmpfs of 20 MiB in a mount namespace of its own, at `small` in a place.
struct SmallDisk {
    place: Place,
    /// The process that keeps the namespace.
    holder: Background,
}

/// Options of `unshare` for a mount namespace.
fn own_mounts() -> &'static [&'static str] {
    if is_root() {
        &["--mount"]
    } else {
        &["--user", "--map-root-user", "--mount"]
    }
}

impl SmallDisk {
    /// Returns whether one can be made here.
    fn is_possible() -> bool {
        let mut probe = Command::new("unshare");
        probe.args(own_mounts());
        probe.args(["mount", "-t", "tmpfs", "none", "/tmp"]);
        have(&TOOLS) && may("to mount a small file system", &mut probe)
    }

    fn new() -> Self {
        let place = Place::new();
        fs::create_dir(place.path("small")).unwrap();
        place.write("key", crate::volume::PASSPHRASE);
        let mut command = place.command("unshare");
        let script = "mount -t tmpfs -o size=20m,mode=0700 none small && echo ready && exec cat";
        command.args(own_mounts()).args(["sh", "-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = Background::start(&mut command);
        let mut line = String::new();
        let stdout = holder.0.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "a small file system could not be mounted");
        Self { place, holder }
    }

    /// A command that sees the small disk.
    fn command(&self, program: &str) -> Command {
        let mut command = self.place.command("nsenter");
        let namespace = |kind| format!("/proc/{}/ns/{kind}", self.holder.0.id());
        if !is_root() {
            let mut user = OsString::from("--user=");
            user.push(namespace("user"));
            command.arg(user).arg("--preserve-credentials");
        }
        command.arg(format!("--mount={}", namespace("mnt")));
        // Entering a mount namespace leads to its root.
        command.arg(format!("--wdns={}", self.place.dir().display()));
        command.args(["--", program]);
        command
    }

    fn run(&self, line: &str) -> Output {
        let mut words = line.split_whitespace();
        let mut command = self.command(words.next().unwrap());
        command.args(words).output().unwrap()
    }

    /// Runs the command, which must succeed.
    fn done(&self, line: &str) -> String {
        crate::support::succeeded(line, &self.run(line))
    }

    /// Fills the disk, except for this much space.
    fn fill_up_to(&self, rest: &str) {
        self.done("dd if=/dev/zero of=small/filler bs=64k status=none conv=fsync count=240");
        let script = format!(
            "dd if=/dev/zero of=small/rest bs=4k 2>/dev/null; truncate -s -{rest} small/rest"
        );
        let mut command = self.command("sh");
        assert!(command.args(["-c", &script]).status().unwrap().success());
    }

    /// Path of a file on the small disk, from outside the namespace.
    fn path(&self, name: &str) -> PathBuf {
        let dir = self.place.path("small");
        let inside = dir.strip_prefix("/").unwrap();
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.0.id()));
        root.join(inside).join(name)
    }
}

fn refused(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("free some space"), "{said}");
    said
}

#[test]
fn formatting_on_a_full_disk_leaves_nothing_behind() {
    if !SmallDisk::is_possible() {
        return;
    }
    let disk = SmallDisk::new();
    disk.done("truncate -s 64M small/sparse.img small/data.img");
    disk.fill_up_to("128k");
    let cost = "--pbkdf-force-iterations 4 --pbkdf-memory 64";

    refused(&disk.run(&format!(
        "scrim format small/new.img --size 64M -d key {cost}"
    )));
    assert!(!disk.path("new.img").exists());

    refused(&disk.run(&format!("scrim format small/sparse.img -d key {cost}")));
    let sparse = fs::read(disk.path("sparse.img")).unwrap();
    assert!(sparse == vec![0; 64 << 20]);
    let blocks = disk.done("stat -c %b small/sparse.img");
    assert_eq!(blocks, "0\n", "no space is kept");

    let header = format!("scrim format small/data.img --header small/head.img -d key {cost}");
    refused(&disk.run(&header));
    assert!(!disk.path("head.img").exists());

    let both = "scrim format small/more.img --size 64M --header small/head.img -d key";
    refused(&disk.run(&format!("{both} {cost}")));
    assert!(!disk.path("head.img").exists() && !disk.path("more.img").exists());
}

#[test]
fn a_transfer_to_a_full_disk_leaves_nothing_or_goes_on_with_more_room() {
    if !SmallDisk::is_possible() {
        return;
    }
    let disk = SmallDisk::new();
    let bytes = noise(8 << 20, 4);
    disk.place.write("disk.raw", &bytes);
    let cost = "--pbkdf-force-iterations 1000 --type luks1";
    let import = format!("scrim import disk.raw small/disk.img -d key {cost}");
    disk.fill_up_to("1M");
    refused(&disk.run(&import));
    assert!(!disk.path("disk.img").exists() && !disk.path("disk.img.partial").exists());
    assert!(!disk.path("disk.img.partial.state").exists());

    disk.done("rm small/filler small/rest");
    disk.done(&import.replace("small/", ""));
    disk.fill_up_to("4M");
    let export = "scrim export disk.img small/back.raw -d key";
    let said = refused(&disk.run(export));
    assert!(said.contains("--resume"), "{said}");
    assert!(!disk.path("back.raw").exists());
    disk.done("rm small/filler small/rest");
    disk.done(&format!("{export} --resume"));
    let back = fs::read(disk.path("back.raw")).unwrap();
    assert_same(&back, &bytes, "an export that went on");
}

#[test]
fn a_write_that_finds_no_space_says_so_and_harms_nothing_else() {
    if !SmallDisk::is_possible() {
        return;
    }
    let disk = SmallDisk::new();
    let place = &disk.place;
    let cost = "--pbkdf-force-iterations 1000";
    disk.done(&format!(
        "scrim format small/disk.img --size 64M --type luks1 -d key {cost}"
    ));
    let uri = disk.done("scrim open small/disk.img secret -d key");
    let uri = uri.trim();
    let bytes = noise(1 << 20, 1);
    place.copy_in(&bytes, uri);
    disk.fill_up_to("256k");

    let (done, said) = place.qemu_io(uri, "write -P 7 16M 4M");
    assert!(!done && said.contains("No space left on device"), "{said}");
    let status = place.scrim(["status", "secret"]);
    assert!(status.contains("error:"), "{status}");
    assert!(status.contains("free some space"), "{status}");
    let (done, said) = place.qemu_io(uri, "write -P 8 4096 64k");
    assert!(done, "what has its place can be overwritten: {said}");

    disk.done("rm small/filler small/rest");
    let (done, said) = place.qemu_io(uri, "write -P 7 16M 4M");
    assert!(done, "{said}");
    place.close("secret");
    let uri = disk.done("scrim open small/disk.img secret -d key --readonly");
    let back = place.copy_out(uri.trim());
    let mut expected = bytes;
    expected[4096..4096 + (64 << 10)].fill(8);
    assert_same(&back[..1 << 20], &expected, "after a full disk");
    assert_same(
        &back[16 << 20..20 << 20],
        &vec![7; 4 << 20],
        "after a full disk",
    );
    place.close("secret");
}

#[test]
fn a_file_system_mounted_read_only_is_for_reading() {
    if !SmallDisk::is_possible() {
        return;
    }
    let disk = SmallDisk::new();
    let cost = "--pbkdf-force-iterations 1000";
    disk.done(&format!(
        "scrim format small/disk.img --size 8M --type luks1 -d key {cost}"
    ));
    disk.done("mount -o remount,bind,ro small");
    let output = disk.run("scrim open small/disk.img secret -d key");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("--readonly"), "{said}");
    for format in ["small/disk.img -q", "small/new.img --size 8M"] {
        let output = disk.run(&format!("scrim format {format} --type luks1 -d key {cost}"));
        assert_eq!(output.status.code(), Some(4), "{output:?}");
    }
    let uri = disk.done("scrim open small/disk.img secret -d key --readonly");
    assert!(!disk.place.copy_out(uri.trim()).is_empty());
    disk.place.close("secret");
}

/// A key derivation that does not fit into memory is refused with its own exit code, and no process is killed.
#[test]
fn too_little_memory_for_argon2_is_said() {
    if !have(&["cryptsetup", "prlimit"]) {
        return;
    }
    let place = Place::new();
    place.write("key", crate::volume::PASSPHRASE);
    place.sparse("disk.img", 18 << 20);
    place.cryptsetup(
        "luksFormat --pbkdf argon2id --pbkdf-force-iterations 4 --pbkdf-memory 262144 \
         --pbkdf-parallel 1 --key-file key disk.img",
    );
    for line in [
        "scrim test-passphrase disk.img -d key",
        "scrim open disk.img secret -d key",
        "scrim format new.img --size 18M -d key --pbkdf-memory 262144 --pbkdf-force-iterations 4",
    ] {
        let limited = ["--as=200000000"].into_iter().chain(line.split(' '));
        let output = place.command("prlimit").args(limited).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{line}: {said}");
        assert!(said.contains("256 MiB"), "{line}: {said}");
    }
    assert!(!place.path("new.img").exists());
}

/// If the data cannot be made, the old header is not overwritten.
#[test]
fn a_header_is_not_overwritten_for_data_that_cannot_be_made() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let image = Image::made_by_cryptsetup(crate::volume::LUKS2[1]);
    let place = &image.place;
    let before = fs::read(place.path("head.img")).unwrap();
    let cost = "--pbkdf-force-iterations 4 --pbkdf-memory 64";
    let line = format!("format nowhere/new.img --size 4M --header head.img -q -d other {cost}");
    let output = place.run_with_input("scrim", line.split(' '), b"");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let after = fs::read(place.path("head.img")).unwrap();
    assert_same(&after, &before, "the header");
}

/// If the file is cut short, the remaining part is served; reads of the rest fail and never return zeros.
#[test]
fn an_image_that_shrinks_under_an_open_volume_gives_errors_only_where_it_is_gone() {
    if !have(&["nbdcopy", "qemu-io", "cryptsetup"]) {
        return;
    }
    for case in [LUKS1[1], USUAL] {
        let image = Image::made_by_scrim(case);
        let place = &image.place;
        let payload = image.fill_with_noise(1);
        let uri = image.open_with("key", "secret", &[]);
        let file = fs::File::options().write(true).open(place.path("disk.img"));
        let file = file.unwrap();
        let cut = PAYLOAD / 2;
        file.set_len((case.default_offset() + cut) as u64).unwrap();

        let (done, said) = place.qemu_io(&uri, &format!("read {cut} 4096"));
        assert!(!done && said.contains("Input/output error"), "{said}");
        let (done, said) = place.qemu_io(&uri, &format!("read 0 {cut}"));
        assert!(done, "{said}");
        let (done, said) = place.qemu_io(&uri, "write -P 9 0 4096");
        assert!(done, "{said}");
        let status = place.scrim(["status", "secret"]);
        assert!(status.contains("error:"), "{status}");
        place.close("secret");
        let served = image.read();
        assert_same(&served[..4096], &[9; 4096], "what was written");
        assert_same(&served[4096..], &payload[4096..cut], "what was left");
    }
}

/// An image that was deleted can still be read and written while it is open.
#[test]
fn an_image_that_is_deleted_under_an_open_volume_is_served_to_the_end() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let uri = image.open_with("key", "secret", &[]);
    fs::remove_file(image.place.path("disk.img")).unwrap();
    let bytes = noise(PAYLOAD, 2);
    image.place.copy_in(&bytes, &uri);
    assert_same(&image.place.copy_out(&uri), &bytes, "a deleted image");
    image.place.close("secret");
}
