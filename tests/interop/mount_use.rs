//! Use of a mounted volume by others: other users, other mounts, other commands, and folders that move meanwhile.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output, Stdio};

use crate::mount::{Disk, ELSEWHERE, root_may_mount, server};
use crate::support::{Background, have, scrim, wait_until};

const EXT4: &str = "mkfs.ext4 -q -b 4096";

fn scrim_says(disk: &Disk, words: &str) -> Output {
    let mut command = disk.0.command("timeout");
    command.args(["60", "scrim"]).args(words.split_whitespace());
    command.output().unwrap()
}

#[track_caller]
fn refused(disk: &Disk, words: &str, code: i32) -> String {
    let output = scrim_says(disk, words);
    assert_eq!(output.status.code(), Some(code), "{words}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn mounts_at(path: &str) -> usize {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table
        .lines()
        .filter(|line| line.split(' ').nth(4) == Some(path))
        .count()
}

/// fuse2fs checks no modes by itself.
#[test]
fn other_users_have_what_the_modes_of_files_allow() {
    if !root_may_mount() || !have(&["setpriv"]) {
        return;
    }
    for method in ["kernel", "program"] {
        let disk = Disk::new("64M", EXT4);
        let place = &disk.0;
        fs::set_permissions(place.dir(), Permissions::from_mode(0o755)).unwrap();
        disk.mount(&format!("--allow-other --method {method}"));
        place.write("mnt/secret", "s");
        place.write("mnt/open", "o");
        for (name, mode) in [("mnt/secret", 0o600), ("mnt/open", 0o644), ("mnt", 0o755)] {
            fs::set_permissions(place.path(name), Permissions::from_mode(mode)).unwrap();
        }
        let steps = "cat mnt/open && ! cat mnt/secret && ! sh -c ': > mnt/secret' && ! sh -c ': > mnt/open' && ! touch mnt/new";
        let user = [
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "sh",
            "-c",
        ];
        let output = place
            .command("setpriv")
            .args(user)
            .arg(steps)
            .output()
            .unwrap();
        assert!(output.status.success(), "{method}: {output:?}");
        assert_eq!(output.stdout, b"o");
        assert_eq!(fs::read(place.path("mnt/secret")).unwrap(), b"s");
        disk.unmount();
    }
}

/// The folder above a mount gets another name, and a link to somewhere else gets the old one.
#[test]
fn a_mount_is_found_where_it_is_now() {
    if !root_may_mount() {
        return;
    }
    for (options, is_killed) in [
        ("--method kernel", false),
        ("--method program", false),
        ("--raw", false),
        ("--method kernel", true),
        ("--method program", true),
        ("--raw", true),
    ] {
        println!("{options}, killed: {is_killed}");
        let disk = Disk::new("64M", EXT4);
        let place = &disk.0;
        let dir = place.dir().canonicalize().unwrap();
        let dir = dir.to_str().unwrap();
        for folder in ["above/mnt", "other/mnt"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        place.run("mount", ["-t", "tmpfs", "none", "other/mnt"]);
        let words = format!("mount disk.img above/mnt --key-file key {options}");
        assert!(scrim_says(&disk, &words).status.success());
        let status: serde_json::Value =
            serde_json::from_str(&place.scrim(["status", "disk", "--json"])).unwrap();
        fs::rename(place.path("above"), place.path("a \\new\tname")).unwrap();
        symlink("other", place.path("above")).unwrap();
        // It goes on, although nothing of it is on its old path.
        std::thread::sleep(std::time::Duration::from_secs(2));
        let moved = format!("{dir}/a\\040\\134new\\011name/mnt");
        assert_eq!(mounts_at(&moved), 1);
        assert!(place.scrim(["list"]).starts_with("disk"));
        if is_killed {
            place.run("kill", ["-9", &status["pid"].to_string()]);
        } else {
            assert!(scrim_says(&disk, "umount disk").status.success());
        }
        wait_until("the mount is gone", || mounts_at(&moved) == 0);
        wait_until("the volume is closed", || place.scrim(["list"]).is_empty());
        let other = mounts_at(&format!("{dir}/other/mnt"));
        if other == 1 {
            place.run("umount", ["other/mnt"]);
        }
        // libfuse, in a program that is asked to end, unmounts by the old path.
        assert!(other == 1 || is_killed && options.contains("program"));
        let private = place.path("run/scrim/disk.mount");
        disk.mount("--method program");
        disk.unmount();
        assert!(!private.exists());
    }
}

#[test]
fn a_volume_has_many_mounts_that_read_or_one_that_writes() {
    if !root_may_mount() {
        return;
    }
    let disk = Disk::new("64M", EXT4);
    let place = &disk.0;
    place.scrim("open disk.img secret --key-file key".split(' '));
    for folder in ["one", "two", "three"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    let unmount = |folder: &str| {
        place.scrim(["umount", folder]);
    };
    for (first, second) in [
        ("--raw", "--raw"),
        ("--raw", "--raw --readonly"),
        ("--raw --readonly", "--raw"),
        ("--raw", "--readonly"),
        ("", "--raw --readonly"),
        ("--readonly", "--raw"),
        ("--raw --readonly --page-cache", "--raw --readonly"),
        ("--raw --readonly", "--raw --readonly --page-cache"),
    ] {
        place.scrim(format!("mount secret one {first}").split_whitespace());
        let said = refused(&disk, &format!("mount secret two {second}"), 5);
        assert!(said.contains("scrim umount"), "{said}");
        unmount("one");
    }
    for (folder, options) in [("one", "--raw"), ("two", ""), ("three", "--raw")] {
        let words = format!("mount secret {folder} --readonly {options}");
        place.scrim(words.split_whitespace());
    }
    for folder in ["one", "two", "three"] {
        unmount(folder);
    }
}

/// Reading beside a mount that writes would mix two moments.
#[test]
fn files_are_not_read_beside_a_mount_that_writes() {
    if !root_may_mount() {
        return;
    }
    let disk = Disk::new("64M", EXT4);
    let place = &disk.0;
    disk.mount("");
    place.write("mnt/file", "new");
    for words in ["ls disk:/", "cat disk:/file", "cp disk:/file copy"] {
        let said = refused(&disk, words, 5);
        assert!(said.contains("mounted for writing"), "{said}");
    }
    disk.unmount();
    disk.mount("--readonly");
    assert_eq!(place.scrim(["cat", "disk:/file"]), "new");
    disk.unmount();
}

/// A file system decides on its own folders only: a home that has another mode keeps it.
#[test]
fn folders_that_a_copy_goes_into_keep_their_attributes() {
    if !root_may_mount() {
        return;
    }
    let disk = Disk::new("64M", EXT4);
    let place = &disk.0;
    disk.mount("");
    for folder in ["mnt/home/.ssh/new", "home/.ssh"] {
        fs::create_dir_all(place.path(folder)).unwrap();
    }
    for folder in ["mnt/home", "mnt/home/.ssh", "mnt/home/.ssh/new"] {
        fs::set_permissions(place.path(folder), Permissions::from_mode(0o777)).unwrap();
        place.run("chown", ["1234", folder]);
    }
    disk.unmount();
    fs::set_permissions(place.path("home/.ssh"), Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(place.path("home"), Permissions::from_mode(0o711)).unwrap();
    let look = |folder: &str| place.run("stat", ["-c", "%a %u", folder]).trim().to_owned();
    let owner = look("home").split(' ').nth(1).unwrap().to_owned();
    place.scrim("cp -r --preserve-owner disk.img:/home . --key-file key".split(' '));
    assert_eq!(look("home"), format!("711 {owner}"));
    assert_eq!(look("home/.ssh"), format!("700 {owner}"));
    assert_eq!(look("home/.ssh/new"), "777 1234");
    place.scrim(
        "cp -r --no-target-directory --preserve-owner disk.img:/home other --key-file key"
            .split(' '),
    );
    assert_eq!(look("other/.ssh"), "777 1234");
}

/// Nothing but time tells that the last client has left.
#[test]
fn a_volume_is_closed_when_its_last_client_leaves_after_the_mount() {
    if !root_may_mount() || !have(&["qemu-io"]) {
        return;
    }
    let disk = Disk::new("64M", EXT4);
    disk.mount("--readonly");
    let uri = disk.0.scrim("status disk --json".split(' '));
    let uri: serde_json::Value = serde_json::from_str(&uri).unwrap();
    let mut client = disk.0.command("qemu-io");
    client.args(["-r", "-f", "raw", uri["address"].as_str().unwrap()]);
    let mut client = Background::start(client.stdin(Stdio::piped()).stdout(Stdio::null()));
    wait_until("it is connected", || {
        let status = disk.0.scrim("status disk --json".split(' '));
        status.contains("\"clients\": 1")
    });
    let output = disk.try_unmount();
    assert!(output.status.success(), "{output:?}");
    assert!(disk.0.scrim(["list"]).starts_with("disk"));
    drop(client.0.stdin.take());
    client.0.wait().unwrap();
    wait_until("the volume is closed", || disk.0.scrim(["list"]).is_empty());
}

/// A program that makes a mount namespace of its own takes a copy of each mount into it, and may not know.
#[test]
fn a_copy_of_a_mount_in_another_namespace_is_named() {
    if !root_may_mount() {
        return;
    }
    let disk = Disk::new("64M", EXT4);
    disk.mount("--method kernel");
    let mut keeper = disk.0.command("unshare");
    keeper.args("--mount --propagation private sh -c".split(' '));
    keeper.args(["echo; exec sleep 300"]).stdout(Stdio::piped());
    let mut keeper = Background::start(&mut keeper);
    let mut line = [0];
    let said = keeper.0.stdout.take().unwrap().read_exact(&mut line);
    said.unwrap();
    let said = refused(&disk, "umount mnt", 5);
    assert!(said.contains(ELSEWHERE), "{said}");
    let name = format!("(process {})", keeper.0.id());
    assert!(said.contains(&name), "{said}");
    drop(keeper);
    let is_closed = || disk.0.scrim(["list"]).is_empty();
    wait_until("the volume is closed", is_closed);
    disk.mount("--method kernel");
    disk.unmount();
}

/// A volume that answers nothing does not hold up commands on another one.
#[test]
fn a_silent_volume_is_named_when_a_mount_is_looked_for() {
    if !root_may_mount() {
        return;
    }
    let disk = Disk::new("64M", EXT4);
    let place = &disk.0;
    fs::copy(place.path("disk.img"), place.path("silent.img")).unwrap();
    place.scrim("open silent.img a-silent-one --key-file key".split(' '));
    let status: serde_json::Value =
        serde_json::from_str(&place.scrim(["status", "a-silent-one", "--json"])).unwrap();
    disk.mount("--raw");
    let pid = status["pid"].to_string();
    place.run("kill", ["-STOP", &pid]);
    let output = disk.try_unmount();
    let said = refused(&disk, "umount mnt", 5);
    place.run("kill", ["-CONT", &pid]);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("a-silent-one"), "{said}");
    place.scrim(["close", "a-silent-one"]);
}

#[test]
fn status_has_the_traffic_of_each_mount() {
    if !root_may_mount() {
        return;
    }
    let disk = Disk::new("64M", EXT4);
    disk.mount("--raw");
    let bytes = fs::read(disk.0.path("mnt/disk")).unwrap();
    let mut command = disk.0.command(scrim());
    let status = command.args(["status", "disk", "--json"]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let mount = &status["mounts"][0];
    assert_eq!(mount["served"]["read_bytes"], bytes.len());
    assert_eq!(mount["failed"], 0);
    disk.unmount();
}

/// Flag `PF_MEMALLOC_NOIO` of a thread, in the ninth field of its `stat`.
const ALLOCATES_WITHOUT_IO: u64 = 0x8_0000;

/// A process below a loop device must not wait for data of the file system on it.
#[test]
fn threads_below_a_file_system_allocate_without_io() {
    if !root_may_mount() {
        return;
    }
    let mut lower = Command::new("choom");
    lower.args(["-n", "-1000", "--", "true"]);
    // Root of most virtual machines of CI does not have it.
    if !have(&["choom"]) || !lower.output().unwrap().status.success() {
        println!("skipped: no CAP_SYS_RESOURCE");
        return;
    }
    let disk = Disk::new("24M", "mkfs.ext4 -q -b 4096");
    disk.mount("--method kernel");
    let threads = fs::read_dir(format!("/proc/{}/task", server(&disk))).unwrap();
    for thread in threads {
        let stat = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
        let fields = stat.rsplit(") ").next().unwrap();
        let flags: u64 = fields.split(' ').nth(6).unwrap().parse().unwrap();
        assert_ne!(flags & ALLOCATES_WITHOUT_IO, 0, "{stat}");
    }
    disk.unmount();
}
