//! Volumes on real NBD servers: nbdkit, qemu-nbd and qemu-storage-daemon, over unix sockets and TCP; and
//! what happens to such a server: it is killed under load, with all that it has not flushed, it fails, it
//! falls silent. (Its network goes away in `remote_network.rs`.)

use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{Background, Place, assert_same, have, noise, succeeded, wait_until};
use crate::volume::{CHEAP, Image, OTHER, PASSPHRASE, PAYLOAD, USUAL};

/// A sparse image that is no volume yet.
pub(crate) fn unformatted(payload: usize) -> Image {
    let place = Place::new();
    place.write("key", PASSPHRASE);
    place.write("other", OTHER);
    place.sparse("disk.img", (USUAL.default_offset() + payload) as u64);
    Image { place, case: USUAL }
}

/// A server of `disk.img`, once it answers by the URI of what it serves.
pub(crate) fn serve(place: &Place, words: &str, uri: &str) -> Background {
    let mut words = words.split_whitespace();
    let mut command = place.command(words.next().unwrap());
    command
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let server = Background::start(&mut command);
    wait_until("the server answers", || {
        let mut info = place.command("nbdinfo");
        info.args(["--size", uri])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        info.status().unwrap().success()
    });
    server
}

/// nbdkit on the socket `server`.
fn nbdkit(place: &Place, words: &str) -> Background {
    nbdkit_at(place, words, SOCKET)
}

fn nbdkit_at(place: &Place, words: &str, uri: &str) -> Background {
    let _ = std::fs::remove_file(place.path("server"));
    serve(place, &format!("nbdkit -f -U server {words}"), uri)
}

/// Address at which nbdkit serves.
const SOCKET: &str = "nbd+unix:///?socket=server";

/// Finds a free port, a different one each time. It is outside the range from which the kernel chooses ports
/// (`ip_local_port_range`), so that no other program gets it before it is used.
pub(crate) fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    loop {
        let asked = ASKED.fetch_add(1, Ordering::Relaxed);
        let number = std::process::id().wrapping_mul(101).wrapping_add(asked);
        let port = 10_000 + u16::try_from(number % 20_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub(crate) fn scrim(place: &Place, words: &str) -> Output {
    place.run_with_input(crate::support::scrim(), words.split_whitespace(), b"")
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn format(place: &Place, uri: &str) {
    let words = format!("format {CHEAP} --batch-mode --key-file key {uri}");
    succeeded("format", &scrim(place, &words));
}

/// State of the connection to the server, from `scrim status --json`.
fn connection(place: &Place) -> serde_json::Value {
    let status = place.scrim(["status", "remote", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    status["servers"][0].clone()
}

/// Everything that can be done with a file is done with an export, and afterwards the server's image is
/// a volume like any other.
fn full_cycle(server: &str, uri: &str) {
    full_cycle_on(&unformatted(PAYLOAD), server, uri);
}

/// The same with an image of which the server needs more than the file itself.
pub(crate) fn full_cycle_on(image: &Image, server: &str, uri: &str) {
    let place = &image.place;
    let running = serve(place, server, uri);
    format(place, uri);
    for words in [
        format!("isLuks {uri}"),
        format!("dump {uri}"),
        format!("luksUUID {uri}"),
        format!("add-key {CHEAP} --key-file key {uri} other"),
        format!("test-passphrase --key-file other {uri}"),
        format!("config --label remote {uri}"),
        format!("header-backup --header-backup-file backup {uri}"),
        format!("open --persistent --perf-no_read_workqueue --key-file key {uri} remote"),
    ] {
        let output = place.run_with_input("timeout", format!("60 scrim {words}").split(' '), b"");
        succeeded(&format!("{server}: {words}"), &output);
    }
    let status = place.scrim(["status", "remote"]);
    assert!(status.contains("connection:"), "{status}");
    let table = place.scrim(["table", "remote"]);
    let scheme = uri.split("://").next().unwrap();
    assert!(table.contains(&format!(" {scheme}://")), "{table}");
    let encrypted = status.contains("to the server, TLSv1.");
    assert_eq!(encrypted, scheme.starts_with("nbds"), "{status}");
    let served = place.path("run/scrim/remote.nbd");
    let plaintext = format!("nbd+unix:///?socket={}", served.display());
    let bytes = noise(PAYLOAD, 7);
    place.copy_in(&bytes, &plaintext);
    assert_same(&place.copy_out(&plaintext), &bytes, server);
    place.close("remote");
    drop(running);
    assert!(image.cryptsetup_accepts("key") && image.cryptsetup_accepts("other"));
    let dump = image.dump();
    assert!(dump.contains("Label: remote"), "{dump}");
    assert!(dump.contains("no-read-workqueue"), "{dump}");
    assert_same(&image.decrypt_independently(), &bytes, server);
    assert_same(&image.read(), &bytes, server);
}

#[test]
fn a_volume_lives_on_nbdkit() {
    if !have(&["nbdkit", "nbdinfo", "nbdcopy", "cryptsetup"]) {
        return;
    }
    full_cycle("nbdkit -f -U server file disk.img", SOCKET);
    let port = free_port();
    let server = format!("nbdkit -f -i 127.0.0.1 -p {port} file disk.img");
    full_cycle(&server, &format!("nbd://127.0.0.1:{port}"));
    let server =
        format!("nbdkit -f -i ::1 -p {port} --filter=exportname file disk.img exportname=a/b");
    full_cycle(&server, &format!("nbd://[::1]:{port}/a/b"));
    // As poor as a server can be, and one that takes only whole blocks of 4 KiB.
    let poor = "--mask-handshake=0 --filter=nozero --filter=multi-conn";
    let modes = "zeromode=none multi-conn-mode=disable";
    full_cycle(
        &format!("nbdkit -f -U server {poor} file disk.img {modes}"),
        SOCKET,
    );
    let blocks = "blocksize-minimum=4K blocksize-maximum=64K blocksize-error-policy=error";
    let server = format!("nbdkit -f -U server --filter=blocksize-policy file disk.img {blocks}");
    full_cycle(&server, SOCKET);
}

#[test]
fn a_volume_lives_on_qemu() {
    if !have(&[
        "qemu-nbd",
        "qemu-storage-daemon",
        "nbdinfo",
        "nbdcopy",
        "cryptsetup",
    ]) {
        return;
    }
    // It has one client at a time.
    let server = "qemu-nbd --persistent --format raw --socket ./server disk.img";
    let image = unformatted(PAYLOAD);
    let socket = format!(
        "nbd+unix:///?socket={}",
        image.place.path("server").display()
    );
    let absolute = server.replace("./server", image.place.path("server").to_str().unwrap());
    let running = serve(&image.place, &absolute, &socket);
    format(&image.place, &socket);
    image.place.open(
        &socket,
        "remote",
        &["--persistent", "--allow-discards", "-d", "key"],
    );
    image.place.close("remote");
    // Its client is the process that serves the volume, which alone can read the header for a passphrase.
    let uri = image.place.open(&socket, "remote", &["-d", "key"]);
    let payload = noise(PAYLOAD, 8);
    image.place.copy_in(&payload, &uri);
    image.place.scrim(["luksSuspend", "remote"]);
    let wrong = scrim(&image.place, "luksResume remote -d other");
    assert_eq!(wrong.status.code(), Some(2), "{}", said(&wrong));
    image.place.scrim(["luksResume", "remote", "-d", "key"]);
    assert_same(&image.place.copy_out(&uri), &payload, "the payload");
    image.place.close("remote");
    drop(running);
    assert!(image.cryptsetup_accepts("key"));

    let port = free_port();
    let server = format!(
        "qemu-nbd --persistent --shared 8 --format raw -b 127.0.0.1 -p {port} -x e disk.img"
    );
    full_cycle(&server, &format!("nbd://127.0.0.1:{port}/e"));
    let server = "qemu-storage-daemon --blockdev file,node-name=disk,filename=disk.img \
                  --nbd-server addr.type=unix,addr.path=server \
                  --export nbd,id=e,node-name=disk,name=e,writable=on";
    full_cycle(server, "nbd+unix:///e?socket=server");
}

/// The server keeps what it was sent in memory until a flush, and is killed three times while fio writes
/// and checks: nothing that was acknowledged is missed.
#[test]
fn a_server_that_is_killed_under_load_costs_nothing() {
    if have(&["nbdkit", "nbdinfo", "fio", "cryptsetup"]) {
        kill_under_load(&unformatted(16 << 20), "", SOCKET);
    }
}

pub(crate) fn kill_under_load(image: &Image, options: &str, uri: &str) {
    let place = &image.place;
    let forgetful =
        format!("{options} --filter=cache file disk.img cache=writeback cache-on-read=false");
    let mut server = nbdkit_at(place, &forgetful, uri);
    format(place, uri);
    let plaintext = place.open(uri, "remote", &["--key-file", "key", "--nbd-timeout", "60"]);
    let line = format!(
        "--name=verify --ioengine=nbd --uri={plaintext} --rw=randwrite --numjobs=4 --size=4M \
         --offset_increment=4M --bssplit=4k/60:64k/30:1m/10 --blockalign=4k --iodepth=4 --verify=crc32c \
         --verify_fatal=1 --verify_state_save=0 --do_verify=1 --loops=12 --fsync=64 --group_reporting"
    );
    let mut fio = place.command("fio");
    fio.args(line.split_whitespace());
    fio.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut fio = Background::start(&mut fio);
    for _ in 0..3 {
        let before = connection(place)["reconnects"].as_u64().unwrap();
        let served = || {
            let status = place.scrim(["status", "remote", "--json"]);
            let status: serde_json::Value = serde_json::from_str(&status).unwrap();
            status["served"]["writes"].as_u64().unwrap()
        };
        let writes = served();
        wait_until("fio goes on", || {
            served() > writes + 200 || fio.0.try_wait().unwrap().is_some()
        });
        // SIGKILL.
        drop(server);
        server = nbdkit_at(place, &forgetful, uri);
        wait_until("the connection is made again", || {
            connection(place)["reconnects"].as_u64().unwrap() > before
                || fio.0.try_wait().unwrap().is_some()
        });
    }
    let mut out = String::new();
    let stdout = fio.0.stdout.take().unwrap();
    std::io::Read::read_to_string(&mut { stdout }, &mut out).unwrap();
    assert!(fio.0.wait().unwrap().success(), "{out}");
    let state = connection(place);
    assert!(state["reconnects"].as_u64().unwrap() > 0, "{state}");
    let bytes = place.copy_out(&plaintext);
    place.close("remote");
    drop(server);
    assert!(image.cryptsetup_accepts("key"));
    let local = place.open("disk.img", "local", &["--readonly", "--key-file", "key"]);
    assert_same(&place.copy_out(&local), &bytes, "the image itself");
    place.close("local");
}

#[test]
fn a_server_that_does_not_come_back_fails_the_close_in_time() {
    if !have(&["nbdkit", "nbdinfo", "qemu-io"]) {
        return;
    }
    let image = unformatted(PAYLOAD);
    let place = &image.place;
    let server = nbdkit(place, "file disk.img");
    format(place, SOCKET);
    let plaintext = place.open(
        SOCKET,
        "remote",
        &["--key-file", "key", "--nbd-timeout", "1"],
    );
    let (written, said_of_it) = place.qemu_io(&plaintext, "write -P 7 0 64k");
    assert!(written, "{said_of_it}");
    drop(server);
    let (read, said_of_it) = place.qemu_io(&plaintext, "read 0 64k");
    assert!(
        !read && said_of_it.contains("Input/output error"),
        "{said_of_it}"
    );
    assert_eq!(connection(place)["connections"], 0);
    let close = place.run_with_input("timeout", ["60", "scrim", "close", "remote"], b"");
    // Data that was not flushed is lost, and a message says so.
    assert_eq!(close.status.code(), Some(4), "{}", said(&close));
    assert!(said(&close).contains("may be lost"), "{}", said(&close));
    assert_eq!(place.scrim(["list"]), "");
}

/// Returns whether all threads of a process have stopped: at first only one of them takes the signal.
fn has_stopped(id: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which may have anything in it.
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

#[test]
fn a_server_that_stops_for_a_moment_is_waited_for() {
    if !have(&["nbdkit", "nbdinfo", "qemu-io", "kill"]) {
        return;
    }
    let image = unformatted(PAYLOAD);
    let place = &image.place;
    let server = nbdkit(place, "file disk.img");
    format(place, SOCKET);
    let plaintext = place.open(SOCKET, "remote", &["--key-file", "key"]);
    let signal = |name: &str| {
        let id = server.0.id().to_string();
        place.run("kill", [name, &id]);
        if name == "-STOP" {
            wait_until("it has stopped", || has_stopped(&id));
        }
    };
    signal("-STOP");
    std::thread::scope(|scope| {
        let io = scope.spawn(|| place.qemu_io(&plaintext, "write -P 7 0 64k"));
        std::thread::sleep(std::time::Duration::from_millis(300));
        signal("-CONT");
        let (written, said_of_it) = io.join().unwrap();
        assert!(written, "{said_of_it}");
    });
    assert_eq!(connection(place)["reconnects"], 0);
    // Silence beyond the limit is an error, and then there is a new connection.
    place.close("remote");
    let plaintext = place.open(
        SOCKET,
        "remote",
        &["--key-file", "key", "--nbd-timeout", "1"],
    );
    signal("-STOP");
    let (read, said_of_it) = place.qemu_io(&plaintext, "read -P 7 0 4k");
    assert!(!read, "{said_of_it}");
    signal("-CONT");
    wait_until("it is read again", || {
        place.qemu_io(&plaintext, "read -P 7 0 4k").0
    });
    place.close("remote");
}

#[test]
fn a_server_that_fails_a_request_fails_that_one() {
    if !have(&["nbdkit", "nbdinfo", "qemu-io"]) {
        return;
    }
    let image = unformatted(PAYLOAD);
    let place = &image.place;
    let server = nbdkit(
        place,
        "--filter=error --filter=delay file disk.img error-pread=EIO error-pread-rate=100% \
         error-pread-file=broken rdelay=2ms wdelay=2ms",
    );
    format(place, SOCKET);
    let plaintext = place.open(SOCKET, "remote", &["--key-file", "key"]);
    let (written, said_of_it) = place.qemu_io(&plaintext, "write -P 7 0 64k");
    assert!(written, "{said_of_it}");
    place.write("broken", "");
    let (read, said_of_it) = place.qemu_io(&plaintext, "read -P 7 0 64k");
    assert!(
        !read && said_of_it.contains("Input/output error"),
        "{said_of_it}"
    );
    std::fs::remove_file(place.path("broken")).unwrap();
    let (read, said_of_it) = place.qemu_io(&plaintext, "read -P 7 0 64k");
    assert!(read, "{said_of_it}");
    assert_eq!(connection(place)["reconnects"], 0);
    place.close("remote");
    drop(server);
}

/// Requests for the payload from 1 MiB on that nbdkit's filter `log` has noted: the lengths, in bytes.
fn noted(place: &Place, command: &str) -> Vec<u64> {
    let log = std::fs::read_to_string(place.path("log")).unwrap();
    let start = USUAL.default_offset() as u64 + (1 << 20);
    let begun = format!(" {command} id=");
    let lines = log.lines().filter(|line| line.contains(&begun));
    let requests = lines.map(|line| {
        ["offset=0x", "count=0x"].map(|field| {
            let (_, rest) = line.split_once(field).unwrap();
            u64::from_str_radix(rest.split(' ').next().unwrap(), 16).unwrap()
        })
    });
    let requests = requests.filter(|[at, _]| *at >= start);
    requests.map(|[_, len]| len).collect()
}

/// A server that takes requests of a MiB gets one for each MiB that the client asks for, except for a request beside
/// which there is no other; one that takes shorter ones gets as many as it wants.
#[test]
fn long_requests_reach_the_server_whole() {
    if !have(&["nbdkit", "nbdinfo", "qemu-io"]) {
        return;
    }
    const COUNT: u64 = 6;
    // The delay keeps requests at the server until others have come.
    let slow = "--filter=log --filter=delay file disk.img logfile=log rdelay=100ms wdelay=100ms";
    let policy = |longest: &str| {
        format!(
            "--filter=blocksize-policy {slow} blocksize-minimum=1 blocksize-preferred=4K \
             blocksize-maximum={longest} blocksize-error-policy=error"
        )
    };
    for (words, longest) in [
        (slow.to_owned(), 1 << 20),
        (policy("32M"), 1 << 20),
        (policy("256K"), 256 << 10),
        (policy("64K"), 64 << 10),
    ] {
        let image = unformatted(8 << 20);
        let place = &image.place;
        let server = nbdkit(place, "file disk.img");
        format(place, SOCKET);
        drop(server);
        let server = nbdkit(place, &words);
        let plaintext = place.open(SOCKET, "remote", &["--key-file", "key"]);
        for (command, asked) in [("Write", "aio_write -P 7"), ("Read", "aio_read -P 7")] {
            let mut client = place.command("qemu-io");
            client.args(["-f", "raw", &plaintext]);
            for at in 1..=COUNT {
                client.args(["-c", &format!("{asked} {at}M 1M")]);
            }
            let output = client.args(["-c", "aio_flush"]).output().unwrap();
            succeeded(asked, &output);
            let requests = noted(place, command);
            let told = format!("{words}: {asked}: {requests:?}");
            assert_eq!(requests.iter().sum::<u64>(), COUNT << 20, "{told}");
            assert!(requests.iter().all(|len| *len <= longest), "{told}");
            // The first of them has been alone, and on a busy machine perhaps another one.
            let whole: u64 = requests.iter().filter(|len| **len == longest).sum();
            assert!(whole >= COUNT << 19, "{told}");
        }
        place.close("remote");
        drop(server);
    }
}

/// A long request is at the server in pieces: one that fails fails the request, and what other requests have written or
/// read is whole.
#[test]
fn a_server_that_fails_some_pieces_fails_their_requests() {
    if !have(&["nbdkit", "nbdinfo", "qemu-io"]) {
        return;
    }
    let image = unformatted(8 << 20);
    let place = &image.place;
    let server = nbdkit(
        place,
        "--filter=error --filter=delay file disk.img error-pread=EIO error-pread-rate=2% \
         error-pwrite=EIO error-pwrite-rate=2% error-pread-file=broken error-pwrite-file=broken \
         rdelay=2ms wdelay=2ms",
    );
    format(place, SOCKET);
    let plaintext = place.open(SOCKET, "remote", &["--key-file", "key"]);
    let (written, said_of_it) = place.qemu_io(&plaintext, "write -P 7 0 4M");
    assert!(written, "{said_of_it}");
    place.write("broken", "");
    let (mut failed, mut succeeded) = (0, 0);
    // By chance, half of the requests fail, of 32 pieces each; or one of twelve where they have 4.
    for turn in 0..200 {
        let what = match turn % 2 {
            0 => "read -P 7 0 4M",
            _ => "write -P 8 4M 4M",
        };
        let (done, said_of_it) = place.qemu_io(&plaintext, what);
        assert!(
            done || said_of_it.contains("Input/output error"),
            "{said_of_it}"
        );
        assert!(!said_of_it.contains("Pattern verification"), "{said_of_it}");
        *(if done { &mut succeeded } else { &mut failed }) += 1;
        if failed > 3 && succeeded > 3 {
            break;
        }
    }
    assert!(failed > 3 && succeeded > 3, "{failed}, {succeeded}");
    std::fs::remove_file(place.path("broken")).unwrap();
    for what in ["read -P 7 0 4M", "write -P 9 4M 4M", "read -P 9 4M 4M"] {
        let (done, said_of_it) = place.qemu_io(&plaintext, what);
        assert!(done, "{said_of_it}");
    }
    assert_eq!(connection(place)["reconnects"], 0);
    place.close("remote");
    drop(server);
}

#[test]
fn a_read_only_export_is_a_read_only_volume() {
    if !have(&["nbdkit", "nbdinfo", "qemu-io"]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let bytes = image.fill_with_noise(3);
    let place = &image.place;
    let _server = nbdkit(place, "-r file disk.img");
    let open = scrim(place, &format!("open {SOCKET} remote --key-file key"));
    succeeded("open", &open);
    assert!(
        said(&open).contains("the server offers it read-only"),
        "{}",
        said(&open)
    );
    let status = place.scrim(["status", "remote"]);
    assert!(status.contains("readonly"), "{status}");
    let socket = place.path("run/scrim/remote.nbd");
    let plaintext = format!("nbd+unix:///?socket={}", socket.display());
    assert_same(&place.copy_out(&plaintext), &bytes, "read-only");
    place.close("remote");
    for words in [
        format!("format --batch-mode --key-file key {SOCKET}"),
        format!("add-key {CHEAP} --key-file key {SOCKET} other"),
    ] {
        let refused = scrim(place, &words);
        assert_eq!(
            refused.status.code(),
            Some(4),
            "{words}: {}",
            said(&refused)
        );
        assert!(said(&refused).contains("Read-only"), "{}", said(&refused));
    }
}
