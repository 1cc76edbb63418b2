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

/// Names a process of each other mount namespace in which there is a mount on `directory`, a path without links; empty if
/// none is to be seen. Such a namespace had its copy of the mount when it was made, which keeps the file system at work.
///
/// Processes of other users show themselves to root only.
pub(super) fn in_other_namespaces(directory: &Path) -> String {
    let point = escaped(directory);
    let ours = namespace(Path::new("/proc/self"));
    let mut seen = BTreeSet::from([ours]);
    let found = processes().filter(|process| {
        let table = fs::read(process.join("mountinfo")).unwrap_or_default();
        has_mount(&table, &point) && seen.insert(namespace(process))
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

/// Returns whether a table of mounts (`proc(5)`, `mountinfo`) has a mount on `point`; the root of another namespace may
/// lie above.
fn has_mount(table: &[u8], point: &[u8]) -> bool {
    let mut lines = table.split(|&byte| byte == b'\n');
    lines.any(|line| {
        let field = line.split(|&byte| byte == b' ').nth(4);
        field.is_some_and(|field| field.ends_with(point))
    })
}

/// A path as the table of mounts has it.
fn escaped(path: &Path) -> Vec<u8> {
    let mut field = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => field.extend(format!("\\{byte:03o}").into_bytes()),
            _ => field.push(byte),
        }
    }
    field
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
            30 22 7:0 / /host/mnt/a\\040b rw - ext4 /dev/loop0 rw\nbroken\n";
        let has = |path: &str| has_mount(table, &escaped(Path::new(path)));
        assert!(has("/mnt/a b"));
        assert!(!has("/mnt/a"));
        assert!(!has("/mnt/a\\b"));
    }
}
