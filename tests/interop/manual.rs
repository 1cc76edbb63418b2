//! The pages of the manual for the first hour, followed as a reader does: each command is run at a terminal, and prints
//! what the page shows.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Place, have, is_root, may};

/// Programs that the pages use, beside those of every system.
const PROGRAMS: [&str; 10] = [
    "script",
    "unshare",
    "ip",
    "findmnt",
    "cryptsetup",
    "curl",
    "mke2fs",
    "fuse2fs",
    "nbdinfo",
    "qemu-img",
];

#[test]
fn pages_of_the_first_hour_are_true() {
    if !have(&PROGRAMS) {
        return;
    }
    // Pages serve files at the usual port, each in a network of its own.
    if !is_root() {
        println!("skipped: not root, who makes networks for the pages");
        return;
    }
    let mut probe = Command::new("unshare");
    if !may("to make a network", probe.args(["--net", "true"])) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("docs/manual/first-hour");
    let entries = std::fs::read_dir(&folder).unwrap();
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    assert!(!pages.is_empty(), "no page in {}", folder.display());
    let follow = root.join("scripts/follow.sh");
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let follow = &follow;
        let readers: Vec<_> = pages
            .iter()
            .map(|page| scope.spawn(move || what_stops_a_reader(follow, page)))
            .collect();
        let results = readers.into_iter().map(|reader| reader.join().unwrap());
        results.flatten().collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Follows a page; returns what its reader saw where a command failed or printed something else.
fn what_stops_a_reader(follow: &Path, page: &Path) -> Option<String> {
    let place = Place::new();
    let mut command = place.command("unshare");
    command.args([
        "--net",
        "sh",
        "-c",
        "ip link set lo up && exec \"$@\"",
        "page",
    ]);
    let output = command.arg(follow).arg(page).output().unwrap();
    (!output.status.success()).then(|| {
        let seen = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{}:\n{seen}\n{said}", page.display())
    })
}
