//! `scrim mount --readonly` without root: files of a LUKS volume of cryptsetup's, in file systems of mke2fs, shown by
//! Scrim's own reader. The folder that mke2fs copied, and debugfs, are the judges.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};

use crate::mount::as_user;
use crate::support::{Place, have, noise};

/// Makes the file system `plain.img` of the folder `tree`.
fn file_system(place: &Place, options: &str, megabytes: u64) {
    place.sparse("plain.img", megabytes << 20);
    let words = format!("-q -F {options} -d tree plain.img");
    place.run("mke2fs", words.split_whitespace());
}

/// Encrypts `plain.img` as a volume that cryptsetup has formatted.
fn encrypt(place: &Place, image: &str) {
    let size = fs::metadata(place.path("plain.img")).unwrap().len();
    place.sparse(image, size + (16 << 20));
    place.cryptsetup(&format!(
        "luksFormat --type luks2 --key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 {image}"
    ));
    let uri = place.open(image, "filling", &["--key-file", "key"]);
    place.run("nbdcopy", ["--flush", "plain.img", &uri]);
    place.close("filling");
}

/// A line for each file below a folder, but for what mke2fs adds: type, permissions, size, links, time and content. mke2fs
/// leaves parts of a second out, and gives the topmost folder the time when it ran.
const LISTING: &str = r#"
listing() {
    ( cd "$1"
      find . -mindepth 1 -path ./lost+found -prune -o ! -type d -printf '%P %y %m %s %n %T@ %l\n' -o -printf '%P %y %m %T@\n' |
          sed -E 's/\.[0-9]{10}//' | sort
      find . -path ./lost+found -prune -o -type f -print0 | sort -z | xargs -0 -r sha256sum )
}
"#;

fn steps(image: &str, more: &str) -> String {
    format!(
        r#"set -eu
export XDG_RUNTIME_DIR=$PWD/run
mkdir -p mnt; chmod 700 run
{LISTING}
timeout 60 ./scrim mount {image} mnt --key-file key --readonly > said
kind=$(blkid -p -s TYPE -o value plain.img)
grep -q "$kind by scrim, read-only (reading needs neither root" said
listing tree > wanted
listing mnt > found
diff wanted found > differences || {{ head -9 differences >&2; exit 1; }}
{more}
timeout 60 ./scrim umount mnt
echo done
"#
    )
}

fn tools() -> bool {
    have(&[
        "cryptsetup",
        "mke2fs",
        "blkid",
        "debugfs",
        "nbdcopy",
        "fusermount3",
        "setpriv",
        "timeout",
        "unshare",
    ])
}

/// A folder with `many` files, and one with all kinds of others.
fn tree(place: &Place, many: usize) {
    for folder in ["tree/many", "tree/a/b/c", "tree/empty"] {
        fs::create_dir_all(place.path(folder)).unwrap();
    }
    for nth in 0..many {
        place.write(&format!("tree/many/file number {nth}"), noise(nth % 300, 1));
    }
    for (nth, size) in [0, 1, 59, 60, 61, 200, 4095, 4096, 4097, 3 << 20]
        .into_iter()
        .enumerate()
    {
        place.write(&format!("tree/a/{nth}"), noise(size, nth as u64));
    }
    fs::write(place.path("tree/a/b/c/hölle\u{1b}"), "x").unwrap();
    fs::write(place.path("tree").join("n".repeat(255)), "long").unwrap();
    symlink("a/1", place.path("tree/short")).unwrap();
    symlink(format!("a/{}", "b/../".repeat(60)), place.path("tree/slow")).unwrap();
    symlink("nowhere", place.path("tree/dangling")).unwrap();
    fs::hard_link(place.path("tree/a/9"), place.path("tree/a/hard")).unwrap();
    // With blocks of 1 KiB its end needs blocks of blocks of addresses.
    let sparse = place.sparse("tree/sparse", 16 << 20);
    let file = fs::File::options().write(true).open(sparse).unwrap();
    file.write_all_at(b"middle", 9 << 20).unwrap();
    // mke2fs 1.47.0 cuts a hole at the end of a file off where the file system has `inline_data`.
    file.write_all_at(b"end", (16 << 20) - 3).unwrap();
    fs::copy("/bin/true", place.path("tree/true")).unwrap();
    let modes = [
        ("tree/a/0", "0400"),
        ("tree/a/1", "0711"),
        ("tree/empty", "1777"),
    ];
    for (name, mode) in modes {
        place.run("chmod", [mode, name]);
    }
    place.run("touch", ["-h", "-d", "1969-01-02 03:04:05.678", "tree/a/3"]);
}

#[test]
fn a_user_reads_all_files_as_they_were() {
    if !tools() {
        return;
    }
    for (many, options, megabytes) in [
        (10_000, "-t ext4 -b 4096", 160),
        (
            500,
            "-t ext4 -b 1024 -O inline_data,metadata_csum -I 256",
            48,
        ),
        (500, "-t ext2 -b 1024", 48),
        (500, "-t ext3 -b 1024", 48),
    ] {
        let place = Place::new();
        place.write("key", "open sesame");
        tree(&place, many);
        file_system(&place, options, megabytes);
        encrypt(&place, "disk.img");
        let more = r#"
test "$(stat -c '%i %u' mnt)" = "2 $(stat -c %u mnt/many)"
test "$(stat -c %h mnt/a/hard)" = 2
test "$(stat -c %i mnt/a/hard)" = "$(stat -c %i mnt/a/9)"
test "$(stat -c %b mnt/sparse)" -lt 1000
timeout 20 mnt/true
cp --sparse=auto mnt/sparse copy; cmp copy tree/sparse
test "$(stat -c %b copy)" -lt 1000
! touch mnt/new 2> refused; grep -q 'Read-only' refused
if true 2> /dev/null >> mnt/a/2; then exit 1; fi
test "$(ls -f mnt/many | wc -l)" = "$(ls -f tree/many | wc -l)"
(cd mnt/a/b/c && test "$(cd ../../.. && stat -c %i .)" = 2)
for reader in 1 2 3 4; do tar cf - mnt | sha256sum > sum$reader & done; wait
cat sum? | sort -u | wc -l | grep -qx 1
"#;
        let Some(said) = as_user(&place, &steps("disk.img", more)) else {
            return;
        };
        assert_eq!(said, "done\n", "{options}");
    }
}

/// Fields that debugfs shows of a file: words by their names.
fn debugfs(place: &Place, name: &str) -> BTreeMap<String, String> {
    let text = place.run("debugfs", ["-R", &format!("stat /{name}"), "plain.img"]);
    let words: Vec<_> = text.split_whitespace().collect();
    let mut found = BTreeMap::new();
    for pair in words.windows(2) {
        let (name, value) = (pair[0].trim_end_matches(':'), pair[1]);
        if pair[0].ends_with(':') {
            found
                .entry(name.to_owned())
                .or_insert_with(|| value.to_owned());
        }
    }
    found
}

/// Changes that debugfs makes. The block device has major number 259 and minor number 70000, which debugfs cannot write by
/// itself.
const CHANGES: &str = "\
mknod disk b 8 1
set_inode_field disk block[0] 0
set_inode_field disk block[1] 0x11110370
mknod null c 1 3
mknod pipe p
set_inode_field late uid 70000
set_inode_field late gid 1234567
set_inode_field late mtime @0x30000000
set_inode_field late mtime_extra 0x15
set_inode_field late generation 77
set_inode_field late mode 0104711
set_inode_field closed uid 0
set_inode_field closed mode 040700
set_inode_field closed/secret mode 0100600
set_inode_field closed/secret uid 0
";

/// Inodes that no tree of a user has: devices, owners above 16 bits, times past 2038, sizes above 4 GiB, root's folders.
#[test]
fn odd_inodes_are_as_debugfs_says() {
    if !tools() {
        return;
    }
    let place = Place::new();
    place.write("key", "open sesame");
    fs::create_dir_all(place.path("tree/closed")).unwrap();
    place.write("tree/closed/secret", noise(5000, 3));
    place.write("tree/late", "late");
    let large = place.sparse("tree/large", (5 << 30) + 7);
    let file = fs::File::options().write(true).open(large).unwrap();
    file.write_all_at(b"end", (5 << 30) + 4).unwrap();
    file_system(&place, "-t ext4 -b 4096 -I 256", 64);
    place.write("commands", CHANGES);
    place.run("debugfs", ["-w", "-f", "commands", "plain.img"]);
    encrypt(&place, "disk.img");
    let names = [
        "disk",
        "null",
        "pipe",
        "late",
        "large",
        "closed",
        "closed/secret",
    ];
    let stats: Vec<_> = names
        .iter()
        .map(|name| {
            let says = debugfs(&place, name);
            let number = |field: &str| says[field].parse::<u64>().unwrap();
            format!(
                "{} {} {} {} {}",
                number("Inode"),
                number("User"),
                number("Group"),
                number("Links"),
                number("Blockcount")
            )
        })
        .collect();
    place.write("wanted", stats.join("\n") + "\n");
    let more = format!(
        r#"set -eu
export XDG_RUNTIME_DIR=$PWD/run
mkdir -p mnt; chmod 700 run
timeout 60 ./scrim mount disk.img mnt --key-file key --readonly > said
(cd mnt; stat -c '%i %u %g %h %b' {}) > found
diff wanted found
stat -c '%F %t %T' mnt/disk | grep -qx 'block special file 103 11170'
stat -c '%F %t %T' mnt/null | grep -qx 'character special file 1 3'
stat -c %F mnt/pipe | grep -qx fifo
stat -c %.9Y mnt/late | grep -qx '5100273664.000000005'
stat -c %a mnt/late | grep -qx 4711
stat -c '%s' mnt/large | grep -qx 5368709127
tail -c 7 mnt/large | od -An -c | tr -d ' \n' | grep -qxF '\0\0\0\0end'
cmp mnt/closed/secret tree/closed/secret
test "$(stat -c %a mnt/closed)" = 700
timeout 60 ./scrim umount mnt
echo done
"#,
        names.join(" ")
    );
    if let Some(said) = as_user(&place, &more) {
        assert_eq!(said, "done\n");
    }
}

/// A file system that was not unmounted is refused with the two ways on.
#[test]
fn a_journal_to_replay_is_refused() {
    if !tools() {
        return;
    }
    let place = Place::new();
    place.write("key", "open sesame");
    fs::create_dir_all(place.path("tree")).unwrap();
    file_system(&place, "-t ext4 -b 4096", 32);
    place.run(
        "debugfs",
        ["-w", "-R", "feature needs_recovery", "plain.img"],
    );
    encrypt(&place, "disk.img");
    let steps = "set -eu
export XDG_RUNTIME_DIR=$PWD/run
mkdir -p mnt; chmod 700 run
! timeout 60 ./scrim mount disk.img mnt --key-file key --readonly 2> refused
grep -q 'without --readonly' refused
grep -q 'mount --raw' refused
grep -q e2fsck refused
ls mnt | wc -l | grep -qx 0
echo done
";
    if let Some(said) = as_user(&place, steps) {
        assert_eq!(said, "done\n");
    }
}
