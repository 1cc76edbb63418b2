//! Volumes that are mounted while their storage falls silent: the command ends, and other commands are answered meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use crate::mount::{Disk, root_may_mount};
use crate::remote::serve;
use crate::support::{Background, have, wait_until};

/// Address at which nbdkit serves the image.
const SOCKET: &str = "nbd+unix:///?socket=server";

/// Runs a command with a limit of `limit` seconds.
fn within(disk: &Disk, limit: u32, words: &str) -> Output {
    let mut command = disk.0.command("timeout");
    let limit = limit.to_string();
    command.arg(limit).args(words.split_whitespace());
    command.output().unwrap()
}

/// A volume on nbdkit, whose PATH has a program that stops nbdkit before it does its work.
struct Silent {
    disk: Disk,
    nbdkit: Background,
}

impl Silent {
    fn open(program: &str) -> Self {
        let disk = Disk::new("64M", "mkfs.ext4 -q -b 4096");
        let place = &disk.0;
        let nbdkit = serve(place, "nbdkit -f -U server file disk.img", SOCKET);
        fs::create_dir(place.path("bin")).unwrap();
        let real = place.run("sh", ["-c", &format!("command -v {program}")]);
        let number = nbdkit.0.id();
        let text = format!(
            "#!/bin/sh\nkill -STOP {number}\nexec {} \"$@\"\n",
            real.trim()
        );
        let wrapper = place.write(&format!("bin/{program}"), text);
        fs::set_permissions(wrapper, fs::Permissions::from_mode(0o755)).unwrap();
        let open = format!(
            "PATH={}:$PATH exec timeout 60 scrim open '{SOCKET}' disk --key-file key --nbd-timeout 600",
            place.path("bin").display()
        );
        place.run("sh", ["-c", &open]);
        Self { disk, nbdkit }
    }

    fn signal(&self, signal: &str) {
        let number = self.nbdkit.0.id().to_string();
        self.disk.0.run("kill", [signal, &number]);
    }

    fn is_silent(&self) -> bool {
        let state = format!("/proc/{}/stat", self.nbdkit.0.id());
        fs::read_to_string(state).is_ok_and(|text| text.contains(") T "))
    }
}

fn ends(program: &str, options: &str) {
    let silent = Silent::open(program);
    let place = &silent.disk.0;
    let said = fs::File::create(place.path("said")).unwrap();
    let mut mount = place.command("timeout");
    let words = format!("150 scrim mount disk mnt {options}");
    mount.args(words.split_whitespace()).stdout(Stdio::null());
    let mut mount = Background::start(mount.stderr(said));
    wait_until("the program is started", || silent.is_silent());
    let status = within(&silent.disk, 20, "scrim status disk --json");
    assert!(status.status.success(), "{options}: {status:?}");
    for words in ["umount disk", "close disk", "mount disk mnt"] {
        let refused = within(&silent.disk, 20, &format!("scrim {words}"));
        assert_eq!(refused.status.code(), Some(5), "{options}: {refused:?}");
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(told.contains("is being mounted"), "{words}: {told}");
    }
    assert_eq!(mount.0.wait().unwrap().code(), Some(4), "{options}");
    let told = fs::read_to_string(place.path("said")).unwrap();
    assert!(told.contains("has answered nothing for 45 s"), "{told}");
    assert!(told.contains(program), "{told}");
    assert!(!silent.disk.is_mounted());
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!table.contains(place.dir().to_str().unwrap()), "{table}");
    let left = place.path("mnt").display().to_string();
    let mut find = place.command("pgrep");
    wait_until("the program has ended", || {
        !find.args(["-f", &left]).output().unwrap().status.success()
    });
    silent.signal("-CONT");
    let mounted = within(&silent.disk, 60, "scrim status disk");
    assert!(mounted.status.success());
    let closed = within(&silent.disk, 60, "scrim close disk");
    assert!(closed.status.success(), "{closed:?}");
}

#[test]
fn a_mount_ends_if_the_storage_falls_silent_while_a_program_starts() {
    if !root_may_mount() || !have(&["nbdkit", "nbdinfo", "pgrep"]) {
        return;
    }
    // They wait for most of their time.
    std::thread::scope(|scope| {
        scope.spawn(|| ends("fuse2fs", "--method program"));
        scope.spawn(|| ends("mount", "--method kernel"));
    });
}

/// `umount DIR` asks every open volume. Were they asked in order, the ones that are stopped here would take 24 s.
#[test]
fn umount_asks_volumes_that_are_silent_side_by_side() {
    if !root_may_mount() {
        return;
    }
    let disk = Disk::new("24M", "mkfs.ext4 -q -b 4096");
    let place = &disk.0;
    let names: Vec<_> = (0..12).map(|number| format!("before{number}")).collect();
    for name in &names {
        let image = format!("{name}.img");
        place.run("cp", ["--sparse=always", "disk.img", &image]);
        place.open(&image, name, &["--key-file", "key"]);
    }
    disk.mount("--raw");
    let numbers = names.iter().map(|name| {
        let status = place.scrim(["status", name, "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["pid"].to_string()
    });
    let numbers: Vec<_> = numbers.collect();
    let signal = |signal| {
        place.run(
            "kill",
            [signal].into_iter().chain(numbers.iter().map(|it| &**it)),
        )
    };
    signal("-STOP");
    let unmounted = within(&disk, 20, "scrim umount mnt");
    signal("-CONT");
    assert!(unmounted.status.success(), "{unmounted:?}");
    for name in &names {
        place.close(name);
    }
}
