//! Processes that use files of a mount.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most processes that a message names.
const NAMED_MAX: usize = 5;

/// Names the processes that have something under `directory` open, or work in it; empty if none is to be seen.
///
/// Reads links in `/proc` and nothing under the directory, so that a file system that hangs cannot hold this up.
/// Processes of other users show themselves to root only.
pub(super) fn named(directory: &Path) -> String {
    let found = processes().filter(|process| uses(process, directory));
    list(found)
}

/// Names a process of each other mount namespace that has a mount of the file system with the number `device`
/// (`MAJOR:MINOR`); empty if none is to be seen. Such a namespace had its copy of the mount when it was made, which keeps
/// the file system at work.
///
/// The namespaces of other users' processes show themselves to root only.
pub(super) fn in_other_namespaces(device: &str) -> String {
    let Some(ours) = namespace(Path::new("/proc/self")) else {
        return String::new();
    };
    let mut seen = BTreeSet::from([ours]);
    let found = processes().filter(|process| {
        let table = fs::read(process.join("mountinfo")).unwrap_or_default();
        has_mount(&table, device) && namespace(process).is_some_and(|found| seen.insert(found))
    });
    list(found)
}

fn list(found: impl Iterator<Item = PathBuf>) -> String {
    let found: Vec<_> = found.collect();
    let mut names: Vec<_> = found
        .iter()
        .take(NAMED_MAX)
        .map(|process| name(process))
        .collect();
    if found.len() > NAMED_MAX {
        names.push(format!("and {} more", found.len() - NAMED_MAX));
    }
    names.join(", ")
}

/// Files under `directory` that processes have mapped to share changes, as far as they are to be seen.
pub(super) fn mapped(directory: &Path) -> Vec<PathBuf> {
    let mut files = BTreeSet::new();
    for process in processes() {
        let maps = fs::read(process.join("maps")).unwrap_or_default();
        let paths = maps.split(|&byte| byte == b'\n').filter_map(shared_file);
        files.extend(
            paths
                .filter(|path| path.starts_with(directory))
                .map(Path::to_owned),
        );
    }
    files.into_iter().collect()
}

/// The path in a line of `/proc/PID/maps`, if it is of a shared mapping of a file.
fn shared_file(line: &[u8]) -> Option<&Path> {
    let rights = line.split(|&byte| byte == b' ').nth(1)?;
    let start = line.iter().position(|&byte| byte == b'/')?;
    rights
        .ends_with(b"s")
        .then(|| Path::new(OsStr::from_bytes(&line[start..])))
}

/// The mount namespace of a process, by the link that the kernel shows.
fn namespace(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/mnt")).ok()
}

/// Returns whether a table of mounts (`proc(5)`, `mountinfo`) has one of the file system with this number.
fn has_mount(table: &[u8], device: &str) -> bool {
    let mut lines = table.split(|&byte| byte == b'\n');
    lines.any(|line| line.split(|&byte| byte == b' ').nth(2) == Some(device.as_bytes()))
}

/// Folders of processes in `/proc`.
fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let is_number = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        name.to_str()
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    };
    entries
        .filter_map(Result::ok)
        .filter(is_number)
        .map(|entry| entry.path())
}

fn uses(process: &Path, directory: &Path) -> bool {
    let is_within = |link: PathBuf| fs::read_link(link).is_ok_and(|to| to.starts_with(directory));
    let any_in = |folder: &str| {
        let links = fs::read_dir(process.join(folder)).into_iter().flatten();
        links
            .filter_map(Result::ok)
            .any(|link| is_within(link.path()))
    };
    is_within(process.join("cwd"))
        || is_within(process.join("root"))
        || any_in("fd")
        || any_in("map_files")
}

/// The process's number and its name, which is text from outside.
fn name(process: &Path) -> String {
    let number = process.file_name().unwrap_or_default().display();
    let comm = fs::read(process.join("comm")).unwrap_or_default();
    let comm = scrim_foreign::Foreign::new(comm.trim_ascii_end());
    format!("{comm} (process {number})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_mappings_of_files_are_found() {
        let file = |line: &str| shared_file(line.as_bytes()).map(Path::to_owned);
        let shared = "7f00-7f10 rw-s 00000000 00:2a 12                         /mnt/a file";
        assert_eq!(file(shared), Some(PathBuf::from("/mnt/a file")));
        assert_eq!(file(&shared.replace("rw-s", "rw-p")), None);
        assert_eq!(file("7f00-7f10 rw-s 00000000 00:00 0"), None);
        assert_eq!(file(""), None);
    }

    #[test]
    fn mounts_are_found_in_a_table_of_another_namespace() {
        let table = b"22 1 0:20 / / rw - overlay overlay rw\n\
            30 22 7:0 / /mnt rw - ext4 /dev/loop0 rw\nbroken\n";
        assert!(has_mount(table, "7:0"));
        assert!(!has_mount(table, "7:"));
        assert!(!has_mount(table, "7:01"));
    }
}
