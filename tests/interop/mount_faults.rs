//! Mounts whose processes are killed, whose storage fails, is full or does not answer, and that others take away while
//! much is to be written: what `fsync` has acknowledged is there, nothing hangs, and no mount is left.
//!
//! `tests/support/load.py` writes, and notes what was acknowledged.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::mount::{CHEAP, Disk, root_may_mount, server};
use crate::remote::serve;
use crate::support::{
    Background, PYTHON, Place, have, noise, scrim, script, succeeded, wait_until,
};

const EXT4: &str = "mkfs.ext4 -q -b 4096";

/// Address at which nbdkit serves the image.
const SOCKET: &str = "nbd+unix:///?socket=server";

/// Options of `scrim mount`, what it shows, and the task of a writer on it.
const WAYS: [(&str, &str, &str); 3] = [
    ("--method kernel", "ext4", "write"),
    ("--method program", "ext4", "write"),
    ("--raw --page-cache", "raw", "blocks"),
];

/// Starts a writer on the mount. What it says is in the file `said`.
fn writer(disk: &Disk, task: &str) -> Background {
    let place = &disk.0;
    let where_to = if task == "blocks" { "mnt/disk" } else { "mnt" };
    let said = fs::File::create(place.path("said")).unwrap();
    // The one of an earlier writer.
    let _ = fs::remove_file(place.path("log"));
    let mut command = place.command(PYTHON);
    command.arg(script("load.py")).args([task, where_to, "log"]);
    Background::start(command.stdout(said).stderr(Stdio::null()))
}

fn lines(disk: &Disk) -> usize {
    fs::read_to_string(disk.0.path("log")).map_or(0, |log| log.lines().count())
}

fn wait_for_lines(disk: &Disk, writer: &mut Background, count: usize) {
    wait_until("much is acknowledged", || {
        let has_ended = writer.0.try_wait().unwrap().is_some();
        let said = || fs::read_to_string(disk.0.path("said"));
        assert!(!has_ended, "the writer has ended: {:?}", said());
        lines(disk) >= count
    });
}

/// Waits until the writer has ended, by an error of a call.
fn ends_with_an_error(disk: &Disk, writer: &mut Background) -> String {
    let mut status = None;
    wait_until("the writer gets an error", || {
        status = writer.0.try_wait().unwrap();
        status.is_some()
    });
    let said = fs::read_to_string(disk.0.path("said")).unwrap();
    let code = status.unwrap().code();
    assert!(code.is_some_and(|code| code > 1), "{code:?}: {said}");
    said
}

/// Kills processes (`kill -9`).
fn kill(disk: &Disk, numbers: &str) {
    let numbers: Vec<_> = numbers.split_whitespace().collect();
    assert!(!numbers.is_empty());
    disk.0.run("kill", ["-9"].into_iter().chain(numbers));
}

/// Waits until a process that was killed has ended: nothing of it is left but its entry for a parent that does not look.
fn wait_for_end(number: &str) {
    let state = format!("/proc/{}/stat", number.trim());
    wait_until("a killed process ends", || {
        fs::read_to_string(&state).is_ok_and(|text| text.contains(") Z "))
            || !Path::new(&state).exists()
    });
}

/// Mounts the image of a server that was killed. The kernel holds the lock of a dead process until its last request to the
/// disk has ended.
fn mount_after_kill(disk: &Disk, options: &str) {
    wait_until("the image is free", || {
        let output = disk.try_mount(options);
        let is_in_use = output.status.code() == Some(5);
        if !is_in_use {
            succeeded("mount", &output);
        }
        !is_in_use
    });
}

/// Checks a file system that fuse2fs was writing when its process or its storage failed. It writes no journal and updates
/// the superblock in pieces, so that a cut anywhere may need decisions of e2fsck, and may cost files that were in use.
fn can_be_repaired(disk: &Disk) {
    wait_until("the mount is gone", || !disk.is_mounted());
    wait_until("the volume is free", || disk.0.scrim(["list"]).is_empty());
    mount_after_kill(disk, "--raw");
    // By the second superblock where the first one is torn. A second run finds nothing more to do.
    let repair = "e2fsck -fy mnt/disk || e2fsck -fy -b 32768 mnt/disk; e2fsck -fy mnt/disk; e2fsck -fn mnt/disk";
    disk.0.run("sh", ["-c", repair]);
    disk.unmount();
}

/// Checks what is left after a failure.
fn survives(disk: &Disk, options: &str, kind: &str) {
    match (kind, options) {
        ("ext4", "--method program") => can_be_repaired(disk),
        _ => is_whole(disk, options, kind),
    }
}

/// Checks what was acknowledged, by a mount with `options`, and then the file system as it is on the disk.
fn is_whole(disk: &Disk, options: &str, kind: &str) {
    let place = &disk.0;
    wait_until("the mount is gone", || !disk.is_mounted());
    wait_until("the volume is free", || place.scrim(["list"]).is_empty());
    let load = script("load.py");
    let load = load.to_str().unwrap();
    if kind == "raw" {
        mount_after_kill(disk, "--raw");
        place.run(PYTHON, [load, "check-blocks", "mnt/disk", "log"]);
        disk.unmount();
        return;
    }
    mount_after_kill(disk, options);
    place.run(PYTHON, [load, "check", "mnt", "log"]);
    disk.unmount();
    let check: &[&str] = match kind {
        "ext4" => &["e2fsck", "-fn"],
        "xfs" => &["xfs_repair", "-n"],
        "ntfs" => &["ntfsfix", "-n"],
        _ => &["btrfs", "check", "--readonly"],
    };
    let _ = fs::remove_file(place.path("plain.img"));
    place.scrim("export -q disk.img plain.img --key-file key".split(' '));
    place.run(check[0], check[1..].iter().chain(&["plain.img"]));
}

/// Processes of a mount: the server's number, and those of its children that match.
fn process(disk: &Disk, victim: &str, writer: &Background) -> String {
    let server = server(disk);
    match victim {
        "scrim" => server,
        "writer" => writer.0.id().to_string(),
        "guard" => disk.0.run("pgrep", ["-P", &server, "-f", "scrim-guard"]),
        program => disk.0.run("pgrep", ["-P", &server, "-x", program]),
    }
}

/// Kills a process while another writes, and checks that what was acknowledged is there.
fn killed_under_load(kind: &str, (size, mkfs): (&str, &str), options: &str, victims: &[&str]) {
    let disk = Disk::new(size, mkfs);
    for (round, victim) in victims.iter().enumerate() {
        println!("{options}: {victim}");
        disk.mount(options);
        let task = if kind == "raw" { "blocks" } else { "write" };
        if kind != "raw" && round > 0 {
            disk.0.run("sh", ["-c", "rm -rf mnt/[0-9] mnt/moved"]);
        }
        let mut load = writer(&disk, task);
        wait_for_lines(&disk, &mut load, 40);
        let numbers = process(&disk, victim, &load);
        kill(&disk, &numbers);
        match *victim {
            "guard" => {
                let before = lines(&disk);
                wait_for_lines(&disk, &mut load, before + 10);
                drop(load);
                disk.unmount();
            }
            "writer" => {
                drop(load);
                disk.unmount();
            }
            _ => {
                ends_with_an_error(&disk, &mut load);
                numbers.split_whitespace().for_each(wait_for_end);
            }
        }
        match *victim {
            "guard" | "writer" => is_whole(&disk, options, kind),
            _ => survives(&disk, options, kind),
        }
    }
}

#[test]
fn killed_under_the_load_of_the_kernels_ext4() {
    if root_may_mount() && have(&["pgrep"]) {
        let victims = ["scrim", "guard", "writer"];
        killed_under_load("ext4", ("96M", EXT4), "--method kernel", &victims);
    }
}

#[test]
fn killed_under_the_load_of_fuse2fs() {
    if root_may_mount() && have(&["pgrep"]) {
        let victims = ["scrim", "fuse2fs", "guard", "writer"];
        killed_under_load("ext4", ("160M", EXT4), "--method program", &victims);
    }
}

#[test]
fn killed_under_the_load_of_the_raw_file() {
    if root_may_mount() && have(&["pgrep"]) {
        for options in ["--raw", "--raw --page-cache"] {
            let victims = ["scrim", "guard", "writer"];
            killed_under_load("raw", ("24M", EXT4), options, &victims);
        }
    }
}

#[test]
fn killed_under_the_load_of_xfs_and_btrfs() {
    if !root_may_mount() || !have(&["pgrep", "mkfs.xfs", "mkfs.btrfs", "xfs_repair", "btrfs"]) {
        return;
    }
    let known = fs::read_to_string("/proc/filesystems").unwrap();
    for (kind, size, mkfs) in [
        ("xfs", "336M", "mkfs.xfs -q -s size=4096"),
        ("btrfs", "160M", "mkfs.btrfs -q"),
    ] {
        if known.contains(kind) {
            killed_under_load(kind, (size, mkfs), "", &["scrim"]);
        } else {
            println!("skipped: this kernel has no {kind}");
        }
    }
}

#[test]
fn killed_under_the_load_of_ntfs_3g() {
    if root_may_mount() && have(&["pgrep", "mkntfs", "ntfs-3g", "ntfsfix"]) {
        let options = "--method program";
        let victims = ["ntfs-3g", "guard", "ntfs-3g"];
        killed_under_load("ntfs", ("160M", "mkntfs -Q -q -F"), options, &victims);
    }
}

#[test]
fn killed_while_squashfuse_is_read() {
    if !root_may_mount() || !have(&["pgrep", "mksquashfs", "squashfuse"]) {
        return;
    }
    let disk = Disk::new("24M", EXT4);
    let place = &disk.0;
    fs::create_dir(place.path("tree")).unwrap();
    place.write("tree/file", noise(8 << 20, 1));
    place.run(
        "mksquashfs",
        ["tree", "tree.sqsh", "-quiet", "-no-progress", "-noD"],
    );
    place.run("rm", ["disk.img"]);
    let words = format!("import -q tree.sqsh disk.img {CHEAP}");
    place.scrim(words.split(' '));
    for victim in ["scrim", "squashfuse", "guard"] {
        mount_after_kill(&disk, "--method program");
        let read =
            "n=0; while cmp -s tree/file mnt/file; do n=$((n+1)); echo $n >> log; done; exit 7";
        let mut reader = Background::start(place.command("sh").args(["-c", read]));
        wait_until("the reader reads", || lines(&disk) > 2);
        kill(&disk, &process(&disk, victim, &reader));
        if victim == "guard" {
            let before = lines(&disk);
            wait_until("the reader goes on", || lines(&disk) > before + 1);
            kill(&disk, &reader.0.id().to_string());
            let _ = reader.0.wait();
            wait_until("nothing reads", || disk.try_unmount().status.success());
        } else {
            assert_eq!(reader.0.wait().unwrap().code(), Some(7));
        }
        wait_until("the mount is gone", || !disk.is_mounted());
        wait_until("the volume is free", || place.scrim(["list"]).is_empty());
        let _ = fs::remove_file(place.path("log"));
    }
}

/// The image behind nbdkit, which is slow where `rate` says so.
fn behind_nbdkit(disk: &Disk, words: &str) -> Background {
    let _ = fs::remove_file(disk.0.path("server"));
    serve(&disk.0, &format!("nbdkit -f -U server {words}"), SOCKET)
}

fn mount_remote(disk: &Disk, options: &str) {
    let words = format!("60 scrim mount {SOCKET} mnt --name disk --key-file key {options}");
    disk.0.run("timeout", words.split_whitespace());
}

fn command(disk: &Disk, words: &str) -> Output {
    let mut words = words.split_whitespace();
    let mut command = disk.0.command(words.next().unwrap());
    command.args(words).output().unwrap()
}

/// Copies a file of `mib` MiB that no fsync has acknowledged.
fn copy(disk: &Disk, mib: usize) {
    disk.0.write("file", noise(mib << 20, 3));
    disk.0.run("cp", ["file", "mnt/file"]);
}

fn has_copy(disk: &Disk) {
    // The journal may have to be replayed.
    disk.mount("");
    disk.0.run("cmp", ["file", "mnt/file"]);
    disk.unmount();
}

/// A storage that takes longer than any limit of Scrim's, but answers, loses nothing.
#[test]
fn a_slow_storage_gets_everything_when_others_unmount() {
    if !root_may_mount() || !have(&["nbdkit", "nbdinfo"]) {
        return;
    }
    let disk = Disk::new("160M", EXT4);
    let server = behind_nbdkit(&disk, "--filter=rate file disk.img rate=40M");
    mount_remote(&disk, "");
    copy(&disk, 72);
    // It returns after some 14 s, when the kernel has written everything.
    disk.0.run("umount", ["mnt"]);
    wait_until("the volume is closed", || disk.0.scrim(["list"]).is_empty());
    drop(server);
    has_copy(&disk);
}

/// A process that is killed within its own `umount(2)` would wait for itself for ever if it kept the FUSE device open.
#[test]
fn killed_while_it_unmounts() {
    if !root_may_mount() || !have(&["nbdkit", "nbdinfo"]) {
        return;
    }
    let disk = Disk::new("96M", EXT4);
    let slow = behind_nbdkit(&disk, "--filter=rate file disk.img rate=40M");
    mount_remote(&disk, "");
    copy(&disk, 40);
    let number = server(&disk);
    let mut umount = disk.0.command("timeout");
    let mut umount = Background::start(
        umount
            .args(["60", "scrim", "umount", "mnt"])
            .stderr(Stdio::null()),
    );
    wait_until("the kernel unmounts", || !disk.is_mounted());
    kill(&disk, &number);
    wait_for_end(&number);
    assert!(!umount.0.wait().unwrap().success());
    drop(slow);
    let place = disk.0.dir().to_str().unwrap();
    wait_until("no loop device is left", || {
        !disk.0.run("losetup", ["--all"]).contains(place)
    });
    mount_after_kill(&disk, "--method kernel");
    disk.unmount();
}

/// Programs that use the mount lose it, but not what others had written before.
#[test]
fn a_forced_end_writes_what_was_copied() {
    if !root_may_mount() {
        return;
    }
    for method in ["kernel", "program"] {
        let disk = Disk::new("64M", EXT4);
        disk.mount(&format!("--method {method}"));
        copy(&disk, 5);
        let mut holder = disk.0.command("sleep");
        let holder = Background::start(holder.arg("100").current_dir(disk.0.path("mnt")));
        disk.0
            .run("timeout", ["100", "scrim", "umount", "mnt", "--force"]);
        drop(holder);
        wait_until("the volume is closed", || disk.0.scrim(["list"]).is_empty());
        has_copy(&disk);
    }
}

/// The kernel holds back what was written through a mapping as long as that lasts.
#[test]
fn a_forced_end_writes_what_was_mapped() {
    if !root_may_mount() {
        return;
    }
    for method in ["kernel", "program"] {
        let disk = Disk::new("64M", EXT4);
        disk.mount(&format!("--method {method}"));
        // `/proc/PID/maps` escapes the name of the first file, so that it cannot be opened by it.
        let write = "import mmap, time; kept = []\n\
                     for name in ['mnt/a\\nb', 'mnt/file']:\n    \
                         file = open(name, 'w+b'); file.truncate(1 << 20)\n    \
                         kept.append(mmap.mmap(file.fileno(), 1 << 20)); kept[-1][:] = b'x' * (1 << 20)\n\
                     print('written', flush=True); time.sleep(200)";
        let said = fs::File::create(disk.0.path("said")).unwrap();
        let mut holder = disk.0.command(PYTHON);
        let holder = Background::start(holder.args(["-c", write]).stdout(said));
        let has_written = || {
            fs::read(disk.0.path("said"))
                .unwrap()
                .starts_with(b"written")
        };
        wait_until("the mapping is written", has_written);
        disk.0
            .run("timeout", ["100", "scrim", "umount", "mnt", "--force"]);
        drop(holder);
        wait_until("the volume is closed", || disk.0.scrim(["list"]).is_empty());
        disk.mount("");
        let back = fs::read(disk.0.path("mnt/file")).unwrap();
        assert!(back == [b'x'; 1 << 20], "{method}");
        disk.unmount();
    }
}

/// The page cache of the one file is written, too, while a program has the file open.
#[test]
fn a_forced_end_writes_the_page_cache_of_the_plaintext() {
    use std::os::unix::fs::FileExt;
    if !root_may_mount() {
        return;
    }
    let disk = Disk::new("64M", EXT4);
    disk.mount("--raw --page-cache");
    let path = disk.0.path("mnt/disk");
    let data: Vec<u8> = (0..8_u32 << 20)
        .map(|at| (at / 4099).to_le_bytes()[0])
        .collect();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&data, 4096).unwrap();
    disk.0
        .run("timeout", ["100", "scrim", "umount", "mnt", "--force"]);
    drop(file);
    wait_until("the volume is closed", || disk.0.scrim(["list"]).is_empty());
    disk.mount("--raw");
    let mut back = vec![0; data.len()];
    fs::File::open(&path)
        .unwrap()
        .read_exact_at(&mut back, 4096)
        .unwrap();
    assert!(back == data);
    disk.unmount();
}

/// A storage that does not answer at all: the command ends, and so does the process.
#[test]
fn a_forced_end_does_not_wait_for_a_storage_that_is_silent() {
    if !root_may_mount() || !have(&["nbdkit", "nbdinfo"]) {
        return;
    }
    // They wait for most of their time.
    std::thread::scope(|scope| {
        for (options, kind, task) in WAYS {
            scope.spawn(move || ends_in_silence(options, kind, task));
        }
    });
}

fn ends_in_silence(options: &str, kind: &str, task: &str) {
    let disk = Disk::new("160M", EXT4);
    let silent = behind_nbdkit(&disk, "file disk.img");
    mount_remote(&disk, &format!("{options} --nbd-timeout 20"));
    let mut load = writer(&disk, task);
    wait_for_lines(&disk, &mut load, 20);
    let number = server(&disk);
    disk.0.run("kill", ["-STOP", &silent.0.id().to_string()]);
    let output = command(&disk, "timeout 120 scrim umount mnt --force");
    assert_ne!(output.status.code(), Some(124), "{options}: {output:?}");
    assert!(!disk.is_mounted());
    ends_with_an_error(&disk, &mut load);
    wait_for_end(&number);
    drop(silent);
    survives(&disk, options, kind);
}

/// The server dies, or fails every write.
#[test]
fn a_storage_that_fails_is_reported_and_loses_nothing_that_was_acknowledged() {
    if !root_may_mount() || !have(&["nbdkit", "nbdinfo"]) {
        return;
    }
    std::thread::scope(|scope| {
        for (options, kind, task) in WAYS {
            scope.spawn(move || {
                for dies in [true, false] {
                    fails(options, kind, task, dies);
                }
            });
        }
    });
}

fn fails(options: &str, kind: &str, task: &str, dies: bool) {
    let disk = Disk::new("160M", EXT4);
    let file = disk.0.path("bad");
    let words = format!(
        "--filter=error file disk.img error=EIO error-pwrite-rate=100% error-zero-rate=100% error-file={}",
        file.display()
    );
    let mut nbdkit = behind_nbdkit(&disk, &words);
    mount_remote(&disk, &format!("{options} --nbd-timeout 10"));
    let mut load = writer(&disk, task);
    wait_for_lines(&disk, &mut load, 20);
    if dies {
        nbdkit.0.kill().unwrap();
        nbdkit.0.wait().unwrap();
    } else {
        disk.0.write("bad", "");
    }
    ends_with_an_error(&disk, &mut load);
    let number = server(&disk);
    let output = command(&disk, "timeout 120 scrim umount mnt");
    assert_ne!(output.status.code(), Some(124), "{options}: {output:?}");
    // Some of the writes were refused, or are to be made when there is nobody any more.
    assert!(!output.status.success(), "{options}: {output:?}");
    command(&disk, "timeout 120 scrim umount mnt --force");
    wait_for_end(&number);
    drop(nbdkit);
    survives(&disk, options, kind);
}

/// A tmpfs of `size` on the folder of a place, which goes with it.
struct Full(Disk);

impl Drop for Full {
    fn drop(&mut self) {
        let mut command = self.0.0.command("umount");
        let _ = command.args(["-l", "small"]).stderr(Stdio::null()).status();
    }
}

#[test]
fn a_full_disk_is_reported_and_loses_nothing_that_was_acknowledged() {
    if !root_may_mount() {
        return;
    }
    for options in ["--method kernel", "--method program", "--raw"] {
        println!("{options}");
        let place = Place::new();
        fs::create_dir(place.path("small")).unwrap();
        place.run("mount", ["-t", "tmpfs", "-o", "size=600M", "none", "small"]);
        let disk = Full(Disk::within(place, "160M", EXT4));
        let place = &disk.0.0;
        // With its holes.
        place.run("cp", ["--sparse=always", "disk.img", "small/"]);
        place.run("ln", ["-sf", "small/disk.img", "disk.img"]);
        place.run("mount", ["-o", "remount,size=40M", "small"]);
        disk.0.mount(options);
        let kind = if options == "--raw" { "raw" } else { "ext4" };
        let task = if kind == "raw" { "blocks" } else { "write" };
        let mut load = writer(&disk.0, task);
        let said = ends_with_an_error(&disk.0, &mut load);
        println!("{said}");
        let output = command(&disk.0, "timeout 120 scrim umount mnt");
        assert_ne!(output.status.code(), Some(124), "{output:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("the storage failed"), "{told}");
        place.run("mount", ["-o", "remount,size=600M", "small"]);
        survives(&disk.0, options, kind);
    }
}

#[test]
fn an_image_that_is_removed_is_used_to_the_end() {
    if !root_may_mount() {
        return;
    }
    for options in ["--method kernel", "--method program"] {
        let disk = Disk::new("64M", EXT4);
        disk.mount(options);
        disk.0.run("ln", ["disk.img", "kept"]);
        disk.0.run("rm", ["disk.img"]);
        copy(&disk, 3);
        let unmount = disk.0.command(scrim()).args(["umount", "mnt"]).output();
        assert!(unmount.unwrap().status.success());
        disk.0.run("mv", ["kept", "disk.img"]);
        has_copy(&disk);
    }
}
