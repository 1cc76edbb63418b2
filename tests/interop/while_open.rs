//! While Scrim has a volume open: `cryptsetup` goes on working on its header, a second writer does
//! not get in.

use std::path::Path;
use std::process::Stdio;

use crate::support::{Background, assert_same, have, wait_until};
use crate::volume::{CHEAP, Case, Image, LUKS1, LUKS2, PAYLOAD, USUAL};

/// What was written before can still be read, and what is written now too.
fn still_serves(image: &Image, uri: &str, seed: u64) {
    let bytes = crate::support::noise(PAYLOAD, seed);
    image.place.copy_in(&bytes, uri);
    assert_same(&image.place.copy_out(uri), &bytes, "while it is open");
}

fn check_cryptsetup(case: Case) {
    let image = Image::made_by_cryptsetup(case);
    let place = &image.place;
    let header = image.header();
    let uri = image.open_with("key", "secret", &[]);
    still_serves(&image, &uri, 1);
    let mut steps = vec![
        format!("luksDump {header}"),
        format!("isLuks {header}"),
        format!("luksUUID {header}"),
        format!("luksAddKey {CHEAP} --key-file key {header} other"),
        format!("luksChangeKey {CHEAP} --key-file other {header} key"),
        format!("luksKillSlot --key-file key {header} 0"),
        format!("luksAddKey {CHEAP} --key-file key {header} other"),
        format!("luksHeaderBackup {header} --header-backup-file backup"),
    ];
    if case.version == 2 {
        steps.push(format!("config --label new {header}"));
        steps.push(format!("token add --key-description some:key {header}"));
    }
    for step in steps {
        place.cryptsetup(&step);
    }
    assert!(image.cryptsetup_accepts("key") && image.cryptsetup_accepts("other"));
    still_serves(&image, &uri, 2);
    place.close("secret");
    assert!(image.scrim_accepts("key") && image.scrim_accepts("other"));
    let expected = crate::support::noise(PAYLOAD, 2);
    assert_same(&image.read_with("other"), &expected, "after all that");
}

#[test]
fn cryptsetup_works_on_the_header() {
    if have(&["cryptsetup", "nbdcopy"]) {
        for case in [LUKS1[1], LUKS1[3], LUKS2[1], USUAL] {
            check_cryptsetup(case);
        }
    }
}

#[test]
fn scrim_s_own_commands_work_on_the_header() {
    let image = Image::made_by_scrim(USUAL);
    image.open_with("key", "secret", &[]);
    let dump = image.place.scrim(["dump", "disk.img"]);
    assert!(dump.starts_with("LUKS header information"));
    image.place.scrim(["isLuks", "disk.img"]);
    assert!(image.scrim_accepts("key"));
    let format = ["format", "disk.img", "-q", "-d", "key"];
    let refused = image.place.run_with_input("scrim", format, b"");
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    image.place.close("secret");
}

/// The exit code and the message of a second `scrim open`, by a user with another runtime folder.
fn second_open(image: &Image, more: &[&str]) -> (Option<i32>, String) {
    let place = &image.place;
    let mut command = place.command("scrim");
    let args = ["open", "disk.img", "secret", "-d", "key"];
    command.args(args).args(more);
    command.env("XDG_RUNTIME_DIR", place.path("elsewhere"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[test]
fn a_second_scrim_is_refused() {
    let image = Image::made_by_scrim(USUAL);
    std::fs::create_dir(image.place.path("elsewhere")).unwrap();
    image.open_with("key", "secret", &[]);
    for more in [&[][..], &["--readonly"]] {
        let (code, said) = second_open(&image, more);
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains("another program has it open"), "{said}");
    }
    image.place.close("secret");
    image.open_with("key", "reading", &["--readonly"]);
    assert_eq!(second_open(&image, &[]).0, Some(5));
    image.place.close("reading");
}

#[test]
fn qemu_is_refused_as_a_writer_and_as_a_reader_beside_a_writer() {
    if !have(&["qemu-io", "qemu-nbd", "qemu-img"]) {
        return;
    }
    let image = Image::made_by_scrim(LUKS1[1]);
    let place = &image.place;
    let refused = |program: &str, args: &[&str]| {
        let output = place
            .command("timeout")
            .arg("60")
            .arg(program)
            .args(args)
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        !output.status.success() && said.contains("Failed to get")
    };
    let write = ["-f", "raw", "-c", "write -P 1 0 512", "disk.img"];
    let read = ["-r", "-f", "raw", "-c", "read 0 512", "disk.img"];
    let socket = place.path("qemu.sock");
    let serve = ["-f", "raw", "-k", socket.to_str().unwrap(), "disk.img"];

    image.open_with("key", "secret", &[]);
    assert!(refused("qemu-io", &write));
    assert!(refused("qemu-io", &read));
    assert!(refused("qemu-nbd", &serve));
    assert!(refused(
        "qemu-img",
        &["convert", "-f", "raw", "disk.img", "copy"]
    ));
    place.close("secret");

    image.open_with("key", "reading", &["--readonly"]);
    assert!(refused("qemu-io", &write));
    place.run("qemu-io", read);
    place.close("reading");
}

#[test]
fn an_image_that_qemu_has_open_is_refused() {
    if !have(&["qemu-nbd"]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    for (mode, readers) in [(&[][..], Some(5)), (&["--read-only"], Some(0))] {
        let socket = place.path("qemu.sock");
        let mut command = place.command("qemu-nbd");
        command.args(["-f", "raw", "-t", "-k"]).arg(&socket);
        command.args(mode).arg("disk.img").stderr(Stdio::null());
        let qemu = Background::start(command);
        wait_until("qemu-nbd listens", || Path::new(&socket).exists());
        let (code, said) = second_open(&image, &[]);
        assert_eq!(code, Some(5), "{said}");
        let (code, said) = second_open(&image, &["--readonly"]);
        assert_eq!(code, readers, "{said}");
        if readers == Some(0) {
            let mut close = place.command("scrim");
            close.env("XDG_RUNTIME_DIR", place.path("elsewhere"));
            assert!(close.args(["close", "secret"]).status().unwrap().success());
        }
        drop(qemu);
        let _ = std::fs::remove_file(&socket);
    }
    assert_eq!(image.read().len(), PAYLOAD);
}
