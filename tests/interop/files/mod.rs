//! `scrim ls`, `cat` and `cp`: files of volumes of which nothing is mounted, judged by the tree that went in.

mod hostile;
mod interrupted;
mod many;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, UNIX_EPOCH};

use crate::support::{Place, assert_same, have, is_root, noise, scrim, succeeded};
use crate::volume::{Image, LUKS1, LUKS2, PAYLOAD};

/// Options for a volume that is cheap to unlock.
const CHEAP: &str = "--key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000";

/// A place with a key and a folder for the tree that goes into volumes.
struct Files(Place);

impl Files {
    /// Nothing where a program is missing.
    fn new() -> Option<Self> {
        if !have(&["mke2fs", "debugfs", "sha256sum"]) {
            return None;
        }
        let place = Place::new();
        place.write("key", "open sesame");
        fs::create_dir(place.path("tree")).unwrap();
        Some(Self(place))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    /// Makes `plain.img` of the tree, with these options of mke2fs.
    fn plain(&self, options: &str, mib: u64) {
        let _ = fs::remove_file(self.path("plain.img"));
        self.0.sparse("plain.img", mib << 20);
        let words = ["-q", "-F", "-d", "tree", "plain.img"].into_iter();
        self.0
            .run("mke2fs", words.chain(options.split_whitespace()));
    }

    /// Makes `disk.img`, encrypted, of `plain.img`.
    fn encrypt(&self) {
        let line = format!("import plain.img disk.img -q --no-verify {CHEAP}");
        self.0.scrim(line.split_whitespace());
    }

    /// Runs a command with the key, whatever its exit code.
    fn try_scrim(&self, line: &str) -> Output {
        let words = line.split_whitespace().chain(["--key-file", "key"]);
        self.0.run_with_input(scrim(), words, b"")
    }

    #[track_caller]
    fn scrim(&self, line: &str) -> String {
        succeeded(line, &self.try_scrim(line))
    }

    /// Demands an exit code; returns standard error.
    #[track_caller]
    fn refused(&self, line: &str, code: i32) -> String {
        let output = self.try_scrim(line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        said
    }

    /// Demands that two folders hold the same.
    #[track_caller]
    fn same(&self, copy: &str) {
        let (copied, wanted) = (facts(&self.0, copy), facts(&self.0, "tree"));
        if copied == wanted {
            return;
        }
        let other = |one: &str, two: &str| {
            let lines = one
                .lines()
                .filter(|line| !two.lines().any(|other| other == *line));
            lines.take(5).map(str::to_owned).collect::<Vec<_>>()
        };
        panic!(
            "{copy}: wanted {:#?}, got {:#?}",
            other(&wanted, &copied),
            other(&copied, &wanted)
        );
    }
}

/// Type, permissions, time, size and target of every entry, and the hash of every file.
fn facts(place: &Place, root: &str) -> String {
    let script = format!(
        "cd {root} && find . -mindepth 1 ! -path './lost+found*' \\
           \\( -type d -printf 'd %m %Ts %p\\n' -o -type l -printf 'l %Ts %p %l\\n' -o -printf '%y %m %Ts %n %s %p\\n' \\) \\
           | LC_ALL=C sort && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum"
    );
    place.run("bash", ["-c", &script])
}

fn set_time(path: &Path, seconds: u64) {
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// A small tree with every kind of file that is copied.
fn small_tree(root: &Path) {
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::write(root.join("a/one"), "one\n").unwrap();
    fs::write(root.join("a/.hidden"), "hidden").unwrap();
    fs::write(root.join("a/b/long"), noise(300_001, 1)).unwrap();
    fs::write(root.join("a/empty"), "").unwrap();
    let sparse = File::create(root.join("a/sparse")).unwrap();
    sparse.write_all_at(&noise(5000, 2), 200_000).unwrap();
    sparse.set_len(1 << 20).unwrap();
    fs::hard_link(root.join("a/one"), root.join("a/b/one more")).unwrap();
    symlink("../one", root.join("a/b/link")).unwrap();
    symlink("/a/b", root.join("absolute")).unwrap();
    symlink("nowhere/".repeat(20), root.join("dangling")).unwrap();
    for (path, mode) in [
        ("a/one", 0o604),
        ("a/b", 0o750),
        ("a/b/c", 0o1777),
        ("a/b/long", 0o444),
    ] {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    for (nth, path) in ["a/one", "a/b/long", "a/sparse", "a/b/c", "a/b", "a"]
        .iter()
        .enumerate()
    {
        set_time(&root.join(path), 1_000_000_000 + nth as u64 * 86_401);
    }
}

/// The tree goes in by hands that are not Scrim's: mke2fs, cryptsetup's header, and an independent cipher.
#[test]
fn files_of_volumes_that_cryptsetup_made_come_out_as_they_went_in() {
    if !have(&["cryptsetup", "mke2fs", crate::support::PYTHON]) {
        return;
    }
    let Some(files) = Files::new() else { return };
    small_tree(&files.path("tree"));
    let sparse = [
        "-t ext4 -b 1024",
        "-t ext2 -b 1024",
        "-t ext4 -b 4096 -O ^has_journal",
    ];
    for (nth, case) in LUKS1.into_iter().chain(LUKS2).enumerate() {
        files.plain(&format!("{} -N 64", sparse[nth % 3]), PAYLOAD as u64 >> 20);
        let image = Image::made_by_cryptsetup(case);
        image.encrypt_independently(&fs::read(files.path("plain.img")).unwrap());
        let disk = image.place.path("disk.img");
        let header = image.place.path("head.img");
        let header = match case.detached {
            true => format!("--header {}", header.display()),
            false => String::new(),
        };
        let (disk, copy) = (disk.display(), format!("copy-{nth}"));
        files.scrim(&format!("cp -r {disk}:/ {copy} {header}"));
        files.same(&copy);
        let listed = files.scrim(&format!("ls {disk}:/a/b/ {header}"));
        assert_eq!(listed, "c\nlink\nlong\none more\n");
        let words = format!("cat {disk}:/absolute/long --key-file key {header}");
        let printed = files
            .0
            .run_with_input(scrim(), words.split_whitespace(), b"");
        assert_same(&printed.stdout, &noise(300_001, 1), "cat");
    }
}

#[test]
fn a_copy_keeps_what_a_file_is() {
    let Some(files) = Files::new() else { return };
    small_tree(&files.path("tree"));
    files.plain("-t ext4 -b 4096", 16);
    files.encrypt();
    let said = files.scrim("cp --recursive disk.img:/ out");
    assert_eq!(
        said,
        "disk.img:/: copied 5 files (304 KiB), 5 folders, 3 symbolic links, 1 hard link\n"
    );
    files.same("out");
    assert!(!files.path("out.partial").exists());
    let found = |name: &str| fs::metadata(files.path("out").join(name)).unwrap();
    assert_eq!(found("a/one").ino(), found("a/b/one more").ino());
    assert!(
        found("a/sparse").blocks() * 512 <= 64 << 10,
        "holes stay holes"
    );
    // The same again changes nothing, and goes into the folder that is there.
    let ino = found("a/b/long").ino();
    let said = files.scrim("cp -r disk.img:/ out --json");
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["files"], &said["unchanged"]),
        (&0.into(), &9.into()),
        "{said}"
    );
    assert_eq!(found("a/b/long").ino(), ino);
    files.same("out");
}

#[test]
fn what_is_there_is_not_overwritten_unasked() {
    let Some(files) = Files::new() else { return };
    small_tree(&files.path("tree"));
    files.plain("-t ext4 -b 4096", 16);
    files.encrypt();
    files.scrim("cp -r disk.img:/ out");
    fs::remove_file(files.path("out/a/one")).unwrap();
    files.0.write("out/a/one", "mine");
    fs::remove_file(files.path("out/absolute")).unwrap();
    symlink("elsewhere", files.path("out/absolute")).unwrap();
    fs::remove_file(files.path("out/a/b/long")).unwrap();
    let said = files.refused("cp -r disk.img:/ out", 5);
    assert!(
        said.contains("out/a/one exists already, and is another file"),
        "{said}"
    );
    assert!(
        said.contains("out/absolute exists already, and is a symbolic link"),
        "{said}"
    );
    assert!(said.contains("2 entries were not copied"), "{said}");
    // All else was copied.
    assert_eq!(fs::read(files.path("out/a/one")).unwrap(), b"mine");
    assert_same(
        &fs::read(files.path("out/a/b/long")).unwrap(),
        &noise(300_001, 1),
        "long",
    );
    files.scrim("cp -r disk.img:/ out --force");
    // Folders that existed keep their own times, which changed when files were made in them.
    let times = "cd tree && find . -mindepth 1 -type d -exec touch -r {} ../out/{} ';'";
    files.0.run("sh", ["-c", times]);
    files.same("out");
    // A folder is in the way of a file, and a file in that of a folder.
    fs::remove_file(files.path("out/a/empty")).unwrap();
    fs::create_dir(files.path("out/a/empty")).unwrap();
    fs::remove_dir(files.path("out/a/b/c")).unwrap();
    files.0.write("out/a/b/c", "");
    let said = files.refused("cp -r disk.img:/ out --force", 5);
    assert!(
        said.contains("out/a/empty exists already, and is a folder; remove it"),
        "{said}"
    );
    assert!(
        said.contains("out/a/b/c is another file; remove it"),
        "{said}"
    );
    // One file alone.
    files.scrim("cp disk.img:/a/one alone");
    assert_eq!(fs::read(files.path("alone")).unwrap(), b"one\n");
    files.scrim("cp disk.img:/a/one alone");
    files.0.write("alone", "mine");
    files.refused("cp disk.img:/a/one alone", 5);
    files.refused("cp disk.img:/a/one out/a --no-target-directory", 1);
    files.scrim("cp disk.img:/a/one out --force");
    assert_eq!(fs::read(files.path("out/one")).unwrap(), b"one\n");
}

#[test]
fn devices_and_attributes_are_left_out_and_named() {
    let Some(files) = Files::new() else { return };
    fs::write(files.path("tree/file"), "file").unwrap();
    files.plain("-t ext4 -b 4096", 16);
    for request in [
        "mknod pipe p",
        "mknod disk b 8 1",
        "mknod null c 1 3",
        "ea_set file user.color blue",
        "set_inode_field file uid 123456",
        "set_inode_field file mode 0104755",
    ] {
        files.0.run("debugfs", ["-w", "-R", request, "plain.img"]);
    }
    files.encrypt();
    let listed = files.scrim("ls -l disk.img:/");
    for part in [
        "p------",
        "b------",
        "c------",
        " 8,1 ",
        " 1,3 ",
        "-rwsr-xr-x+ 1 123456 ",
    ] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let output = files.try_scrim("cp -r disk.img:/ out");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in [
        "disk.img:/pipe: left out, as it is a pipe",
        "disk.img:/disk: left out, as it is a block device",
        "disk.img:/null: left out, as it is a character device",
        "disk.img:/file: its extended attributes are not copied",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = succeeded("cp", &output);
    assert!(
        said.contains("; 3 left out as devices, pipes or sockets; 1 copied without"),
        "{said}"
    );
    assert_eq!(
        fs::metadata(files.path("out/file")).unwrap().mode() & 0o7777,
        0o755
    );
    if is_root() {
        files.scrim("cp disk.img:/file owned --preserve-owner");
        let found = fs::metadata(files.path("owned")).unwrap();
        assert_eq!((found.mode() & 0o7777, found.uid()), (0o4755, 123_456));
    }
}

#[test]
fn a_listing_tells_what_stat_tells() {
    let Some(files) = Files::new() else { return };
    small_tree(&files.path("tree"));
    files.plain("-t ext4 -b 4096", 16);
    files.encrypt();
    let listed = files.scrim("ls -R --json disk.img:/");
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let listed = listed.as_array().unwrap();
    let script = "cd tree && find . -mindepth 1 | wc -l";
    let count: usize = files.0.run("bash", ["-c", script]).trim().parse().unwrap();
    // And the folder of mke2fs.
    assert_eq!(listed.len(), count + 1);
    for file in listed {
        let path = file["path"].as_str().unwrap();
        if path == "/lost+found" {
            continue;
        }
        let found = fs::symlink_metadata(files.path("tree").join(&path[1..])).unwrap();
        let mode = format!("{:04o}", found.mode() & 0o7777);
        assert_eq!(file["mode"], mode.as_str(), "{path}");
        assert_eq!(file["modified_unix"], found.mtime(), "{path}");
        assert_eq!(file["uid"], found.uid(), "{path}");
        if found.is_file() {
            assert_eq!(
                (&file["size"], &file["type"]),
                (&found.len().into(), &"file".into())
            );
            assert_eq!(file["links"], found.nlink(), "{path}");
        }
        if found.is_symlink() {
            let target = fs::read_link(files.path("tree").join(&path[1..])).unwrap();
            assert_eq!(file["target"], target.to_str().unwrap(), "{path}");
        }
    }
    let one = files.scrim("ls -l disk.img:/a/one");
    assert!(
        one.starts_with("-rw----r-- 2 ") && one.ends_with(" 4 2001-09-09 01:46 one\n"),
        "{one}"
    );
    let link = files.scrim("ls -l disk.img:/absolute");
    assert!(link.ends_with(" absolute -> /a/b\n"), "{link}");
    assert_eq!(
        files.scrim("ls disk.img:/absolute"),
        "c\nlink\nlong\none more\n"
    );
    assert_eq!(files.scrim("ls --directory disk.img:/a/b"), "b\n");
    let all = files.scrim("ls -a disk.img:/a/b/c");
    assert_eq!(all, ".\n..\n");
}

#[test]
fn volumes_that_are_open_or_on_a_server_have_files_too() {
    if !have(&["nbdkit"]) {
        return;
    }
    let Some(files) = Files::new() else { return };
    small_tree(&files.path("tree"));
    files.plain("-t ext4 -b 4096", 16);
    files.encrypt();
    // By the name of an open volume, whose image is refused meanwhile.
    files.0.open("disk.img", "secret", &["--key-file", "key"]);
    files.scrim("cp -r secret:/ by-name");
    files.same("by-name");
    let said = files.refused("ls disk.img:/", 5);
    assert!(said.contains("NAME:/path"), "{said}");
    files.0.close("secret");
    let said = files.refused("ls secret:/", 4);
    assert!(said.contains("secret"), "{said}");
    // By an NBD URI, whose socket's path has no colon.
    let run = format!("{} cp -r \"$uri:/\" by-uri --key-file key", scrim());
    files.0.run(
        "nbdkit",
        ["-U", "-", "--readonly", "file", "disk.img", "--run", &run],
    );
    files.same("by-uri");
}

#[test]
fn storage_that_ends_early_is_named_by_its_block() {
    let Some(files) = Files::new() else { return };
    fs::write(files.path("tree/long"), noise(6 << 20, 1)).unwrap();
    symlink("long", files.path("tree/sound")).unwrap();
    files.plain("-t ext4 -b 4096", 16);
    files.encrypt();
    // An error from the last part of the file on.
    let runs = files.0.run("debugfs", ["-R", "blocks long", "plain.img"]);
    let last: u64 = runs.split_whitespace().last().unwrap().parse().unwrap();
    let image = File::options()
        .write(true)
        .open(files.path("disk.img"))
        .unwrap();
    image.set_len((16 << 20) + last * 4096).unwrap();
    let output = files.try_scrim("cat disk.img:/long");
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains(&format!("block {last} of the file system")),
        "{said}"
    );
    // All blocks before that one are printed.
    assert_same(
        &output.stdout,
        &noise(6 << 20, 1)[..(6 << 20) - 4096],
        "cat",
    );
    let said = files.refused("cp -r disk.img:/ out", 4);
    assert!(
        said.contains("disk.img:/long") && said.contains("1 entry was not copied"),
        "{said}"
    );
    assert!(files.path("out/sound").is_symlink());
    assert!(!files.path("out/long").exists());
}

/// Without any right, as in a container.
#[test]
fn an_ordinary_user_needs_nothing_else() {
    let Some(files) = Files::new() else { return };
    if !is_root() || !have(&["setpriv"]) {
        return;
    }
    small_tree(&files.path("tree"));
    files.plain("-t ext4 -b 4096", 16);
    files.encrypt();
    fs::create_dir(files.path("mine")).unwrap();
    for (name, mode) in [
        ("disk.img", 0o644),
        ("key", 0o644),
        ("mine", 0o777),
        ("", 0o755),
    ] {
        fs::set_permissions(files.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command: Command = files.0.command("setpriv");
    command.args(
        "--reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all".split(' '),
    );
    command
        .arg(scrim())
        .args("cp -r disk.img:/ mine/out --key-file key".split(' '));
    succeeded("cp", &command.output().unwrap());
    files.same("mine/out");
    assert_eq!(
        fs::metadata(files.path("mine/out/a/one")).unwrap().uid(),
        65_534
    );
}
