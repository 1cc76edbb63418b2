//! Other programs while Scrim has a volume open: `cryptsetup` can still change its header, and a second
//! writer is refused.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{Background, PYTHON, Place, assert_same, have, noise, scrim, wait_until};
use crate::volume::{CHEAP, Case, Image, LUKS1, LUKS2, PAYLOAD, USUAL};

/// Checks that the volume still takes writes and returns them.
fn still_serves(image: &Image, uri: &str, seed: u64) {
    let bytes = noise(PAYLOAD, seed);
    image.place.copy_in(&bytes, uri);
    assert_same(&image.place.copy_out(uri), &bytes, "while it is open");
}

fn check_cryptsetup(case: Case) {
    let image = Image::made_by_cryptsetup(case);
    let place = &image.place;
    let header = image.header();
    let uri = image.open_with("key", "secret", &[]);
    still_serves(&image, &uri, 1);
    // Meanwhile fio writes, and verifies what it has written.
    let line = format!(
        "--name=verify --ioengine=nbd --uri={uri} --rw=randwrite --size=1M --bs=4k --iodepth=4 \
         --loops=20 --verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=1"
    );
    let mut fio = place.command("fio");
    fio.args(line.split_whitespace()).stdout(Stdio::null());
    let mut fio = Background::start(&mut fio);
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
    assert!(fio.0.wait().unwrap().success());
    still_serves(&image, &uri, 2);
    place.close("secret");
    assert!(image.scrim_accepts("key") && image.scrim_accepts("other"));
    let expected = noise(PAYLOAD, 2);
    assert_same(&image.read_with("other"), &expected, "after all that");
}

#[test]
fn cryptsetup_works_on_the_header() {
    if have(&["cryptsetup", "nbdcopy", "fio"]) {
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

/// The exit code and the message of `scrim open` in another runtime folder, by absolute paths.
fn second_open(elsewhere: &Place, image: &Image, more: &[&str]) -> (Option<i32>, String) {
    let path = |name| image.place.path(name).display().to_string();
    let (disk, key) = (path("disk.img"), path("key"));
    let args = [&["open", &disk, "second", "-d", &key], more].concat();
    let output = elsewhere.run_with_input(scrim(), args, b"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[test]
fn a_second_scrim_is_refused() {
    let image = Image::made_by_scrim(USUAL);
    let elsewhere = Place::new();
    image.open_with("key", "secret", &[]);
    for more in [&[][..], &["--readonly"]] {
        let (code, said) = second_open(&elsewhere, &image, more);
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains("another program has it open"), "{said}");
        // The volume is one of another user's.
        assert!(!said.contains("it is open as"), "{said}");
    }
    let own = second_open(&image.place, &image, &[]).1;
    assert!(
        own.contains("it is open as secret: `scrim close secret`"),
        "{own}"
    );
    image.place.close("secret");
    image.open_with("key", "reading", &["--readonly"]);
    assert_eq!(second_open(&elsewhere, &image, &[]).0, Some(5));
    image.place.close("reading");
}

/// qemu's writers stay out, and so do those of its readers that want nobody to write meanwhile.
#[test]
fn qemu_is_refused_by_its_own_locks() {
    if !have(&["qemu-io", "qemu-nbd", "qemu-img"]) {
        return;
    }
    let image = Image::made_by_scrim(LUKS1[1]);
    let place = &image.place;
    let refused = |line: &str| {
        let words = ["60"].into_iter().chain(line.split(' '));
        let output = place.command("timeout").args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{line}");
        assert!(said.contains("Failed to get"), "{line}: {said}");
    };
    let read = "qemu-img convert -f raw -O raw disk.img copy";
    let luks = "--object secret,id=sec0,file=key --image-opts \
                driver=luks,key-secret=sec0,file.driver=file,file.filename=disk.img";
    let writes = [
        "qemu-io -f raw -c quit disk.img".to_owned(),
        format!("qemu-io -c quit {luks}"),
        format!(
            "qemu-nbd -f raw -k {} disk.img",
            place.path("socket").display()
        ),
    ];
    image.open_with("key", "secret", &[]);
    for line in writes.iter().map(String::as_str).chain([read]) {
        refused(line);
    }
    place.close("secret");

    image.open_with("key", "reading", &["--readonly"]);
    for line in &writes {
        refused(line);
    }
    place.run("qemu-img", read.split(' ').skip(1));
    place.close("reading");
}

#[test]
fn an_image_that_qemu_has_open_is_refused() {
    if !have(&["qemu-nbd", "nbdcopy"]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    let elsewhere = Place::new();
    let serve = |mode: &[&str]| {
        let socket = place.path("qemu.sock");
        let _ = std::fs::remove_file(&socket);
        let mut command = place.command("qemu-nbd");
        command.args(["-f", "raw", "-t", "-k"]).arg(&socket);
        let qemu = Background::start(command.args(mode).arg("disk.img"));
        wait_until("qemu-nbd listens", || socket.exists());
        qemu
    };
    let writer = serve(&[]);
    for more in [&[][..], &["--readonly"]] {
        let (code, said) = second_open(&elsewhere, &image, more);
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains("another program has it open"), "{said}");
    }
    drop(writer);
    let _reader = serve(&["--read-only"]);
    assert_eq!(image.read().len(), PAYLOAD);
}

/// A client that connects to the socket in its argument, says so, and stays until its input ends.
const CLIENT: &str = "\
import socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
def take(n):
    while n: n -= len(s.recv(n))
take(18)
s.sendall(struct.pack('>IQII', 3, 0x49484156454f5054, 1, 0))
take(10)
print('connected', flush=True)
sys.stdin.read()
";

#[test]
fn a_deferred_close_waits_for_clients_and_can_be_cancelled() {
    if !have(&["cryptsetup", PYTHON]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    let uri = image.open_with("key", "secret", &[]);
    let socket = uri.split_once("socket=").unwrap().1;
    let mut command = place.command(PYTHON);
    command.args(["-c", CLIENT, socket]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = Background::start(&mut command);
    let mut said = String::new();
    let output = client.0.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut said).unwrap();

    let is_closing = || {
        place
            .scrim(["status", "secret"])
            .contains("closes when nobody uses it")
    };
    let refused = place.run_with_input(scrim(), ["close", "secret"], b"");
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    assert!(!is_closing());
    place.scrim(["cryptsetup", "close", "--deferred", "secret"]);
    assert!(is_closing());
    place.scrim(["close", "--cancel-deferred", "secret"]);
    assert!(!is_closing());
    place.scrim(["close", "--deferred", "secret"]);
    drop(client);
    wait_until("the volume is closed", || {
        let status = place.run_with_input(scrim(), ["status", "secret"], b"");
        status.status.code() == Some(4)
    });

    // Where nobody uses the volume it is closed at once.
    image.open_with("key", "secret", &[]);
    place.scrim(["close", "--deferred", "secret"]);
    let status = place.run_with_input(scrim(), ["status", "secret"], b"");
    assert_eq!(status.status.code(), Some(4), "{status:?}");
}
