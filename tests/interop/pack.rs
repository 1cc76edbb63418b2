//! `scrim pack`: trees become volumes, over FUSE and in memory, judged by cryptsetup, e2fsck and debugfs.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Background, Place, have, is_root, may, noise, scrim, succeeded, wait_until};

const CHEAP: &str = "--key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000";
const PROGRAMS: [&str; 6] = [
    "mke2fs",
    "e2fsck",
    "debugfs",
    "cryptsetup",
    "setpriv",
    "unshare",
];

/// Makes a `/dev` with a FUSE device that users may open.
pub(crate) const WITH_FUSE: &str =
    "mknod fuse c 10 229 && chmod 666 fuse && mount --bind fuse /dev/fuse";

/// Makes a `/dev` without FUSE.
const WITHOUT_FUSE: &str = "mkdir dev && mount -t tmpfs none dev && mknod -m 666 dev/null c 1 3 && \
    mknod -m 666 dev/random c 1 8 && mknod -m 666 dev/urandom c 1 9 && mount --bind dev /dev";

/// Steps of an ordinary user. What a folder contains is compared by name, mode, time, number of names and link target,
/// and files by their hashes. `scrim cp` refuses the name with a line end, which debugfs shows.
const STEPS: &str = r#"
export XDG_RUNTIME_DIR=$PWD/run
mkdir -p -m 700 run; mkdir back dumped
facts() {
    (cd "$1" && find . -mindepth 1 ! -name 'new*' \( -type d -printf '%P %m %Ts\0' -o -printf '%P %y %m %n %Ts %l\0' \) |
        sort -z | tr '\0' '|')
}
hashes() { (cd "$1" && find . -type f ! -name "$2" -print0 | sort -z | xargs -0 sha256sum); }
same() { [ "$1" = "$2" ] || { echo "different: $3" >&2; exit 1; }; }
timeout 300 ./scrim pack tree disk.img $cheap $options --json > report
grep -q '"files": 10008,' report; grep -q '"hard_links": 1,' report; grep -q "\"way\": \"$way\"" report
test ! -e disk.img.partial; test ! -e disk.img.partial.state; test -z "$(ls run/scrim)"
cryptsetup open --test-passphrase --key-file key disk.img
./scrim cp -r disk.img:/ back --key-file key 2> said || test $? = 4
grep -q '1 entry was not copied' said
rmdir back/lost+found
same "$(facts tree)" "$(facts back)" 'scrim cp'
same "$(hashes tree 'new*')" "$(hashes back 'new*')" 'contents by scrim cp'
test "$(stat -c %b back/hole)" -lt 1000
./scrim export -q disk.img plain.img --key-file key
e2fsck -fn plain.img
debugfs -R 'rdump / dumped' plain.img
rmdir dumped/lost+found
same "$(hashes tree '')" "$(hashes dumped '')" 'contents by debugfs'
debugfs -R 'ea_list /attribute' plain.img 2>/dev/null | grep -q user.colour
echo done
"#;

/// A tree of 10,000 files and what else folders have.
fn tree(place: &Place) {
    for folder in 0..100 {
        let folder = format!("tree/many/{folder}");
        fs::create_dir_all(place.path(&folder)).unwrap();
        for file in 0..100 {
            place.write(&format!("{folder}/{file}"), noise(file * 37, 1));
        }
    }
    let odd = ["-x", "two words", "new\nline", "\"quotes'", "ü", "*?"];
    for name in odd {
        place.write(&format!("tree/{name}"), name);
    }
    fs::create_dir(place.path("tree/empty folder")).unwrap();
    place.write("tree/large", noise(5_000_001, 2));
    fs::hard_link(place.path("tree/large"), place.path("tree/many/name")).unwrap();
    // Larger than the volumes.
    place.sparse("tree/hole", 112 << 20);
    symlink("large", place.path("tree/link")).unwrap();
    symlink("x".repeat(200), place.path("tree/long link")).unwrap();
    fs::remove_file(place.path("tree/many/0/0")).unwrap();
    let attribute = place.write("tree/attribute", "with an attribute");
    fs::set_permissions(&attribute, fs::Permissions::from_mode(0o640)).unwrap();
    let set = "import os; os.setxattr('tree/attribute', 'user.colour', b'blue')";
    place.run(crate::support::PYTHON, ["-c", set]);
}

/// Runs steps of an ordinary user below a preparation of root's, in a mount namespace.
pub(crate) fn as_user(
    place: &Place,
    prepare: &str,
    variables: &str,
    steps: &str,
) -> Option<String> {
    if !is_root() {
        println!("skipped: making another /dev needs root");
        return None;
    }
    let words = ["--mount", "--propagation", "private", "sh", "-ec"];
    let allowed = format!("mount -t tmpfs none /mnt && cd /mnt && {prepare}");
    if !may(
        "to make devices",
        Command::new("unshare").args(words).arg(allowed),
    ) {
        return None;
    }
    fs::copy(scrim(), place.path("scrim")).unwrap();
    place.write("key", "open sesame");
    place.run("chown", ["-R", "65534:65534", "."]);
    let user = "exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c \"$1\"";
    let steps = format!("set -eu\ncheap='{CHEAP}'\n{variables}\n{steps}");
    let mut command = place.command("unshare");
    command.args(words).arg(format!("{prepare} && {user}"));
    let output = command.args(["as-user", &steps]).output();
    Some(succeeded("the steps of a user", &output.unwrap()))
}

#[test]
fn a_tree_is_packed_over_fuse() {
    if !have(&PROGRAMS) || !have(&["fusermount3"]) {
        return;
    }
    let place = Place::new();
    tree(&place);
    if let Some(said) = as_user(&place, WITH_FUSE, "way=fuse options=", STEPS) {
        assert!(said.ends_with("done\n"), "{said}");
    }
}

#[test]
fn a_tree_is_packed_where_there_is_no_fuse() {
    if !have(&PROGRAMS) {
        return;
    }
    let place = Place::new();
    tree(&place);
    let variables = "way=memory options='--sector-size 512 --size 100M'";
    if let Some(said) = as_user(&place, WITHOUT_FUSE, variables, STEPS) {
        assert!(said.ends_with("done\n"), "{said}");
    }
}

/// Volumes of many sizes take what they were made for.
#[test]
fn the_size_fits_the_content() {
    if !have(&PROGRAMS) {
        return;
    }
    let place = Place::new();
    place.write("key", "open sesame");
    let pack = |folder: &str| {
        let words = format!("pack {folder} disk.img -q {CHEAP}");
        place.scrim(words.split(' '));
        let words = "export -q --no-verify disk.img plain.img --key-file key";
        place.scrim(words.split(' '));
        place.run("e2fsck", ["-fn", "plain.img"]);
    };
    fs::create_dir(place.path("empty")).unwrap();
    pack("empty");
    fs::create_dir(place.path("names")).unwrap();
    for name in 0..3000 {
        File::create(place.path(&format!("names/{name:0>100}"))).unwrap();
    }
    pack("names");
    fs::create_dir(place.path("large")).unwrap();
    // Nothing but data: what the file system itself takes counts most.
    for file in 0..3 {
        place.write(&format!("large/{file}"), noise(80 << 20, file));
    }
    pack("large");
    // A hole after each block: the list of extents is long.
    let ranges = File::create(place.path("empty/ranges")).unwrap();
    for index in 0..5000 {
        std::os::unix::fs::FileExt::write_at(&ranges, &[1; 4096], index * 8192).unwrap();
    }
    drop(ranges);
    pack("empty");
}

/// Packs until something is written, and then ends that by a signal.
fn packed_in_part(place: &Place, words: &str, signal: Signal) -> ExitStatus {
    let mut command = place.command("env");
    let command = command.args(["--default-signal=INT", scrim()]);
    let mut packing = Background::start(command.args(words.split(' ')).stderr(Stdio::null()));
    let mut has_ended = false;
    wait_until("something is written", || {
        has_ended = packing.0.try_wait().unwrap().is_some();
        let size = |found: fs::Metadata| found.blocks() * 512;
        has_ended || fs::metadata(place.path("disk.img.partial")).map_or(0, size) > 2 << 20
    });
    if !has_ended {
        kill_process(Pid::from_child(&packing.0), signal).unwrap();
    }
    packing.0.wait().unwrap()
}

#[test]
fn a_pack_that_is_ended_leaves_nothing_under_the_name() {
    if !have(&["mke2fs"]) {
        return;
    }
    let place = Place::new();
    place.write("key", "open sesame");
    fs::create_dir(place.path("tree")).unwrap();
    for file in 0..4 {
        place.write(&format!("tree/{file}"), noise(64 << 20, file));
    }
    let words = format!("pack tree disk.img {CHEAP}");
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let partial = place.path("disk.img.partial");
        // On a busy machine the pack may come to its end before it is looked at: it begins again then.
        let mut tries = 0..20;
        let code = loop {
            assert!(tries.next().is_some(), "always whole before a signal");
            let status = packed_in_part(&place, &words, signal);
            if !status.success() {
                break status.code();
            }
            fs::remove_file(place.path("disk.img")).unwrap();
        };
        assert!(!place.path("disk.img").exists(), "{signal:?}");
        let left = match signal {
            Signal::INT => Some((130, false)),
            Signal::TERM => Some((143, false)),
            _ => None,
        };
        match left {
            Some((expected, exists)) => {
                assert_eq!(code, Some(expected));
                assert_eq!(partial.exists(), exists);
            }
            None => {
                let open = ["open", "disk.img.partial", "x", "--key-file", "key"];
                let open = place.command(scrim()).args(open).output().unwrap();
                let said = String::from_utf8_lossy(&open.stderr).into_owned();
                assert!(said.contains("a pack that was interrupted"), "{said}");
            }
        }
        let table = || fs::read_to_string("/proc/self/mountinfo").unwrap();
        let here = place.dir().to_str().unwrap();
        wait_until("the mount is gone", || !table().contains(here));
    }
    place.scrim(words.split(' '));
    assert!(!place.path("disk.img.partial").exists());
    place.scrim("test-passphrase disk.img --key-file key".split(' '));
}

#[test]
fn a_disk_that_is_too_small_is_named_before_anything_is_written() {
    if !have(&PROGRAMS) {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    place.write("tree/large", noise(40 << 20, 1));
    let prepare =
        format!("mkdir small && mount -t tmpfs -o size=20m,mode=0777 none small && {WITHOUT_FUSE}");
    let steps = r"
! ./scrim pack tree small/disk.img $cheap 2> said
cat said
ls small | wc -l
";
    if let Some(said) = as_user(&place, &prepare, "export XDG_RUNTIME_DIR=$PWD/run", steps) {
        assert!(said.contains("free some space"), "{said}");
        assert!(said.ends_with("\n0\n"), "{said}");
    }
}
