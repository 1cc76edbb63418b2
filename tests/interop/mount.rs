//! `scrim mount` and `umount`: each method, as root and as an ordinary user, with real drivers and the kernel's file
//! systems.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::support::{Background, Place, have, is_root, may, noise, scrim, succeeded, wait_until};

pub(crate) const CHEAP: &str = "--key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000";

/// Words of `scrim umount` for a file system that another mount namespace keeps at work.
pub(crate) const ELSEWHERE: &str = "still mounted in another mount namespace";

/// A volume with a file system, and a directory to mount it on, which is free again when this is dropped.
pub(crate) struct Disk(pub(crate) Place);

impl Disk {
    /// Makes a volume of `size`, and a file system in it by `mkfs` on the plaintext as one file.
    pub(crate) fn new(size: &str, mkfs: &str) -> Self {
        Self::within(Place::new(), size, mkfs)
    }

    /// As [`new`](Self::new), in a place that is there.
    pub(crate) fn within(place: Place, size: &str, mkfs: &str) -> Self {
        place.write("key", "open sesame");
        fs::create_dir(place.path("mnt")).unwrap();
        let words = format!("format -q disk.img --size {size} {CHEAP}");
        place.scrim(words.split(' '));
        let disk = Self(place);
        disk.mount("--raw");
        let words = format!("60 {mkfs} mnt/disk");
        disk.0.run("timeout", words.split(' '));
        disk.unmount();
        disk
    }

    pub(crate) fn try_mount(&self, options: &str) -> Output {
        let words = format!("60 scrim mount disk.img mnt --key-file key {options}");
        let words = words.split_whitespace();
        self.0.command("timeout").args(words).output().unwrap()
    }

    /// Mounts it; returns what the command says.
    pub(crate) fn mount(&self, options: &str) -> String {
        succeeded("mount", &self.try_mount(options))
    }

    pub(crate) fn try_unmount(&self) -> Output {
        let words = ["60", "scrim", "umount", "mnt"];
        self.0.command("timeout").args(words).output().unwrap()
    }

    pub(crate) fn unmount(&self) {
        let output = self.try_unmount();
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(5) && said.contains(ELSEWHERE) {
            // Any program of this machine that makes a mount namespace meanwhile takes a copy of the mount into it.
            println!("{said}");
            let is_closed = || self.0.scrim(["list"]).is_empty();
            wait_until("the other namespace has gone", is_closed);
        } else {
            succeeded("umount", &output);
        }
        assert!(!self.is_mounted());
        assert_eq!(self.0.scrim(["list"]), "");
    }

    pub(crate) fn is_mounted(&self) -> bool {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let directory = self.0.path("mnt").canonicalize();
        // A dead mount cannot be looked at.
        directory.is_ok_and(|path| table.contains(path.to_str().unwrap()))
    }

    /// Decrypts it with `scrim export`, checks the file system, and compares the tree in it with the one in `tree`.
    fn has_tree(&self, tree: &str) {
        let place = &self.0;
        place.scrim("export -q disk.img plain.img --key-file key".split(' '));
        place.run("e2fsck", ["-fn", "plain.img"]);
        fs::create_dir_all(place.path("back")).unwrap();
        let dump = format!("rdump /{tree} back");
        place.run("debugfs", ["-R", &dump, "plain.img"]);
        place.run("diff", ["-r", tree, &format!("back/{tree}")]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for mounted in ["mnt", "run/scrim/disk.mount"] {
            let mut command = self.0.command("umount");
            let command = command.args(["-l", mounted]).stderr(Stdio::null());
            let _ = command.status();
        }
    }
}

/// A tree with folders, links, a hole, and files of awkward sizes.
fn tree(place: &Place) {
    for folder in ["tree/a/b", "tree/empty"] {
        fs::create_dir_all(place.path(folder)).unwrap();
    }
    for (index, size) in [0, 1, 511, 4096, 4097, 3 << 20].into_iter().enumerate() {
        place.write(&format!("tree/a/{index}"), noise(size, index as u64));
    }
    for index in 0..200 {
        place.write(&format!("tree/a/b/{index}"), noise(index, 7));
    }
    place.sparse("tree/hole", 5 << 20);
    std::os::unix::fs::symlink("a/1", place.path("tree/link")).unwrap();
}

/// Returns whether root may mount here, and has the programs for it.
pub(crate) fn root_may_mount() -> bool {
    let programs = [
        "mkfs.ext4",
        "e2fsck",
        "debugfs",
        "fuse2fs",
        "losetup",
        "timeout",
    ];
    if !have(&programs) {
        return false;
    }
    if !is_root() {
        println!("skipped: mounts with the kernel need root");
        return false;
    }
    may(
        "to use FUSE",
        Command::new("sh").args(["-c", ": < /dev/fuse"]),
    ) && may("to use loop devices", Command::new("losetup").arg("-f"))
}

const METHODS: [&str; 2] = ["kernel", "program"];

#[test]
fn a_tree_goes_in_and_out_by_each_method() {
    if !root_may_mount() {
        return;
    }
    for method in METHODS {
        let disk = Disk::new("96M", "mkfs.ext4 -q -b 4096");
        tree(&disk.0);
        let option = format!("--method {method}");
        let said = disk.mount(&option);
        let by = if method == "kernel" {
            "kernel"
        } else {
            "fuse2fs"
        };
        assert!(said.contains(&format!("ext4 by {by}")), "{said}");
        let list = disk.0.scrim(["list"]);
        assert!(list.contains(&format!("mnt: ext4 by {by}")), "{list}");
        disk.0.run("cp", ["-r", "--preserve=links", "tree", "mnt/"]);
        disk.unmount();
        disk.has_tree("tree");
        disk.mount(&format!("{option} --readonly"));
        disk.0.run("diff", ["-r", "tree", "mnt/tree"]);
        assert!(fs::write(disk.0.path("mnt/new"), "x").is_err());
        disk.unmount();
    }
}

#[test]
fn other_file_systems_are_mounted_by_the_kernel() {
    if !root_may_mount() || !have(&["mkfs.xfs", "mkfs.btrfs", "mkfs.vfat"]) {
        return;
    }
    for (kind, size, mkfs) in [
        ("xfs", "336M", "mkfs.xfs -q -s size=4096"),
        ("btrfs", "160M", "mkfs.btrfs -q"),
        ("vfat", "64M", "mkfs.vfat -S 4096"),
    ] {
        let known = fs::read_to_string("/proc/filesystems").unwrap();
        let mut load = Command::new("modprobe");
        if !known.contains(kind) && !load.arg(kind).status().is_ok_and(|code| code.success()) {
            println!("skipped: this kernel has no {kind}");
            continue;
        }
        let disk = Disk::new(size, mkfs);
        disk.mount("");
        let bytes = noise(1 << 20, 3);
        disk.0.write("mnt/file", &bytes);
        disk.unmount();
        disk.mount("--readonly");
        assert!(
            fs::read(disk.0.path("mnt/file")).unwrap() == bytes,
            "{kind}"
        );
        disk.unmount();
    }
}

#[test]
fn a_mount_in_use_names_who_uses_it() {
    if !root_may_mount() {
        return;
    }
    for options in ["--method kernel", "--method program", "--raw"] {
        let disk = Disk::new("64M", "mkfs.ext4 -q -b 4096");
        disk.mount(options);
        let mut holder = disk.0.command("sleep");
        let holder = Background::start(holder.arg("60").current_dir(disk.0.path("mnt")));
        let output = disk.try_unmount();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{said}");
        let named = format!("sleep (process {})", holder.0.id());
        assert!(said.contains(&named), "{said}");
        let close = disk.0.command(scrim()).args(["close", "disk"]).output();
        let close = String::from_utf8(close.unwrap().stderr).unwrap();
        assert!(close.contains("scrim umount"), "{close}");
        disk.0.scrim(["umount", "disk", "--force"]);
        assert!(!disk.is_mounted());
        drop(holder);
        wait_until("the volume is closed", || disk.0.scrim(["list"]).is_empty());
    }
}

/// A program that mounts is not ended with the terminal at which it was started: files would go into the plain folder
/// below the mount.
#[test]
fn a_mount_outlives_its_terminal() {
    if !root_may_mount() || !have(&["script"]) {
        return;
    }
    let disk = Disk::new("64M", "mkfs.ext4 -q -b 4096");
    let line = "scrim mount disk.img mnt --key-file key --method program";
    disk.0
        .run("timeout", ["60", "script", "-qec", line, "/dev/null"]);
    // The terminal's end reaches its processes a moment later.
    for _ in 0..10 {
        assert!(disk.is_mounted(), "it went with its terminal");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    disk.unmount();
}

/// Number of the process that serves the volume.
pub(crate) fn server(disk: &Disk) -> String {
    let status = disk.0.scrim(["status", "disk", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    status["pid"].to_string()
}

/// Data that fsync has acknowledged is there, whichever process of a mount is killed.
#[test]
fn no_death_leaves_a_dead_mount_or_loses_a_synced_file() {
    if !root_may_mount() || !have(&["pgrep"]) {
        return;
    }
    for (method, victim) in [
        ("kernel", "scrim"),
        ("program", "scrim"),
        ("program", "fuse2fs"),
    ] {
        let disk = Disk::new("64M", "mkfs.ext4 -q -b 4096");
        disk.mount(&format!("--method {method}"));
        let place = &disk.0;
        place.write("file", noise(1 << 20, 5));
        // fuse2fs syncs what was opened for writing only, so `sync mnt/file` would not do.
        place.run("dd", ["if=file", "of=mnt/file", "bs=64k", "conv=fsync"]);
        let server = server(&disk);
        let process = match victim {
            "scrim" => server,
            _ => place.run("pgrep", ["-P", &server, "-x", victim]),
        };
        place.run("kill", ["-9", process.trim()]);
        wait_until("the mount is gone", || !disk.is_mounted());
        wait_until("the volume is free", || disk.0.scrim(["list"]).is_empty());
        wait_until("it can be mounted again", || {
            disk.try_mount("--method program").status.success()
        });
        place.run("cmp", ["file", "mnt/file"]);
        disk.unmount();
        place.scrim("export -q disk.img plain.img --key-file key".split(' '));
        place.run("e2fsck", ["-fn", "plain.img"]);
    }
}

#[test]
fn signals_unmount() {
    if !root_may_mount() {
        return;
    }
    for signal in ["-TERM", "-INT"] {
        let disk = Disk::new("64M", "mkfs.ext4 -q -b 4096");
        for method in METHODS {
            let mut command = disk.0.command("env");
            let words = format!(
                "--default-signal=INT scrim mount disk.img mnt --key-file key --foreground --method {method}"
            );
            let command = command.args(words.split(' ')).stdout(Stdio::null());
            let mut mounted = Background::start(command);
            // The process notices that a program has mounted a little after others do.
            wait_until("it is mounted", || {
                let list = disk.0.command(scrim()).arg("list").output().unwrap();
                String::from_utf8_lossy(&list.stdout).contains("mnt: ext4 by")
            });
            disk.0.write(&format!("mnt/{method}"), signal);
            disk.0.run("kill", [signal, &mounted.0.id().to_string()]);
            assert_eq!(mounted.0.wait().unwrap().code(), Some(0));
            assert!(!disk.is_mounted());
        }
        disk.mount("--readonly");
        for method in METHODS {
            let file = disk.0.path(&format!("mnt/{method}"));
            assert_eq!(fs::read_to_string(file).unwrap(), signal);
        }
        disk.unmount();
    }
}

/// The volume is closed in the end when others unmount, also if a file was open.
#[test]
fn a_mount_that_others_take_away_closes_its_volume() {
    if !root_may_mount() {
        return;
    }
    for (options, file) in [("--raw", "mnt/disk"), ("--method kernel", "mnt/lost+found")] {
        let disk = Disk::new("64M", "mkfs.ext4 -q -b 4096");
        disk.mount(options);
        let held = fs::File::open(disk.0.path(file)).unwrap();
        disk.0.run("umount", ["-l", "mnt"]);
        drop(held);
        wait_until("the volume is closed", || disk.0.scrim(["list"]).is_empty());
        disk.mount("--method kernel");
        disk.unmount();
    }
}

/// A file system that is written to a suspended volume would wait for ever.
#[test]
fn a_suspended_volume_is_closed_with_all_that_was_written() {
    if !root_may_mount() {
        return;
    }
    for method in METHODS {
        let disk = Disk::new("64M", "mkfs.ext4 -q -b 4096");
        let place = &disk.0;
        disk.mount(&format!("--method {method}"));
        place.write("file", noise(1 << 20, 9));
        place.run("cp", ["file", "mnt/file"]);
        place.scrim(["suspend", "disk"]);
        let refused = place
            .command(scrim())
            .args(["umount", "mnt", "--force"])
            .output();
        let refused = refused.unwrap();
        assert_eq!(refused.status.code(), Some(5));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("scrim resume disk"));
        place.run("timeout", ["120", "scrim", "close", "disk", "--force"]);
        assert!(!disk.is_mounted());
        disk.mount("--readonly");
        place.run("cmp", ["file", "mnt/file"]);
        disk.unmount();
    }
}

#[test]
fn a_volume_that_is_open_is_mounted_by_its_name() {
    if !root_may_mount() {
        return;
    }
    let disk = Disk::new("64M", "mkfs.ext4 -q -b 4096");
    disk.0
        .scrim("open disk.img secret --key-file key".split(' '));
    let said = disk.0.scrim(["mount", "secret", "mnt"]);
    assert!(said.contains("ext4 by kernel"), "{said}");
    fs::create_dir(disk.0.path("second")).unwrap();
    let twice = disk
        .0
        .command(scrim())
        .args(["mount", "secret", "second"])
        .output();
    let twice = String::from_utf8(twice.unwrap().stderr).unwrap();
    assert!(twice.contains("mounted already"), "{twice}");
    disk.0.scrim(["umount", "mnt"]);
    assert!(disk.0.scrim(["list"]).starts_with("secret"));
    disk.0.scrim(["close", "secret"]);
}

#[test]
fn mount_scrim_is_what_mount_calls() {
    if !root_may_mount() {
        return;
    }
    let disk = Disk::new("64M", "mkfs.ext4 -q -b 4096");
    std::os::unix::fs::symlink(scrim(), disk.0.path("mount.scrim")).unwrap();
    let words = ["60", "./mount.scrim", "disk.img", "mnt", "-n", "-o"];
    let words = words.into_iter().chain(["rw,nosuid,key-file=key,ro"]);
    disk.0.run("timeout", words);
    assert!(disk.0.scrim(["list"]).contains("read-only"));
    disk.unmount();
}

/// Steps of an ordinary user, with a FUSE device that users may open, which root makes in a namespace of its own.
const AS_USER: &str = r#"
export XDG_RUNTIME_DIR=$PWD/run
mkdir -p -m 700 run; mkdir mnt
format() { ./scrim format -q "$1" --size 96M $cheap; }
format disk.img
timeout 60 ./scrim mount --raw disk.img mnt --key-file key
timeout 60 mkfs.ext4 -q -b 4096 mnt/disk
test "$(stat -c %a mnt/disk)" = 600
./scrim umount mnt
timeout 60 ./scrim mount disk.img mnt --key-file key | grep 'ext4 by fuse2fs (without root'
cp -r tree mnt/
./scrim umount mnt
timeout 60 ./scrim mount disk.img mnt --key-file key --readonly --method program | grep fuse2fs
diff -r tree mnt/tree
server=$(./scrim status disk --json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
kill -9 "$server"
for second in $(seq 60); do grep -q "$PWD/mnt" /proc/self/mountinfo || break; sleep 1; done
ls mnt | wc -l | grep -qx 0
mksquashfs tree tree.sqsh -quiet -no-progress > squash.log
./scrim import -q tree.sqsh squash.img $cheap
timeout 60 ./scrim mount squash.img mnt --key-file key | grep 'squashfs by squashfuse'
diff -r tree mnt
./scrim umount mnt
! ./scrim mount disk.img mnt --key-file key --method kernel 2> refused
grep -q 'needs root' refused
! ./scrim mount disk.img mnt --key-file key --allow-other 2> refused
echo done
"#;

#[test]
fn a_user_mounts_without_root() {
    let programs = [
        "mkfs.ext4",
        "fuse2fs",
        "fusermount3",
        "mksquashfs",
        "squashfuse",
        "unshare",
    ];
    if !have(&programs) {
        return;
    }
    let place = Place::new();
    place.write("key", "open sesame");
    tree(&place);
    let steps = format!("set -eu\ncheap='{CHEAP}'\n{AS_USER}");
    if let Some(said) = as_user(&place, &steps) {
        assert!(said.ends_with("done\n"), "{said}");
    }
}

/// A machine without the device, and a container that may not mount.
#[test]
fn where_fuse_cannot_be_used_the_error_says_what_to_do() {
    if !have(&["unshare", "setpriv", "fusermount3"]) {
        return;
    }
    let rights = "to hide the devices, or to give a right up";
    let namespace = "unshare --mount --propagation private sh -ec";
    let unshare = namespace.split(' ').chain(["mount -t tmpfs none /dev"]);
    let mut probe = Command::new("env");
    if !is_root() || !may(rights, probe.args(unshare)) {
        return;
    }
    let place = Place::new();
    place.write("key", "open sesame");
    fs::create_dir(place.path("mnt")).unwrap();
    let format = format!("format -q disk.img --size 18M {CHEAP}");
    place.scrim(format.split(' '));
    let mount = "exec scrim mount disk.img mnt --raw --key-file key";
    let hidden = format!("mount -t tmpfs none /dev; {mount}");
    let weak =
        format!("exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin sh -c '{mount}'");
    for (steps, said) in [
        (hidden, ["cannot open /dev/fuse", "`modprobe fuse`"]),
        (weak, ["Operation not permitted", "--cap-add SYS_ADMIN"]),
    ] {
        let mut command = place.command("env");
        let command = command.args(namespace.split(' ')).arg(steps);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{shown}");
        let said = said.into_iter().chain(["`scrim ls`, `cat` and `cp`"]);
        for words in said {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        assert_eq!(place.scrim(["list"]), "");
    }
}

/// Runs steps of a shell as an ordinary user who may use FUSE; returns what they say, or `None` where that cannot be
/// arranged. The place is the user's then, and has the program.
pub(crate) fn as_user(place: &Place, steps: &str) -> Option<String> {
    fs::copy(scrim(), place.path("scrim")).unwrap();
    let mut command = if is_root() {
        let prepare = "mknod fuse c 10 229 && chmod 666 fuse && mount --bind fuse /dev/fuse";
        let allowed = format!("mount -t tmpfs none /mnt && cd /mnt && {prepare}");
        let mut unshare = Command::new("unshare");
        let words = ["--mount", "--propagation", "private", "sh", "-ec"];
        if !may("to make a FUSE device", unshare.args(words).arg(allowed)) {
            return None;
        }
        place.run("chown", ["-R", "65534:65534", "."]);
        let user = "exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c \"$1\"";
        let mut command = place.command("unshare");
        command.args(words).arg(format!("{prepare} && {user}"));
        command.args(["as-user", steps]);
        command
    } else {
        if !may(
            "to use FUSE",
            Command::new("sh").args(["-c", ": < /dev/fuse"]),
        ) {
            return None;
        }
        let mut command = place.command("sh");
        command.args(["-c", steps]);
        command
    };
    let output = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output();
    Some(succeeded("the steps of a user", &output.unwrap()))
}
