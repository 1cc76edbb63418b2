//! Many clients at once, and the end of a volume while they are there.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
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

pub(crate) fn send(signal: &str, to: &Child) {
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
    for signal in ["-TERM", "-INT"] {
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

/// Sockets that a killed process leaves behind do not keep the volume from being opened again.
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
    for address in ["127.0.0.1:0", "tcp:[::1]:0", "unix:own.sock"] {
        let more = ["--insecure-plaintext", "--nbd", address];
        let uri = image.open_with("key", "secret", &more);
        assert_same(&image.place.copy_out(&uri), &bytes, address);
        let size = image.place.run("nbdinfo", ["--size", &uri]);
        assert_eq!(size.trim(), PAYLOAD.to_string());
        image.place.close("secret");
    }
}

/// Number of a process's open files and of its threads, and its resident memory in KiB.
fn held_by(pid: &str) -> (usize, usize, u64) {
    let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let memory = line.unwrap().split_whitespace().nth(1).unwrap();
    (count("fd"), count("task"), memory.parse().unwrap())
}

/// Goes through a handshake, reads 64 KiB, and ends as `how` says.
fn come_and_go(socket: &str, how: usize) {
    if how == 0 {
        let mut client = UnixStream::connect(socket).unwrap();
        client.read_exact(&mut [0; 18]).unwrap();
        return;
    }
    let mut client = connected(socket);
    let mut read = 0x2560_9513_u32.to_be_bytes().to_vec();
    read.extend([0; 20]);
    read.extend((64u32 << 10).to_be_bytes());
    client.write_all(&read).unwrap();
    if how == 1 {
        return;
    }
    client.read_exact(&mut vec![0; 16 + (64 << 10)]).unwrap();
}

fn sockets_of(pid: &str) -> usize {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    // A descriptor that was closed meanwhile has no target.
    let targets = descriptors.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    targets
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}

#[test]
fn a_thousand_clients_that_come_and_go_leave_nothing() {
    if !have(&["cryptsetup"]) {
        return;
    }
    for options in [
        &[][..],
        &["--io-engine", "io_uring"],
        &["--io-engine", "threads"],
    ] {
        let image = Image::made_by_cryptsetup(USUAL);
        let place = &image.place;
        let uri = image.open_with("key", "secret", options);
        let socket = uri.split_once("socket=").unwrap().1;
        let status = place.scrim(["status", "secret", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let pid = status["pid"].to_string();
        let listening = sockets_of(&pid);
        // A client that has sent nothing has a socket and no thread.
        let gone = || {
            wait_until("the clients have gone", || {
                let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
                threads <= 2 && sockets_of(&pid) <= listening
            });
        };
        for turn in 0..30 {
            come_and_go(socket, turn % 3);
        }
        gone();
        let (files, threads, memory) = held_by(&pid);
        for turn in 0..1000 {
            come_and_go(socket, turn % 3);
        }
        gone();
        let after = held_by(&pid);
        assert_eq!((after.0, after.1), (files, threads), "{options:?}");
        assert!(
            after.2 <= memory + 1024,
            "{options:?}: {memory} KiB, then {} KiB",
            after.2
        );
        place.close("secret");
    }
}

/// All clients write at once, each to a range of its own, and none disturbs another.
#[test]
fn sixty_four_clients_are_served_at_once() {
    if !have(&["cryptsetup", "fio"]) {
        return;
    }
    for options in [&[][..], &["--io-engine", "io_uring"]] {
        let image = Image::made_by_cryptsetup(USUAL);
        roomy(&image);
        let place = &image.place;
        let uri = image.open_with("key", "secret", options);
        let line = format!(
            "--name=verify --ioengine=nbd --uri={uri} --rw=randwrite --numjobs=64 --thread --size=256k \
             --offset_increment=256k --bs=4k --iodepth=4 --verify=crc32c --verify_fatal=1 \
             --verify_state_save=0 --do_verify=1"
        );
        let mut fio = place.command("fio");
        fio.args(line.split_whitespace()).stdout(Stdio::null());
        assert!(fio.status().unwrap().success(), "{options:?}");
        place.close("secret");
    }
}

/// A connection in its transmission phase.
fn connected(socket: &str) -> UnixStream {
    let mut client = UnixStream::connect(socket).unwrap();
    let timeout = Some(std::time::Duration::from_secs(60));
    client.set_read_timeout(timeout).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    let mut go = 3u32.to_be_bytes().to_vec();
    go.extend(b"IHAVEOPT");
    for number in [7u32, 6, 0] {
        go.extend(number.to_be_bytes());
    }
    go.extend([0; 2]);
    client.write_all(&go).unwrap();
    // The export's size and flags, and the end of the options.
    client.read_exact(&mut [0; 20 + 12 + 20]).unwrap();
    client
}

fn write_request(offset: u64, len: u32) -> Vec<u8> {
    let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
    request.extend([0, 0, 0, 1]);
    request.extend([7; 8]);
    request.extend(offset.to_be_bytes());
    request.extend(len.to_be_bytes());
    request
}

/// A client that stops in the middle of a request, or reads no replies, does not delay other clients' writes.
#[test]
fn a_client_that_stalls_holds_up_only_itself() {
    if !have(&["cryptsetup"]) {
        return;
    }
    for engine in ["plain", "io_uring", "threads"] {
        let image = Image::made_by_cryptsetup(USUAL);
        roomy(&image);
        let place = &image.place;
        let uri = image.open_with("key", "secret", &["--io-engine", engine]);
        let socket = uri.split_once("socket=").unwrap().1;
        let mut halting = connected(socket);
        let mut bytes = write_request(0, 4096);
        bytes.extend([1; 4096]);
        bytes.extend(write_request(4096, 4096));
        bytes.extend([1; 100]);
        halting.write_all(&bytes).unwrap();
        halting.read_exact(&mut [0; 16]).unwrap();
        let mut deaf = connected(socket);
        deaf.set_nonblocking(true).unwrap();
        let mut reads = write_request(0, 1 << 20);
        reads[7] = 0;
        for request in [&reads, &reads, &bytes] {
            let _ = deaf.write(request);
        }
        let mut other = connected(socket);
        for (offset, len) in [(8192 + 100, 100), (16384, 4096)] {
            let mut bytes = write_request(offset, len);
            bytes.extend(vec![2; len as usize]);
            other.write_all(&bytes).unwrap();
            other.read_exact(&mut [0; 16]).unwrap();
        }
        drop((halting, deaf, other));
        place.close("secret");
    }
}
