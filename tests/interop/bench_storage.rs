//! `scrim bench fileserver` on a device and on kernel mounts: what a run that was killed has left, another storage, and a
//! later run with fewer rights.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::block_device::Loop;
use crate::pack::{WITH_FUSE, as_user};
use crate::support::{PYTHON, Place, have, is_root, may, scrim, wait_until};
use crate::terminal::{Session, at_a_terminal, steps};

const QUICK: &str = "--quick --size 8M --rounds 1 -c aes-xts-plain64:512";

/// A place, if this machine lets root mount there.
fn place() -> Option<Place> {
    let programs = ["mkfs.ext4", "fuse2fs", "fusermount3", "losetup", PYTHON];
    if !is_root() {
        println!("skipped: the kernel's mounts need root");
        return None;
    }
    let has_loops = || may("to use loop devices", Command::new("losetup").arg("-f"));
    let has_fuse = || {
        may(
            "to mount by FUSE",
            Command::new("test").args(["-w", "/dev/fuse"]),
        )
    };
    (have(&programs) && has_loops() && has_fuse()).then(Place::new)
}

/// Runs `scrim bench fileserver` at a terminal, and confirms that the device's data is destroyed.
fn confirmed(place: &Place, words: &str) -> Session {
    let line = format!("bench fileserver {words}");
    let answer = [("wait", "capital letters): "), ("type", "YES\\r")];
    at_a_terminal(place, &line, &steps(&answer))
}

/// Ends the run on `device`, as soon as it is time.
fn end_when(device: &str, signal: Signal, is_time: impl Fn() -> bool) {
    wait_until("the turn", is_time);
    kill_process(process_of(device).unwrap(), signal).unwrap();
}

/// The process that measures a device.
fn process_of(device: &str) -> Option<Pid> {
    let mut processes = fs::read_dir("/proc").unwrap().flatten();
    processes.find_map(|process| {
        let words = fs::read(process.path().join("cmdline")).ok()?;
        let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
        let is_it = words.first()? == b"scrim" && words.contains(&device.as_bytes());
        let number = process.file_name().to_str()?.parse().ok()?;
        is_it.then(|| Pid::from_raw(number))?
    })
}

/// File systems that are mounted in a folder, by their types.
fn mounts_below(folder: &Path) -> Vec<String> {
    let folder = folder.canonicalize().unwrap();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let lines = table
        .lines()
        .filter(|line| line.contains(folder.to_str().unwrap()));
    let types = lines.filter_map(|line| line.split_once(" - ")?.1.split(' ').next());
    types.map(str::to_owned).collect()
}

fn turns(state: &Path) -> Vec<Value> {
    let state = fs::read(state).unwrap_or_default();
    let state: Value = serde_json::from_slice(&state).unwrap_or_default();
    state["turns"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_device_goes_on_after_a_kill_in_a_turn_of_the_kernel() {
    let Some(place) = place() else { return };
    place.sparse("disk", 256 << 20);
    place.sparse("other", 256 << 20);
    let (Some(disk), Some(other)) = (Loop::on(&place, "disk"), Loop::on(&place, "other")) else {
        return;
    };
    let device = disk.device.as_str();
    let state = place.path("scrim-fileserver.json");
    let is_ext4 = || mounts_below(place.dir()).contains(&"ext4".to_owned());
    // In a turn of Scrim's, whose volume the kernel mounts too, and in one of the kernel alone.
    for (words, done) in [(QUICK, 0), ("--resume", 1)] {
        let is_time = || turns(&state).len() == done && is_ext4();
        std::thread::scope(|scope| {
            scope.spawn(|| end_when(device, Signal::KILL, is_time));
            let killed = confirmed(&place, &format!("{device} {words}"));
            assert_eq!(killed.code, -9, "{}", killed.shown);
        });
        assert_eq!(turns(&state).len(), done);
    }
    assert!(is_ext4());
    // Another device, and another folder, from which the mount is not known.
    let refused = place
        .command(scrim())
        .args(["bench", "fileserver", "--resume", &other.device])
        .output();
    let refused = refused.unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("another storage"), "{said}");
    assert_eq!(refused.status.code(), Some(1));
    let elsewhere = place.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let begun = place
        .command(scrim())
        .args(["bench", "fileserver", device])
        .current_dir(&elsewhere)
        .output();
    let begun = begun.unwrap();
    let said = String::from_utf8_lossy(&begun.stderr);
    assert!(
        said.contains("it is mounted on") && said.contains("scrim-fileserver/mount"),
        "{said}"
    );
    assert_eq!(begun.status.code(), Some(5));
    std::thread::scope(|scope| {
        scope.spawn(|| end_when(device, Signal::INT, || turns(&state).len() >= 2));
        let ended = confirmed(&place, &format!("{device} --resume"));
        assert_eq!(ended.code, 130, "{}", ended.shown);
    });
    assert!(turns(&state).iter().all(|turn| turn["failure"].is_null()));
    assert_eq!(mounts_below(place.dir()), [""; 0]);
    assert!(!place.path("scrim-fileserver").exists());
}

#[test]
fn turns_that_need_root_wait_for_it() {
    let Some(place) = place() else { return };
    fs::create_dir(place.path("srv")).unwrap();
    let state = place.path("srv/scrim-fileserver.json");
    let mut command = place.command(scrim());
    command
        .args(["bench", "fileserver", "srv"])
        .args(QUICK.split(' '));
    let mut child = command.spawn().unwrap();
    wait_until("the first turn", || !turns(&state).is_empty());
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    child.wait().unwrap();
    let steps = "./scrim bench fileserver srv --resume 2>&1 >by-user";
    let Some(said) = as_user(&place, WITH_FUSE, "", steps) else {
        return;
    };
    assert!(
        said.contains("skipped: ") && said.contains("--resume as root"),
        "{said}"
    );
    assert!(
        turns(&state).iter().all(|turn| turn["failure"].is_null()),
        "{said}"
    );
    let words = "bench fileserver srv --resume --json";
    let report = place.scrim(words.split(' '));
    let report: Value = serde_json::from_str(report.lines().last().unwrap()).unwrap();
    let mut results = report["results"].as_array().unwrap().iter();
    let kernel = results.find(|result| result["name"] == "plain_kernel_block_write");
    assert_eq!(kernel.unwrap()["samples"].as_array().unwrap().len(), 1);
}
