//! Imports into storage that exists (an NBD server, a part of a file), and exports from a server: judged by cryptsetup and
//! by an independent implementation of the ciphers; servers that fail and end meanwhile.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::remote::{said, scrim, serve, unformatted};
use crate::support::{
    Background, PYTHON, Place, assert_same, have, noise, scrim as program, wait_until,
};
use crate::volume::{PAYLOAD, USUAL};

/// Options that make the key derivation of an import cheap.
const COST: &str = "--pbkdf-force-iterations 4 --pbkdf-memory 64 --pbkdf-parallel 1";
const SOCKET: &str = "nbd+unix:///?socket=server";
/// Length of a header of the usual size, in bytes.
const HEADER: usize = 16 << 20;

fn nbdkit(place: &Place, words: &str) -> Background {
    let _ = fs::remove_file(place.path("server"));
    serve(place, &format!("nbdkit -f -U server {words}"), SOCKET)
}

/// Returns whether cryptsetup finds a LUKS header in `disk.img`.
fn has_header(place: &Place) -> bool {
    let mut command = place.command("cryptsetup");
    command
        .args(["isLuks", "disk.img"])
        .status()
        .unwrap()
        .success()
}

#[test]
fn an_import_into_an_export_and_an_export_out_of_it_are_exact() {
    if !have(&["nbdkit", "nbdinfo", "cryptsetup", PYTHON]) {
        return;
    }
    let image = unformatted(PAYLOAD);
    let place = &image.place;
    let bytes = noise(PAYLOAD, 21);
    place.write("disk.raw", &bytes);
    let _server = nbdkit(place, "file disk.img");
    let options = image.case.options();
    place.scrim(format!("import disk.raw {SOCKET} -d key {options}").split_whitespace());
    assert!(image.cryptsetup_accepts("key"));
    assert_same(&image.decrypt_independently(), &bytes, "independently");
    place.scrim(format!("export {SOCKET} back.raw -d key").split_whitespace());
    assert_same(&fs::read(place.path("back.raw")).unwrap(), &bytes, "back");
}

/// The source is a server too, and the target is larger than needed: behind the data it stays as it was.
#[test]
fn a_larger_export_keeps_what_is_behind_the_data() {
    if !have(&["nbdkit", "nbdinfo", "cryptsetup"]) {
        return;
    }
    let image = unformatted(PAYLOAD + 4096);
    let place = &image.place;
    let mut old = noise(HEADER + PAYLOAD + 4096, 22);
    // The second header of an old volume.
    old[4 << 20..][..6].copy_from_slice(b"SKUL\xba\xbe");
    place.write("disk.img", &old);
    let bytes = noise(PAYLOAD - 100, 23);
    place.write("disk.raw", &bytes);
    let _server = nbdkit(place, "file disk.img");
    let refused = scrim(place, &format!("import disk.raw {SOCKET} -d key {COST}"));
    assert_eq!(refused.status.code(), Some(5), "{}", said(&refused));
    let source = "nbd+unix:///?socket=source";
    let _source = serve(place, "nbdkit -f -r -U source file disk.raw", source);
    place.scrim(format!("import {source} {SOCKET} -q -d key {COST}").split_whitespace());
    let now = fs::read(place.path("disk.img")).unwrap();
    assert_same(&now[HEADER + PAYLOAD..], &old[HEADER + PAYLOAD..], "behind");
    assert_ne!(now[4 << 20..][..6], old[4 << 20..][..6]);
    place.scrim("export disk.img back.raw -d key".split_whitespace());
    let back = fs::read(place.path("back.raw")).unwrap();
    assert_same(&back[..bytes.len()], &bytes, "back");
    assert!(back[bytes.len()..PAYLOAD].iter().all(|byte| *byte == 0));
}

#[test]
fn storage_that_is_too_small_is_refused_before_it_is_touched() {
    if !have(&["nbdkit", "nbdinfo"]) {
        return;
    }
    let image = unformatted(PAYLOAD - 512);
    let place = &image.place;
    let old = noise(HEADER + PAYLOAD - 512, 24);
    place.write("disk.img", &old);
    place.write("disk.raw", noise(PAYLOAD, 25));
    place.write("long.raw", noise(HEADER + PAYLOAD, 25));
    let _server = nbdkit(place, "file disk.img");
    for raw in ["disk.raw", "long.raw"] {
        let refused = scrim(place, &format!("import {raw} {SOCKET} -q -d key {COST}"));
        assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
        assert!(
            said(&refused).contains("bytes; the data"),
            "{}",
            said(&refused)
        );
    }
    assert_same(
        &fs::read(place.path("disk.img")).unwrap(),
        &old,
        "untouched",
    );
}

#[test]
fn a_part_of_a_file_takes_an_import() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = Place::new();
    place.write("key", crate::volume::PASSPHRASE);
    let bytes = noise(PAYLOAD, 26);
    place.write("disk.raw", &bytes);
    place.sparse("whole.img", (2 * HEADER + PAYLOAD) as u64);
    let part = format!("whole.img#{}+{}", 1 << 20, HEADER + PAYLOAD);
    place.scrim(format!("import disk.raw {part} -d key {COST}").split_whitespace());
    place.scrim(format!("export {part} back.raw -d key").split_whitespace());
    assert_same(&fs::read(place.path("back.raw")).unwrap(), &bytes, "back");
    // A part is a source, too, but not of the file that it is in.
    let raw = "disk.raw#512+4096";
    place.scrim(format!("import {raw} small.img -d key {COST}").split_whitespace());
    place.scrim("export small.img small.raw -d key".split_whitespace());
    let small = fs::read(place.path("small.raw")).unwrap();
    assert_same(&small, &bytes[512..512 + 4096], "a part of the source");
    let refused = scrim(&place, &format!("import {raw} disk.raw -q -d key {COST}"));
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    let whole = fs::read(place.path("whole.img")).unwrap();
    place.write("disk.img", &whole[1 << 20..][..HEADER + PAYLOAD]);
    assert!(has_header(&place));
}

/// Killed at any moment, the target holds no volume; begun again, it holds the new one.
#[test]
fn an_import_that_is_killed_leaves_no_volume() {
    if !have(&["nbdkit", "nbdinfo", "cryptsetup"]) {
        return;
    }
    let image = unformatted(PAYLOAD);
    let place = &image.place;
    let bytes = noise(PAYLOAD, 27);
    place.write("disk.raw", &bytes);
    let _server = nbdkit(place, "--filter=delay file disk.img wdelay=20ms");
    let old = format!("format {SOCKET} -q -d key {COST}");
    let import = format!("import disk.raw {SOCKET} -q -d key {COST}");
    for signal in [Signal::KILL, Signal::INT] {
        place.scrim(old.split_whitespace());
        assert!(has_header(place));
        let mut command: Command = place.command(program());
        command
            .args(import.split_whitespace())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        wait_until("the old header is erased", || {
            !has_header(place) || child.try_wait().unwrap().is_some()
        });
        let _ = kill_process(Pid::from_child(&child), signal);
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            println!("skipped: the import was done before it could be killed");
            continue;
        }
        assert!(!has_header(place));
        let interrupted = said(&output);
        assert!(
            signal == Signal::KILL || interrupted.contains("holds no volume before it is complete"),
            "{interrupted}"
        );
    }
    place.scrim(import.split_whitespace());
    place.scrim(format!("export {SOCKET} back.raw -d key").split_whitespace());
    assert_same(&fs::read(place.path("back.raw")).unwrap(), &bytes, "back");
}

/// Pieces are in flight together: one that fails ends the transfer, and nothing counts as done that is not.
#[test]
fn a_server_that_fails_a_piece_fails_the_transfer() {
    if !have(&["nbdkit", "nbdinfo", "cryptsetup"]) {
        return;
    }
    let image = unformatted(48 << 20);
    let place = &image.place;
    let bytes = noise(48 << 20, 28);
    place.write("disk.raw", &bytes);
    let _server = nbdkit(
        place,
        "--filter=error --filter=delay file disk.img error-pread=EIO error-pread-rate=5% \
         error-pwrite=EIO error-pwrite-rate=5% error-pread-file=broken error-pwrite-file=broken \
         rdelay=2ms wdelay=2ms",
    );
    let import = format!("import disk.raw {SOCKET} -q -d key {COST}");
    place.write("broken", "");
    let failed = scrim(place, &import);
    assert_eq!(failed.status.code(), Some(4), "{}", said(&failed));
    assert!(
        said(&failed).contains("Input/output error"),
        "{}",
        said(&failed)
    );
    assert!(!has_header(place));
    fs::remove_file(place.path("broken")).unwrap();
    place.scrim(import.split_whitespace());
    place.write("broken", "");
    let export = format!("export {SOCKET} back.raw -d key");
    let mut ended = scrim(place, &export);
    assert!(!ended.status.success(), "{}", said(&ended));
    fs::remove_file(place.path("broken")).unwrap();
    // If reading the header failed, nothing has begun.
    let resume = if place.path("back.raw.partial").exists() {
        " --resume"
    } else {
        ""
    };
    ended = scrim(place, &format!("{export}{resume}"));
    assert!(ended.status.success(), "{}", said(&ended));
    assert_same(&fs::read(place.path("back.raw")).unwrap(), &bytes, "back");
}

/// The server ends with all that it has not flushed, and starts again: what it lost is written again.
#[test]
fn a_server_that_is_killed_meanwhile_costs_nothing() {
    if !have(&["nbdkit", "nbdinfo", "cryptsetup"]) {
        return;
    }
    let image = unformatted(PAYLOAD);
    let place = &image.place;
    let bytes = noise(PAYLOAD, 29);
    place.write("disk.raw", &bytes);
    let slow = "--filter=delay file disk.img rdelay=10ms wdelay=10ms";
    let server = nbdkit(place, slow);
    let mut command: Command = place.command(program());
    command.args(format!("import disk.raw {SOCKET} -q -d key {COST}").split_whitespace());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(server);
    let _server = nbdkit(place, slow);
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    place.scrim(format!("export {SOCKET} back.raw -d key").split_whitespace());
    assert_same(&fs::read(place.path("back.raw")).unwrap(), &bytes, "back");
    assert!(USUAL.default_offset() == HEADER && image.cryptsetup_accepts("key"));
}
