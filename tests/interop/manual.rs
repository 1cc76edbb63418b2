//! The pages of the manual for the first hour, followed as a reader does: each command is run at a terminal, and prints
//! what the page shows. Of other pages, configurations that another program checks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Place, have, have_rare, is_root, may, scrim};

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

/// The text of the first block of a page whose fence and first words are these.
fn block(page: &str, fence: &str, words: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/manual");
    let text = fs::read_to_string(path.join(page)).unwrap();
    let (_, rest) = text.split_once(&format!("{fence}\n{words}")).unwrap();
    let (rest, _) = rest.split_once("```").unwrap();
    format!("{words}{rest}")
}

/// The drop-ins of the pages, beside the units that they change.
#[test]
fn systemd_finds_no_fault_in_the_drop_ins_of_the_manual() {
    if !have(&["systemd-analyze"]) {
        return;
    }
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    for (page, source, unit) in [
        ("failover.md", "scrim@.service", "scrim@data.service"),
        (
            "many-servers.md",
            "scrim-serve.service",
            "scrim-serve.service",
        ),
    ] {
        let place = Place::new();
        let text = fs::read_to_string(units.join(source)).unwrap();
        place.write(source, text.replace("/usr/local/bin/scrim", scrim()));
        let drop_in = block(page, "```ini", "# /etc/systemd/system/");
        let (folder, name) = drop_in
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# /etc/systemd/system/"))
            .and_then(|path| path.split_once('/'))
            .unwrap();
        assert_eq!(folder, format!("{unit}.d"));
        fs::create_dir(place.path(folder)).unwrap();
        place.write(&format!("{folder}/{name}"), &drop_in);
        let mut command = place.command("systemd-analyze");
        command.env("SYSTEMD_UNIT_PATH", format!("{}:", place.dir().display()));
        let verify = command.args(["--man=no", "verify", &format!("./{unit}")]);
        let output = verify.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !said.contains(name),
            "{page}: {said}"
        );
    }
}

#[test]
fn haproxy_takes_the_configuration_of_the_manual() {
    if !have_rare(&["haproxy"], "haproxy") {
        return;
    }
    let place = Place::new();
    place.write("haproxy.cfg", block("many-servers.md", "```", "defaults"));
    let mut command = place.command("haproxy");
    let output = command.args(["-c", "-f", "haproxy.cfg"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !said.contains("[WARNING]"),
        "{said}"
    );
}
