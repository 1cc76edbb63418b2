//! `scrim snapshot`: copies of a volume's storage that are made while clients write and file systems are mounted.

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

use crate::mount::{CHEAP, Disk, root_may_mount};
use crate::support::{
    Background, PYTHON, Place, have, is_root, noise, scrim, script, succeeded, wait_until,
};

/// A place with a volume that is open as `secret`, and the URI of its plaintext.
fn open() -> (Place, String) {
    let place = Place::new();
    place.write("key", "open sesame");
    let format = format!("format -q disk.img --size 24M {CHEAP}");
    place.scrim(format.split(' '));
    let uri = place.open("disk.img", "secret", &["--key-file", "key"]);
    (place, uri)
}

/// Takes a snapshot by the words of a command.
fn snapshot(place: &Place, options: &str, command: &[&str]) -> Output {
    let mut scrim = place.command(scrim());
    scrim
        .args(["snapshot", "secret"])
        .args(options.split_whitespace());
    scrim.arg("--").args(command).stdin(Stdio::null());
    scrim.output().unwrap()
}

/// Writes to the volume all the time.
fn counter(place: &Place, uri: &str) -> Background {
    let mut command = place.command(PYTHON);
    command
        .arg(script("count_up.py"))
        .arg(uri)
        .stdout(Stdio::piped());
    let mut counter = Background::start(&mut command);
    let mut line = String::new();
    let said = counter.0.stdout.as_mut().unwrap();
    BufReader::new(said).read_line(&mut line).unwrap();
    assert_eq!(line, "counting\n");
    counter
}

/// The two numbers in a volume that [`counter`] writes to; each covers all of its block.
fn numbers(place: &Place, image: &str) -> [u64; 2] {
    place.scrim(["export", "-q", image, "plain.img", "--key-file", "key"]);
    let plain = std::fs::read(place.path("plain.img")).unwrap();
    [0, 1].map(|index| {
        let part = &plain[index << 20..][..4096];
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let first = number(&part[..8]);
        assert!(
            part.chunks(8).all(|chunk| number(chunk) == first),
            "{image}: torn"
        );
        first
    })
}

#[test]
fn a_copy_has_one_moment_of_a_volume_that_is_written_to() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let (place, uri) = open();
    let mut counter = counter(&place, &uri);
    let mut last = 0;
    for turn in 0..5 {
        let copy = format!("copy-{turn}.img");
        let said = snapshot(&place, "", &["cp", "disk.img", &copy]);
        succeeded("snapshot", &said);
        let said = String::from_utf8_lossy(&said.stderr);
        assert!(said.contains("requests were held for 0."), "{said}");
        let [first, second] = numbers(&place, &copy);
        // The second number is written after the first one.
        assert!(second == first || second + 1 == first, "{first} {second}");
        assert!(first >= last, "{first} after {last}");
        last = first;
    }
    assert!(
        counter.0.try_wait().unwrap().is_none(),
        "requests have failed"
    );
}

#[test]
fn a_snapshot_says_how_its_command_ended() {
    let (place, _) = open();
    let told = "test $SCRIM_NAME = secret && test -s \"$SCRIM_DEVICE\" && exit 7";
    let failed = snapshot(&place, "", &["sh", "-c", told]);
    assert_eq!(failed.status.code(), Some(7), "{failed:?}");
    let killed = snapshot(&place, "", &["sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(137), "{killed:?}");
    for missing in ["no-such-program", "./no-such-program"] {
        let missing = snapshot(&place, "", &[missing]);
        assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    }
    place.scrim(["suspend", "secret"]);
    let suspended = snapshot(&place, "", &["true"]);
    assert_eq!(suspended.status.code(), Some(5), "{suspended:?}");
    place.scrim(["resume", "secret"]);
    succeeded("snapshot", &snapshot(&place, "", &["true"]));
}

#[test]
fn a_command_that_hangs_is_ended_and_requests_go_on() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let (place, uri) = open();
    let hangs = "echo $$ > pid; trap '' TERM; sleep 600 & wait; sleep 600";
    let over = snapshot(&place, "--hold-limit 1", &["sh", "-c", hangs]);
    assert_eq!(over.status.code(), Some(4), "{over:?}");
    let said = String::from_utf8_lossy(&over.stderr);
    assert!(said.contains("within 1 s"), "{said}");
    let pid = std::fs::read_to_string(place.path("pid")).unwrap();
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists());
    assert_eq!(place.copy_out(&uri).len(), 8 << 20);
}

#[test]
fn requests_go_on_after_the_command_that_holds_them_is_killed() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let (place, uri) = open();
    let mut holder = place.command(scrim());
    holder.args(["snapshot", "secret", "--hold-limit", "2", "--", "sh", "-c"]);
    holder.arg("touch held; sleep 20");
    let mut holder = Background::start(&mut holder);
    wait_until("requests are held", || place.path("held").exists());
    for refused in ["suspend", "resume", "close"] {
        let refused = place.run_with_input(scrim(), [refused, "secret"], b"");
        assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    }
    let is_held = || {
        let status = place.scrim(["status", "secret", "--json"]);
        status.contains("\"suspended\": true") || status.contains("\"suspended\":true")
    };
    assert!(is_held());
    holder.0.kill().unwrap();
    // These wait until the volume's process ends the hold.
    place.copy_in(&noise(1 << 20, 1), &uri);
    assert!(!is_held());
    place.close("secret");
}

#[test]
fn a_file_system_of_the_kernel_is_frozen() {
    if !root_may_mount() || !have(&["fsfreeze"]) {
        return;
    }
    assert!(is_root());
    for method in ["kernel", "program"] {
        let disk = Disk::new("32M", "mkfs.ext4 -q -b 4096");
        disk.mount(&format!("--method {method}"));
        let place = &disk.0;
        let bytes = noise(1 << 20, 3);
        // Without fsync: only in the page cache.
        place.write("mnt/file", &bytes);
        let mut command = place.command(scrim());
        command.args(["snapshot", "disk", "--", "cp", "disk.img", "copy.img"]);
        let output = command.output().unwrap();
        succeeded("snapshot", &output);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // It is thawed.
        place.write("mnt/another", &bytes);
        disk.unmount();
        assert_eq!(
            said.contains("cannot be frozen"),
            method == "program",
            "{said}"
        );
        if method == "kernel" {
            place.scrim(["export", "-q", "copy.img", "plain.img", "--key-file", "key"]);
            // A frozen ext4 has its journal written back.
            place.run("e2fsck", ["-fn", "plain.img"]);
            place.run("debugfs", ["-R", "dump /file got", "plain.img"]);
            assert!(std::fs::read(place.path("got")).unwrap() == bytes);
        }
    }
}
