//! Copies that end early: killed, interrupted, or out of space.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Files, set_time};
use crate::support::{noise, scrim, wait_until};

/// Files of the tree.
const COUNT: usize = 10_000;

/// A tree of many small files and a few long ones.
fn large_tree(root: &Path) {
    for number in 0..COUNT {
        let folder = root.join(format!("{}/{}", number % 10, number % 70));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("file-{number}"));
        let len = if number % 1000 == 0 {
            1_500_000
        } else {
            number % 5000
        };
        fs::write(&path, noise(len, number as u64)).unwrap();
        if number % 97 == 0 {
            set_time(&path, 1_600_000_000 + number as u64);
        }
    }
}

fn start(files: &Files) -> Child {
    let mut command = files.0.command(scrim());
    command.args("cp -r disk.img:/ out --key-file key".split(' '));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Files of the copy so far, with their sizes. The copy may go on meanwhile.
fn copied(files: &Files) -> HashMap<PathBuf, u64> {
    let root = files.path("out.partial");
    let mut folders = vec![root.clone()];
    let mut found = HashMap::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // It gets another name at any time.
            if entry.file_name() == ".scrim-cp.partial" {
                continue;
            }
            let path = entry.path();
            match entry.metadata().unwrap() {
                folder if folder.is_dir() => folders.push(path),
                file => {
                    let path = path.strip_prefix(&root).unwrap();
                    found.insert(path.to_owned(), file.len());
                }
            }
        }
    }
    found
}

/// Copies until `count` files are there, and then ends the copy by a signal. Returns `None` if it was whole before that.
fn copied_in_part(files: &Files, count: usize, signal: Signal) -> Option<ExitStatus> {
    let mut child = start(files);
    let mut has_ended = false;
    wait_until("more files are copied", || {
        has_ended = child.try_wait().unwrap().is_some();
        has_ended || copied(files).len() > count
    });
    if !has_ended {
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    let status = child.wait().unwrap();
    (!status.success()).then_some(status)
}

#[test]
fn a_copy_that_is_killed_goes_on_until_it_is_whole() {
    let Some(files) = Files::new() else { return };
    large_tree(&files.path("tree"));
    files.plain("-t ext4 -b 4096", 128);
    files.encrypt();
    let mut before = 0;
    for signal in [
        Signal::KILL,
        Signal::INT,
        Signal::KILL,
        Signal::TERM,
        Signal::KILL,
    ] {
        // On a busy machine the copy may come to its end before it is looked at: it begins again then.
        let mut tries = 0..20;
        let status = loop {
            assert!(tries.next().is_some(), "always whole before a signal");
            if let Some(status) = copied_in_part(&files, before + COUNT / 20, signal) {
                break status;
            }
            fs::remove_dir_all(files.path("out")).unwrap();
            before = 0;
        };
        match signal {
            Signal::KILL => assert_eq!(status.signal(), Some(9)),
            _ => assert_eq!(status.code(), Some(128 + signal.as_raw()), "{status}"),
        }
        assert!(!files.path("out").exists());
        // Whatever has its name is whole.
        let sizes = copied(&files);
        for (path, size) in &sizes {
            let wanted = fs::metadata(files.path("tree").join(path)).unwrap().len();
            assert_eq!(*size, wanted, "{}", path.display());
        }
        before = sizes.len();
    }
    // A file that was copied is not copied again.
    let some = copied(&files).into_keys().next().unwrap();
    let inode = |root: &str| fs::metadata(files.path(root).join(&some)).unwrap().ino();
    let known = inode("out.partial");
    let said = files.scrim("cp -r disk.img:/ out --json");
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let count = |name: &str| usize::try_from(said[name].as_u64().unwrap()).unwrap();
    assert_eq!(count("unchanged"), before, "{said}");
    assert_eq!(count("files") + before, COUNT, "{said}");
    assert_eq!(inode("out"), known);
    assert!(!files.path("out.partial").exists());
    files.same("out");
}

/// A second copy into the same folder waits for nobody: it is refused.
#[test]
fn two_copies_do_not_meet_in_one_file() {
    let Some(files) = Files::new() else { return };
    fs::write(files.path("tree/file"), "file").unwrap();
    files.plain("-t ext4 -b 4096", 16);
    files.encrypt();
    let left = files
        .0
        .write("tree/.scrim-cp.partial", "left by a copy that was killed");
    let lock = fs::File::open(&left).unwrap();
    lock.lock().unwrap();
    let said = files.refused("cp disk.img:/file tree/other", 5);
    assert!(said.contains("another `scrim cp` is copying"), "{said}");
    drop(lock);
    files.scrim("cp disk.img:/file tree/other");
    assert_eq!(fs::read(files.path("tree/other")).unwrap(), b"file");
    assert!(!left.exists());
}
