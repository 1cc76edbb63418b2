//! `scrim open` under a service manager: sockets that are handed on, word of being ready, signals.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::clients::send;
use crate::killed::{BLOCK, Client, Command as Nbd};
use crate::support::{
    Background, PYTHON, Place, assert_same, have, noise, scrim, script, succeeded, wait_until,
};
use crate::volume::{Image, LUKS2, PAYLOAD, USUAL};

const OPEN: [&str; 5] = ["open", "disk.img", "secret", "-d", "key"];

/// `scrim open` by a manager that hands these sockets on.
fn handed(place: &Place, sockets: &[&str], more: &[&str]) -> Command {
    let mut command = place.command(PYTHON);
    command.arg(script("activate.py")).args(sockets);
    command.args(["--", scrim()]).args(OPEN).args(more);
    command
}

/// Its first lines, while it runs.
fn lines<const N: usize>(server: &mut Background) -> [String; N] {
    let mut stdout = BufReader::new(server.0.stdout.take().unwrap());
    std::array::from_fn(|_| {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        line.trim().to_owned()
    })
}

#[test]
fn it_serves_on_the_sockets_that_are_handed_on() {
    if !have(&[PYTHON, "nbdcopy", "kill"]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let bytes = image.fill_with_noise(1);
    let place = &image.place;
    let sockets = ["unix:handed.sock", "tcp:127.0.0.1:0"];
    let options = ["--foreground", "--insecure-plaintext"];
    let mut command = handed(place, &sockets, &options);
    let mut server = Background::start(command.stdout(Stdio::piped()));
    let [unix, tcp] = lines(&mut server);
    assert!(unix.ends_with("/handed.sock"), "{unix}");
    assert!(tcp.starts_with("nbd://127.0.0.1:"), "{tcp}");
    for uri in [&unix, &tcp] {
        assert_same(&place.copy_out(uri), &bytes, uri);
    }
    assert!(place.scrim(["status", "secret"]).contains(&unix));
    send("-TERM", &server.0);
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    assert!(
        place.path("handed.sock").exists(),
        "it belongs to the manager"
    );
}

#[test]
fn it_takes_them_into_the_background() {
    if !have(&[PYTHON, "nbdcopy"]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let bytes = image.fill_with_noise(2);
    let place = &image.place;
    let output = handed(place, &["unix:handed.sock"], &[]).output().unwrap();
    let uri = succeeded("open", &output);
    assert_same(&place.copy_out(uri.trim()), &bytes, "by its socket");
    place.close("secret");
    // Announced to another process, they are not for this one.
    let output = handed(place, &["unix:other.sock", "other"], &[]).output();
    let uri = succeeded("open", &output.unwrap());
    assert!(uri.trim().ends_with("/run/scrim/secret.nbd"), "{uri}");
    place.close("secret");
}

#[test]
fn a_socket_that_it_cannot_serve_on_is_refused_by_its_number() {
    if !have(&[PYTHON]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    for (socket, reason) in [
        ("tcp:0.0.0.0:0", "without TLS"),
        ("datagram:d.sock", "listens"),
        ("silent:s.sock", "listens"),
        ("abstract:scrim-of-a-test", "absolute path"),
        ("file:disk.img", "not a socket"),
        ("missing", "descriptor 4"),
    ] {
        let sockets = [&format!("unix:{}.sock", reason.len()), socket];
        let _ = fs::remove_file(place.path(&sockets[0][5..]));
        let refused = handed(place, &sockets.map(|s| s as &str), &[]).output();
        let refused = refused.unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{socket}: {said}");
        assert!(said.contains(reason), "{socket}: {said}");
    }
    let refused = handed(place, &["unix:u.sock"], &["--nbd", "unix:own.sock"]).output();
    assert_eq!(refused.unwrap().status.code(), Some(1));
}

#[test]
fn systemd_starts_it_for_the_first_client() {
    if !have(&["systemd-socket-activate", "nbdcopy"]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let bytes = image.fill_with_noise(3);
    let place = &image.place;
    let socket = place.path("systemd.sock");
    let mut command = place.command("systemd-socket-activate");
    // It hands on no variable that it is not told of.
    command.args(["-E", "XDG_RUNTIME_DIR", "-E", "XDG_STATE_HOME"]);
    command.arg("--listen").arg(&socket).arg(scrim()).args(OPEN);
    command.arg("--foreground").stdout(Stdio::null());
    let mut server = Background::start(command.stderr(Stdio::null()));
    wait_until("it listens", || socket.exists());
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    assert_same(&place.copy_out(&uri), &bytes, "for the first client");
    place.close("secret");
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}

#[test]
fn its_manager_hears_that_it_is_ready_and_that_it_stops() {
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    let path = place.path("notify");
    let name = format!("scrim-{}", path.display());
    let by_name = SocketAddr::from_abstract_name(&name).unwrap();
    for (manager, address) in [
        (
            UnixDatagram::bind(&path).unwrap(),
            path.display().to_string(),
        ),
        (
            UnixDatagram::bind_addr(&by_name).unwrap(),
            format!("@{name}"),
        ),
    ] {
        manager
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let hear = || {
            let mut message = [0; 4096];
            let len = manager.recv(&mut message).unwrap();
            String::from_utf8_lossy(&message[..len]).into_owned()
        };
        let mut command = place.command(scrim());
        command.args(OPEN).arg("--foreground");
        command.env("NOTIFY_SOCKET", address).stdout(Stdio::null());
        let mut server = Background::start(&mut command);
        let said = hear();
        assert!(said.starts_with("READY=1\n"), "{said}");
        assert!(said.contains("secret.nbd"), "{said}");
        assert!(place.scrim(["status", "secret"]).contains("is active"));
        place.close("secret");
        let said = hear();
        assert!(said.starts_with("STOPPING=1\n"), "{said}");
        assert_eq!(server.0.wait().unwrap().code(), Some(0));
    }
}

/// Clients write and flush in the midst of it: what was acknowledged is there afterwards, and it ends
/// with 0.
#[test]
fn sigterm_under_load_loses_nothing_that_was_acknowledged() {
    if !have(&["nbdcopy", "kill"]) {
        return;
    }
    const CLIENTS: usize = 4;
    const BLOCKS: usize = PAYLOAD / BLOCK / CLIENTS;
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    for options in [
        &[][..],
        &["--io-engine", "threads"],
        &["--io-engine", "io_uring"],
    ] {
        image.fill(&vec![0; PAYLOAD]);
        let mut command = place.command(scrim());
        command.args(OPEN).arg("--foreground").args(options);
        let mut server = Background::start(command.stdout(Stdio::piped()));
        let [_address] = lines(&mut server);
        let (flushed, heard) = channel();
        let written: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let client = Client::connect(place);
                    let flushed = flushed.clone();
                    let blocks = number * BLOCKS..(number + 1) * BLOCKS;
                    scope.spawn(move || write_until_it_ends(client, blocks, &flushed))
                })
                .collect();
            // Some rounds first, of whichever clients.
            let timeout = Duration::from_secs(60);
            let rounds = (0..CLIENTS * 2).take_while(|_| heard.recv_timeout(timeout).is_ok());
            let rounds = rounds.count();
            send("-TERM", &server.0);
            assert_eq!(server.0.wait().unwrap().code(), Some(0), "{options:?}");
            assert_eq!(rounds, CLIENTS * 2, "they flushed");
            writers.into_iter().map(|w| w.join().unwrap()).collect()
        });
        let bytes = image.read();
        for (number, acknowledged) in written.iter().enumerate() {
            for (at, count) in acknowledged.iter().enumerate() {
                let block = &bytes[(number * BLOCKS + at) * BLOCK..][..BLOCK];
                let found = u64::from_le_bytes(block[..8].try_into().unwrap());
                // One write more may have been done, and not answered.
                assert!(
                    found == *count || found == *count + 1,
                    "client {number}, block {at}: {found}, acknowledged: {count}"
                );
            }
        }
    }
}

/// Writes each block again and again, counting, with a flush after each round; returns the last count
/// that was acknowledged of each.
fn write_until_it_ends(mut client: Client, blocks: Range<usize>, flushed: &Sender<()>) -> Vec<u64> {
    let mut acknowledged = vec![0u64; blocks.len()];
    loop {
        for (count, block) in acknowledged.iter_mut().zip(blocks.clone()) {
            let data = (*count + 1).to_le_bytes().repeat(BLOCK / 8);
            let offset = (block * BLOCK) as u64;
            if client.ask(Nbd::Write, offset, BLOCK, &data).is_err() {
                return acknowledged;
            }
            *count += 1;
        }
        if client.ask(Nbd::Flush, 0, 0, &[]).is_err() {
            return acknowledged;
        }
        // The receiver is gone once the process has been asked to end.
        let _ = flushed.send(());
    }
}

#[test]
fn sighup_makes_a_volume_as_long_as_its_device() {
    if !have(&["setsid", "nbdcopy", "kill"]) {
        return;
    }
    for case in [USUAL, LUKS2[1]] {
        let image = Image::made_by_scrim(case);
        let place = &image.place;
        let mut command = place.command("setsid");
        command.arg(scrim()).args(OPEN).arg("--foreground");
        command.args(image.header_option());
        let mut server = Background::start(command.stdout(Stdio::piped()));
        let [uri] = lines(&mut server);
        let longer = PAYLOAD * 2;
        let disk = File::options().write(true).open(place.path("disk.img"));
        let disk = disk.unwrap();
        let status = || place.scrim(["status", "secret", "--json"]);
        let size = |bytes: usize| status().contains(&format!("\"size_sectors\": {},", bytes / 512));
        disk.set_len((case.default_offset() + longer) as u64)
            .unwrap();
        send("-HUP", &server.0);
        wait_until("it has grown", || size(longer));
        let bytes = noise(longer, 5);
        place.copy_in(&bytes, &uri);
        assert_same(&place.copy_out(&uri), &bytes, "the longer volume");
        // A device without room for anything leaves it as it is.
        let name = image.header();
        fs::rename(place.path(name), place.path("away")).unwrap();
        send("-HUP", &server.0);
        assert_same(&place.copy_out(&uri), &bytes, "without its header");
        fs::rename(place.path("away"), place.path(name)).unwrap();
        disk.set_len((case.default_offset() + PAYLOAD) as u64)
            .unwrap();
        send("-HUP", &server.0);
        wait_until("it has shrunk", || size(PAYLOAD));
        place.close("secret");
        assert_eq!(server.0.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn sighup_reloads_what_is_in_the_background_and_ends_what_has_a_terminal() {
    if !have(&[PYTHON, "kill"]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    image.open_with("key", "secret", &[]);
    let status = || -> serde_json::Value {
        let status = place.scrim(["status", "secret", "--json"]);
        serde_json::from_str(&status).unwrap()
    };
    let disk = File::options().write(true).open(place.path("disk.img"));
    let longer = PAYLOAD + (1 << 20);
    let end = USUAL.default_offset() + longer;
    disk.unwrap().set_len(end as u64).unwrap();
    place.run("kill", ["-HUP", &status()["pid"].to_string()]);
    wait_until("it has grown", || status()["size_sectors"] == longer / 512);
    assert_eq!(status()["warnings"], serde_json::json!([]));
    // There is no terminal to print a warning on.
    fs::rename(place.path("disk.img"), place.path("away")).unwrap();
    place.run("kill", ["-HUP", &status()["pid"].to_string()]);
    let is_told = || {
        let status = status();
        let warning = status["warnings"][0].as_str();
        warning.is_some_and(|warning| {
            warning.starts_with("cannot open") && warning.contains("disk.img")
        })
    };
    wait_until("the warning is kept", is_told);
    assert!(
        place
            .scrim(["status", "secret"])
            .contains("warning:      cannot open")
    );
    fs::rename(place.path("away"), place.path("disk.img")).unwrap();
    place.close("secret");
    let job = "scrim open disk.img secret -d key --foreground >address & \
               until grep -q nbd address; do sleep 0.1; done; kill -HUP $!; wait $!";
    let output = place.script("terminal.py", ["sh", "-c", job], b"");
    let output = String::from_utf8_lossy(&output);
    assert!(output.contains("\nexit 0 "), "{output}");
    assert_eq!(place.scrim(["list"]), "");
}

/// The units, with the program where it is here.
#[test]
fn systemd_finds_no_fault_in_the_units() {
    if !have(&["systemd-analyze"]) {
        return;
    }
    let place = Place::new();
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    for unit in ["scrim@.service", "scrim@.socket", "scrim-serve.service"] {
        let text = fs::read_to_string(units.join(unit)).unwrap();
        place.write(unit, text.replace("/usr/local/bin/scrim", scrim()));
    }
    for unit in [
        "./scrim@data.service",
        "./scrim@data.socket",
        "./scrim-serve.service",
    ] {
        let verify = ["--man=no", "verify", unit];
        let output = place.run_with_input("systemd-analyze", verify, b"");
        let said = String::from_utf8_lossy(&output.stderr);
        let about_ours: Vec<_> = said
            .lines()
            .filter(|line| line.contains("scrim@") || line.contains("scrim-serve"))
            .collect();
        assert!(output.status.success(), "{unit}: {said}");
        assert_eq!(about_ours, [""; 0], "{unit}");
    }
}
