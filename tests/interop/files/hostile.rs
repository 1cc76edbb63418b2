//! File systems that somebody has edited to make a copy write where it should not, or never end.

use std::fs;
use std::os::unix::fs::symlink;

use super::Files;
use crate::support::{PYTHON, have, scrim};
use crate::terminal::at_a_terminal;

impl Files {
    fn debugfs(&self, request: &str) {
        self.0.run("debugfs", ["-w", "-R", request, "plain.img"]);
    }

    /// Replaces a name in all folders, and wherever else these bytes are.
    fn rename_bytes(&self, from: &str, to: &[u8]) {
        assert_eq!(from.len(), to.len());
        let path = self.path("plain.img");
        let mut bytes = fs::read(&path).unwrap();
        let mut found = 0;
        for at in 0..bytes.len() - to.len() {
            if &bytes[at..at + to.len()] == from.as_bytes() {
                bytes[at..at + to.len()].copy_from_slice(to);
                found += 1;
            }
        }
        assert!(found > 0, "{from}");
        fs::write(&path, bytes).unwrap();
    }
}

/// No checksums, so that every byte can be edited.
const EDITABLE: &str = "-t ext4 -b 4096 -O ^metadata_csum";

/// A link out of the target, and a folder of the same name with files in it: in each order.
#[test]
fn a_link_of_the_image_is_never_followed() {
    let Some(files) = Files::new() else { return };
    let outside = files.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(files.path("tree/sound"), "sound").unwrap();
    for (link, folder) in [("AAAAA", "BBBBB"), ("DDDDD", "CCCCC")] {
        symlink(&outside, files.path("tree").join(link)).unwrap();
        fs::create_dir(files.path("tree").join(folder)).unwrap();
        fs::write(files.path("tree").join(folder).join("passwd"), "hostile").unwrap();
    }
    // A file of the name of a link to a file outside.
    let target = outside.join("target");
    fs::write(&target, "mine").unwrap();
    symlink(&target, files.path("tree/EEEEE")).unwrap();
    fs::write(files.path("tree/FFFFF"), "hostile").unwrap();
    files.plain(EDITABLE, 16);
    for (from, to) in [
        ("BBBBB", b"AAAAA"),
        ("DDDDD", b"CCCCC"),
        ("FFFFF", b"EEEEE"),
    ] {
        files.rename_bytes(from, to);
    }
    files.encrypt();
    for (options, code) in [("", 5), ("--force", 5)] {
        let said = files.refused(&format!("cp -r disk.img:/ out {options}"), code);
        assert!(said.contains("AAAAA") && said.contains("CCCCC"), "{said}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{said}");
        assert_eq!(fs::read(&target).unwrap(), b"mine");
        assert_eq!(fs::read(files.path("out/sound")).unwrap(), b"sound");
    }
    // Links that were in the target before.
    fs::create_dir(files.path("trap")).unwrap();
    symlink(&outside, files.path("trap/CCCCC")).unwrap();
    symlink(&target, files.path("trap/sound")).unwrap();
    symlink(&target, files.path("trap/.scrim-cp.partial")).unwrap();
    files.refused("cp -r disk.img:/ trap --force", 5);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read(&target).unwrap(), b"mine");
    assert_eq!(fs::read(files.path("trap/sound")).unwrap(), b"sound");
}

#[test]
fn names_that_mislead_are_refused_by_name() {
    let Some(files) = Files::new() else { return };
    for folder in ["controls", "slash", "dots"] {
        fs::create_dir(files.path("tree").join(folder)).unwrap();
    }
    for name in [
        "controls/QQQQQ",
        "controls/sound",
        "slash/XXXXXXX",
        "dots/ZZ",
        "dots/sound",
    ] {
        fs::write(files.path("tree").join(name), "x").unwrap();
    }
    fs::write(files.path("tree/controls/.scrim-cp.partial"), "x").unwrap();
    files.plain(EDITABLE, 16);
    files.rename_bytes("QQQQQ", b"a\x1b[2J");
    files.rename_bytes("XXXXXXX", b"../../x");
    files.rename_bytes("ZZ", b"..");
    files.encrypt();
    let said = files.refused("cp -r disk.img:/ deep/out", 4);
    assert!(said.contains("deep"), "{said}");
    fs::create_dir(files.path("deep")).unwrap();
    let said = files.refused("cp -r disk.img:/ deep/out", 4);
    assert!(
        said.contains("controls/a\\u{1b}[2J: its name has control characters"),
        "{said}"
    );
    assert!(
        said.contains("controls/.scrim-cp.partial: its name is the one of unfinished"),
        "{said}"
    );
    assert!(
        said.contains("disk.img:/slash: the file system is damaged (a name in a folder"),
        "{said}"
    );
    assert!(!said.contains('\u{1b}'), "{said:?}");
    assert_eq!(
        fs::read(files.path("deep/out/controls/sound")).unwrap(),
        b"x"
    );
    assert_eq!(fs::read(files.path("deep/out/dots/sound")).unwrap(), b"x");
    assert_eq!(
        fs::read_dir(files.path("deep/out/controls"))
            .unwrap()
            .count(),
        1
    );
    assert!(!files.path("x").exists() && !files.path("deep/x").exists());
    let listed = files.scrim("ls -l disk.img:/controls");
    assert!(
        listed.contains("a\\u{1b}[2J\n") && !listed.contains('\u{1b}'),
        "{listed:?}"
    );
    // A name that is refused can be given another one.
    let output = files.0.run_with_input(
        scrim(),
        [
            "cp",
            "disk.img:/controls/a\x1b[2J",
            "plain-name",
            "--key-file",
            "key",
        ],
        b"",
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read(files.path("plain-name")).unwrap(), b"x");
}

/// Folders within themselves, and the same folder under many names on each level: a walk would not end.
#[test]
fn folders_with_several_names_are_walked_once() {
    let Some(files) = Files::new() else { return };
    fs::create_dir_all(files.path("tree/loop/inner")).unwrap();
    fs::write(files.path("tree/loop/inner/file"), "x").unwrap();
    let mut path = files.path("tree/levels");
    for _ in 0..40 {
        path.push("l");
    }
    fs::create_dir_all(&path).unwrap();
    files.plain(EDITABLE, 16);
    files.debugfs("link /loop /loop/inner/again");
    let mut path = "/levels".to_owned();
    for _ in 0..40 {
        for name in ["m", "n"] {
            files.debugfs(&format!("link {path}/l {path}/{name}"));
        }
        path.push_str("/l");
    }
    files.encrypt();
    let said = files.refused("cp -r disk.img:/ out", 4);
    assert!(said.contains("81 entries were not copied"), "{said}");
    assert_eq!(fs::read(files.path("out/loop/inner/file")).unwrap(), b"x");
    let said = files.refused("ls -R disk.img:/", 4);
    assert!(
        said.contains("loop/inner/again: the folder was met before"),
        "{said}"
    );
    assert!(said.contains("81 entries could not be read"), "{said}");
}

/// A link to itself, and a path of more links than the kernel follows.
#[test]
fn links_in_a_circle_end() {
    let Some(files) = Files::new() else { return };
    symlink("self", files.path("tree/self")).unwrap();
    symlink("../../../../../..", files.path("tree/up")).unwrap();
    fs::write(files.path("tree/file"), "x").unwrap();
    files.plain("-t ext4 -b 4096", 16);
    files.encrypt();
    let said = files.refused("cat disk.img:/self", 4);
    assert!(said.contains("more than 40 symbolic links"), "{said}");
    // The root's parent is the root, so no path leads out of the file system.
    assert_eq!(files.scrim("cat disk.img:/up/../../file"), "x");
    assert_eq!(files.scrim("ls disk.img:/up/").lines().count(), 4);
}

/// Bytes that a terminal would obey are escaped there, and nowhere else.
#[test]
fn a_file_does_not_command_the_terminal() {
    let Some(files) = Files::new().filter(|_| have(&[PYTHON])) else {
        return;
    };
    let text = "é\u{1b}]0;title\u{7}\u{202e}\n".as_bytes();
    fs::write(files.path("tree/file"), text).unwrap();
    files.plain("-t ext4 -b 4096", 16);
    files.encrypt();
    let line = "cat disk.img:/file --key-file key";
    let session = at_a_terminal(&files.0, line, "");
    assert_eq!(session.code, 0, "{}", session.shown);
    assert!(
        session.shown.contains("é\\u{1b}]0;title\\u{7}\\u{202e}"),
        "{:?}",
        session.shown
    );
    let output = (files.0).run_with_input(scrim(), line.split_whitespace(), b"");
    assert_eq!(output.stdout, text);
}
