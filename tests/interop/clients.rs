//! Many clients at once, and the end of a volume while they are there.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use crate::support::{Background, Place, assert_same, have, noise, wait_until};
use crate::volume::{Image, LUKS1, PAYLOAD, USUAL};

/// Bytes of these volumes' payload.
const SIZE: usize = 16 << 20;

fn roomy(image: &Image) {
    let end = image.case.default_offset() + SIZE;
    let file = fs::File::options()
        .write(true)
        .open(image.place.path("disk.img"));
    file.unwrap().set_len(end as u64).unwrap();
}

/// A `scrim open --foreground`, and its address.
fn in_the_foreground(place: &Place) -> (Background, String) {
    let mut command = place.command("scrim");
    command.args(["open", "--foreground", "disk.img", "secret", "-d", "key"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut scrim = Background::start(&mut command);
    let mut uri = String::new();
    let stdout = scrim.0.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut uri).unwrap();
    (scrim, uri.trim().to_owned())
}

fn send(signal: &str, to: &Child) {
    let sent = std::process::Command::new("kill")
        .args([signal, &to.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

fn sockets(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.path("run/scrim")).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

/// Eight clients write and check ranges of their own, while others read everything.
#[test]
fn many_clients_do_not_disturb_each_other() {
    if !have(&["cryptsetup", "fio", "nbdcopy"]) {
        return;
    }
    for case in [LUKS1[1], USUAL] {
        let image = Image::made_by_cryptsetup(case);
        roomy(&image);
        let place = &image.place;
        let uri = image.open_with("key", "secret", &[]);
        let sector = case.sector;
        let line = format!(
            "--name=verify --ioengine=nbd --uri={uri} --rw=randwrite --numjobs=8 --size=2M \
             --offset_increment=2M --bsrange={sector}-64k --blockalign={sector} --iodepth=8 \
             --verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=1 --loops=2"
        );
        let mut fio = place.command("fio");
        fio.args(line.split_whitespace()).stdout(Stdio::null());
        let mut fio = Background::start(&mut fio);
        while fio.0.try_wait().unwrap().is_none() {
            place.run("nbdcopy", ["--connections=4", &uri, "null:"]);
        }
        assert!(fio.0.wait().unwrap().success());
        let status = place.scrim(["status", "secret"]);
        assert!(!status.contains("error:"), "{status}");
        place.close("secret");
    }
}

/// A volume in use is not closed, unless it is forced to.
#[test]
fn a_volume_in_use_is_closed_only_by_force() {
    if !have(&["qemu-io"]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    let uri = image.open_with("key", "secret", &[]);
    let mut client = place.command("qemu-io");
    client
        .args(["-f", "raw", &uri])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let _client = Background::start(&mut client);
    let clients = |expected| {
        let status = place.scrim(["status", "secret", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["clients"] == expected
    };
    wait_until("the client is connected", || clients(1));
    let refused = place.run_with_input("scrim", ["close", "secret"], b"");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{said}");
    assert!(said.contains("--force"), "{said}");
    assert!(
        place
            .scrim(["status", "secret"])
            .contains("is active and is in use")
    );
    place.scrim(["close", "--force", "secret"]);
    assert_eq!(sockets(place), [""; 0]);
}

/// Asked to end, it finishes what it has accepted, makes it durable, removes its sockets and exits
/// with 0: every write that a client saw acknowledged is there afterwards.
#[test]
fn a_signal_ends_it_without_losing_an_acknowledged_write() {
    if !have(&["qemu-io", "nbdcopy", "kill"]) {
        return;
    }
    for signal in ["-TERM", "-INT", "-HUP"] {
        let image = Image::made_by_scrim(USUAL);
        let place = &image.place;
        let (mut scrim, uri) = in_the_foreground(place);
        let mut client = place.command("qemu-io");
        client.args(["-f", "raw", &uri]).stdin(Stdio::piped());
        client.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut client = Background::start(&mut client);
        let mut commands = client.0.stdin.take().unwrap();
        // Read all the while, or client and test would wait for each other on full pipes.
        let output = client.0.stdout.take().unwrap();
        let said = std::thread::spawn(move || std::io::read_to_string(output).unwrap());
        for block in 0..PAYLOAD / 512 {
            let pattern = block % 251 + 1;
            // It may have ended before the last.
            let _ = writeln!(commands, "write -P {pattern} {} 512", block * 512);
            if block == 1000 {
                wait_until("it is in the middle of it", || {
                    !place.scrim(["status", "secret"]).contains(" 0 writes")
                });
                send(signal, &scrim.0);
            }
        }
        drop(commands);
        assert_eq!(scrim.0.wait().unwrap().code(), Some(0), "{signal}");
        assert_eq!(sockets(place), [""; 0], "{signal}");
        let said = said.join().unwrap();
        let acknowledged = said.matches("wrote 512/512 bytes").count();
        assert!(acknowledged > 0, "{said}");
        let served = image.read();
        for (block, bytes) in served.chunks(512).take(acknowledged).enumerate() {
            let pattern = u8::try_from(block % 251 + 1).unwrap();
            assert_same(bytes, &[pattern; 512], &format!("{signal}: block {block}"));
        }
    }
}

/// What a killed process leaves is in nobody's way.
#[test]
fn a_killed_process_leaves_the_volume_and_its_name_free() {
    if !have(&["nbdcopy", "kill"]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    let (mut scrim, uri) = in_the_foreground(place);
    let bytes = noise(PAYLOAD, 3);
    place.copy_in(&bytes, &uri);
    send("-KILL", &scrim.0);
    scrim.0.wait().unwrap();
    assert_eq!(sockets(place).len(), 2);
    assert_eq!(place.scrim(["list"]), "");
    let uri = image.open_with("key", "secret", &[]);
    assert_same(&place.copy_out(&uri), &bytes, "after a kill");
    place.close("secret");
    assert_eq!(sockets(place), [""; 0]);
}

#[test]
fn it_serves_on_loopback_and_on_a_socket_of_ones_choice() {
    if !have(&["nbdcopy", "nbdinfo"]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let bytes = image.fill_with_noise(4);
    for address in ["127.0.0.1:0", "[::1]:0", "unix:own.sock"] {
        let uri = image.open_with("key", "secret", &["--nbd", address]);
        assert_same(&image.place.copy_out(&uri), &bytes, address);
        let size = image.place.run("nbdinfo", ["--size", &uri]);
        assert_eq!(size.trim(), PAYLOAD.to_string());
        image.place.close("secret");
    }
}
