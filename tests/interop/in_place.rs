//! Raw images that become volumes where they lie: judged by an independent implementation of the
//! ciphers, killed at any moment and taken up again.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use scrim_backend::sim::{Faults, SimBackend};
use scrim_backend::{Access, Backend, FileBackend};
use scrim_crypt::SectorSize;
use scrim_luks::kdf::{Hash, Kdf};
use scrim_luks::luks2::FormatSpec;
use scrim_luks::{Layout, NewKeyslot, Placement, VolumeKey};
use scrim_sys::memory::SecretBytes;
use scrim_volume::{HeaderSession, InPlace, Prepared, Room, is_half_overwritten};

use crate::support::{Background, PYTHON, Place, assert_same, have, noise, scrim, wait_until};
use crate::volume::{Case, Image, LUKS2, PASSPHRASE, PAYLOAD, USUAL};

const COST: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
/// Bytes of an image that takes long enough to be killed.
const LONG: usize = 64 << 20;
/// Bytes at the end of a device that it gives up for the header.
const SPARE: usize = 33 << 20;

fn with_raw(bytes: &[u8]) -> Place {
    let place = Place::new();
    place.write("key", PASSPHRASE);
    place.write("disk.img", bytes);
    place
}

fn encrypt(place: &Place, options: &str) -> Output {
    let line = format!("encrypt --in-place disk.img -q -d key {options}");
    place.run_with_input(scrim(), line.split_whitespace(), b"")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn check(case: Case, seed: u64) {
    let bytes = noise(PAYLOAD, seed);
    let place = with_raw(&bytes);
    let done = encrypt(&place, &case.options());
    assert!(done.status.success(), "{case:?}: {}", said(&done));
    let size = fs::metadata(place.path("disk.img")).unwrap().len();
    assert_eq!(size, (case.default_offset() + PAYLOAD) as u64, "{case:?}");
    let image = Image { place, case };
    assert_same(
        &image.decrypt_independently(),
        &bytes,
        &format!("{case:?}, independently"),
    );
    assert!(image.cryptsetup_accepts("key"));
    assert_same(&image.read(), &bytes, &format!("{case:?}"));
}

#[test]
fn what_was_encrypted_in_place_is_what_an_independent_xts_decrypts() {
    if !have(&["cryptsetup", "nbdcopy", PYTHON]) {
        return;
    }
    let attached = LUKS2.into_iter().filter(|case| !case.detached);
    for (seed, case) in (1..).zip(attached) {
        check(case, seed);
    }
}

/// A file whose length is no whole sector is filled up with zeros.
#[test]
fn a_length_that_is_no_whole_sector_is_filled_up() {
    let bytes = noise(5_000_001, 4);
    let place = with_raw(&bytes);
    assert!(encrypt(&place, COST).status.success());
    place.scrim("export disk.img back.raw -d key".split(' '));
    let back = fs::read(place.path("back.raw")).unwrap();
    let (data, rest) = back.split_at(bytes.len());
    assert_same(data, &bytes, "the data");
    assert!(rest.len() < 4096 && rest.iter().all(|byte| *byte == 0));
}

/// A command that is refused has been checked before anything is written, each time.
#[test]
fn what_is_refused_changes_nothing() {
    let bytes = noise(100_000, 6);
    let place = with_raw(&bytes);
    for (options, code) in [
        ("--offset 32769", 1),
        ("--offset 9", 1),
        ("--offset 8", 1),
        ("--offset 36028797018963967", 1),
        ("--offset 4503599627370496", 4),
        ("--sector-size 1000", 1),
        ("--key-slot 32", 1),
        ("--uuid none", 1),
        (
            "--label 0123456789012345678901234567890123456789012345678",
            1,
        ),
        ("--key-size 100", 1),
    ] {
        for _ in 0..2 {
            let refused = encrypt(&place, &format!("{COST} {options}"));
            assert!(!refused.status.success(), "{options}");
            assert_eq!(
                refused.status.code(),
                Some(code),
                "{options}: {}",
                said(&refused)
            );
            let now = fs::read(place.path("disk.img")).unwrap();
            assert_same(&now, &bytes, options);
        }
    }
}

/// Offset of the data in a volume unless asked otherwise, in bytes.
const SHIFT: u64 = 16 << 20;

/// Makes a file longer as the command does, and nothing else.
fn grow(place: &Place) {
    let image = FileBackend::open(&place.path("disk.img"), Access::ReadWrite).unwrap();
    let session = HeaderSession::start(&image).unwrap();
    let room = Room::in_file(image.info().size, SHIFT, 512).unwrap();
    let (at, end) = room.end(&session).unwrap();
    image.grow(at, &end).unwrap();
}

/// Cuts the power in the midst of the first writes to the start of an image; returns what that leaves.
fn half_overwritten(bytes: &[u8]) -> Vec<u8> {
    let room = Room::in_file(bytes.len() as u64, SHIFT, 512).unwrap();
    let small = SimBackend::holding(bytes, 1);
    let (at, end) = room.end(&HeaderSession::start(&small).unwrap()).unwrap();
    let mut grown = bytes.to_vec();
    grown.resize(usize::try_from(at).unwrap(), 0);
    grown.extend(end);
    let spec = FormatSpec {
        cipher: "aes-xts-plain64".parse().unwrap(),
        sector_size: SectorSize::S512,
        digest_hash: Hash::Sha256,
        digest_iterations: 1000,
        keyslot: NewKeyslot {
            slot: None,
            kdf: Kdf::Pbkdf2 {
                hash: Hash::Sha256,
                iterations: 1000,
            },
            af_hash: Hash::Sha256,
            cipher: None,
        },
        uuid: None,
        label: String::new(),
        subsystem: String::new(),
        flags: Vec::new(),
        layout: Layout {
            placement: Placement::Attached,
            device_len: grown.len() as u64,
            grows: false,
            data_offset: Some(SHIFT),
        },
        metadata_size: None,
        keyslots_size: None,
    };
    let passphrase = SecretBytes::copied_from(b"first");
    let survivor = (1..).find_map(|cut| {
        let disk = Arc::new(SimBackend::holding(&grown, cut));
        disk.arm(Faults {
            cut_at: Some(cut),
            ..Faults::default()
        });
        let key = VolumeKey::new(SecretBytes::copied_from(&[5; 64]));
        let prepared = Prepared::new(room, &spec, key, &passphrase).unwrap();
        let session = HeaderSession::start(&*disk).unwrap();
        let begun = InPlace::begin(Arc::clone(&disk) as _, &session, prepared);
        assert!(begun.is_err(), "never half written");
        let survivor = disk.after_cut(cut);
        is_half_overwritten(&survivor).unwrap().then_some(survivor)
    });
    survivor.unwrap().contents()
}

/// The command waits for a lock that others share and do not give up.
#[test]
fn a_command_that_waits_has_changed_nothing() {
    if !have(&["flock"]) {
        return;
    }
    let bytes = noise(2 << 20, 8);
    let place = with_raw(&bytes);
    let mut sharing = place
        .command("flock")
        .args(["--shared", "disk.img", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It has the lock as soon as what it runs answers.
    let (mut to, mut from) = (
        sharing.stdin.take().unwrap(),
        sharing.stdout.take().unwrap(),
    );
    to.write_all(b"!").unwrap();
    from.read_exact(&mut [0]).unwrap();
    let refused = encrypt(&place, COST);
    drop(to);
    sharing.wait().unwrap();
    assert!(!refused.status.success());
    assert_same(
        &fs::read(place.path("disk.img")).unwrap(),
        &bytes,
        &said(&refused),
    );
    assert!(encrypt(&place, COST).status.success());
}

/// The command is killed when only the file's length has changed, and then the image is used.
#[test]
fn what_is_written_to_a_file_that_only_grew_is_kept() {
    // As ext4 has: nothing in the first sectors.
    let mut bytes = noise(2 << 20, 7);
    bytes[..1024].fill(0);
    let place = with_raw(&bytes);
    grow(&place);
    assert!(fs::metadata(place.path("disk.img")).unwrap().len() > bytes.len() as u64);

    let image = fs::File::options().write(true).open(place.path("disk.img"));
    image.unwrap().write_all_at(b"newer", 5000).unwrap();
    bytes[5000..5005].copy_from_slice(b"newer");
    let used = fs::read(place.path("disk.img")).unwrap();
    for _ in 0..2 {
        let refused = encrypt(&place, COST);
        assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
        assert!(
            said(&refused).contains("truncate -s 2097152 disk.img"),
            "{}",
            said(&refused)
        );
        assert_same(
            &fs::read(place.path("disk.img")).unwrap(),
            &used,
            "as it was used",
        );
    }
    let image = fs::File::options().write(true).open(place.path("disk.img"));
    image.unwrap().set_len(2 << 20).unwrap();
    assert!(encrypt(&place, COST).status.success());
    place.scrim("export disk.img back.raw -d key".split(' '));
    assert_same(
        &fs::read(place.path("back.raw")).unwrap(),
        &bytes,
        "the data",
    );
}

/// Its record lies no longer at its end when it has been made longer, and it is no data either way.
#[test]
fn a_half_written_start_is_known_whatever_the_length() {
    let bytes = noise(2 << 20, 10);
    let place = with_raw(&half_overwritten(&bytes));
    let image = || fs::read(place.path("disk.img")).unwrap();
    let set_len = |len| {
        let image = fs::File::options().write(true).open(place.path("disk.img"));
        image.unwrap().set_len(len).unwrap();
    };
    let size = image().len() as u64;
    set_len(size + (10 << 20));
    let before = image();
    let line = format!("import disk.img other.img -q -d key {COST}");
    let import = || place.run_with_input(scrim(), line.split_whitespace(), b"");
    for (refused, advice) in [
        (import(), "scrim encrypt --in-place".to_owned()),
        (
            place.run_with_input(scrim(), "open disk.img half -d key".split(' '), b""),
            "restores the data".to_owned(),
        ),
        (
            encrypt(&place, COST),
            format!("truncate -s {size} disk.img"),
        ),
    ] {
        assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
        assert!(said(&refused).contains(&advice), "{}", said(&refused));
        assert_same(&image(), &before, &advice);
    }
    set_len(size);
    assert!(!import().status.success());
    let done = encrypt(&place, COST);
    assert!(done.status.success(), "{}", said(&done));
    place.scrim("export disk.img back.raw -d key".split(' '));
    let back = fs::read(place.path("back.raw")).unwrap();
    assert_same(&back, &bytes, "the data");
}

/// A file may be treated like a block device, whose length stays.
#[test]
fn a_device_gives_up_its_end() {
    let mut bytes = noise(PAYLOAD, 5);
    let data = bytes.len();
    bytes.resize(data + (33 << 20), 0x55);
    let place = with_raw(&bytes);
    let few = encrypt(&place, &format!("{COST} --reduce-device-size 32M"));
    assert_eq!(few.status.code(), Some(1));
    assert!(
        said(&few).contains("33558528 bytes at least"),
        "{}",
        said(&few)
    );
    let done = encrypt(&place, &format!("{COST} --reduce-device-size 33M"));
    assert!(done.status.success(), "{}", said(&done));
    let size = fs::metadata(place.path("disk.img")).unwrap().len();
    assert_eq!(size, bytes.len() as u64);
    place.scrim("export disk.img back.raw -d key".split(' '));
    let back = fs::read(place.path("back.raw")).unwrap();
    assert_same(&back[..data], &bytes[..data], "the data");
}

/// Checks whether the header says that the encryption is not finished.
fn says_underway(place: &Place) -> bool {
    let dump = ["luksDump", "disk.img"];
    let dump = place.command("cryptsetup").args(dump).output().unwrap();
    String::from_utf8_lossy(&dump.stdout).contains("scrim-encrypt-in-place")
}

/// Checks whether it is a volume, finished or not.
fn is_luks(place: &Place) -> bool {
    let mut command = place.command("cryptsetup");
    let status = command.args(["isLuks", "disk.img"]).status();
    status.unwrap().success()
}

/// Checks whether the header says that; if so, checks that no program can use the volume.
fn is_underway(place: &Place) -> bool {
    let underway = says_underway(place);
    if underway {
        let add = ["luksAddKey", "-d", "key", "disk.img", "key"];
        let cryptsetup = place.command("cryptsetup").args(add).output().unwrap();
        assert!(!cryptsetup.status.success(), "cryptsetup changes it");
        for command in [
            &["open", "disk.img", "half", "-d", "key"][..],
            &["add-key", "disk.img", "-d", "key", "key"],
            &["convert", "disk.img", "--type", "luks1", "-q"],
        ] {
            let output = place.run_with_input(scrim(), command, b"");
            assert!(!output.status.success(), "{command:?}");
            assert!(
                said(&output).contains("go on with scrim encrypt --in-place"),
                "{command:?}: {}",
                said(&output)
            );
        }
    }
    underway
}

fn begins_with_luks(place: &Place) -> bool {
    let mut start = [0; 6];
    let image = fs::File::open(place.path("disk.img")).unwrap();
    image.read_exact_at(&mut start, 0).unwrap();
    start == *b"LUKS\xba\xbe"
}

/// Encrypts `image`, which is `disk.img` or serves it; killed or asked to stop, again and again, until it has come to its
/// end. Returns how often the header was found half done.
fn kill_until_done(place: &Place, image: &str, seed: u64) -> usize {
    let mut half_done = 0;
    let line = format!("encrypt --in-place {image} -q -d key {COST}");
    for (turn, delay) in noise(64, seed).into_iter().enumerate() {
        let mut command = place.command(scrim());
        let said = fs::File::create(place.path("said")).unwrap();
        command.args(line.split(' ')).stderr(said);
        let mut child = command.spawn().unwrap();
        let turn_squared = (turn * turn) as u64;
        let delay = 10 + u64::from(delay) / 2 + 8 * turn as u64 + turn_squared / 4;
        match turn % 4 {
            // As soon as there is a header, which is in the midst of it.
            1 => wait_until("a header, or the end", || {
                begins_with_luks(place) || child.try_wait().unwrap().is_some()
            }),
            _ => std::thread::sleep(Duration::from_millis(delay)),
        }
        if child.try_wait().unwrap().is_none() {
            let signal = if turn % 3 == 2 { "INT" } else { "KILL" };
            let pid = child.id().to_string();
            let _ = Command::new("kill").args(["-s", signal, &pid]).status();
        }
        let status = child.wait().unwrap();
        if status.success() {
            return half_done;
        }
        let killed = status.signal().is_some() || status.code() == Some(130);
        let said = || fs::read_to_string(place.path("said")).unwrap();
        assert!(killed, "turn {turn}: {status}: {}", said());
        if is_underway(place) {
            half_done += 1;
        } else if is_luks(place) {
            // It was done, and could not say so any more.
            return half_done;
        }
    }
    panic!("never done");
}

#[test]
fn after_any_signal_the_same_command_goes_on() {
    if !have(&["kill", "cryptsetup"]) {
        return;
    }
    let mut half_done = 0;
    for seed in 1..=4 {
        let bytes = noise(LONG, seed);
        let place = with_raw(&bytes);
        half_done += kill_until_done(&place, "disk.img", seed);
        place.scrim("export disk.img back.raw -d key".split(' '));
        assert_same(
            &fs::read(place.path("back.raw")).unwrap(),
            &bytes,
            "the data",
        );
    }
    assert!(half_done > 0, "never killed in the midst");
}

/// A run that waits for its passphrase keeps the next one away, which would get none.
fn refuses_a_second_run(place: &Place, image: &str) {
    let line = format!("encrypt --in-place {image} -q --reduce-device-size 33M {COST}");
    let mut first = place.command(scrim());
    let first = first.args(line.split(' ')).stdin(Stdio::piped());
    let first = Background::start(first.stderr(Stdio::null()));
    wait_until("the first run has its lock", || {
        fs::read_dir(place.path("run/scrim")).is_ok_and(|mut files| files.next().is_some())
    });
    let mut said = String::new();
    wait_until("a second run is refused", || {
        let output = place.run_with_input(scrim(), line.split(' '), b"");
        said = self::said(&output);
        output.status.code() == Some(5)
    });
    assert!(said.contains("another run encrypts it"), "{said}");
    drop(first);
}

/// An export cannot be made longer, and several of its pieces are in flight.
#[test]
fn an_export_is_encrypted_whatever_kills_the_command() {
    if !have(&["kill", "cryptsetup", "qemu-nbd"]) {
        return;
    }
    let mut half_done = 0;
    for seed in 1..=2 {
        let bytes = noise(LONG, seed);
        let place = with_raw(&bytes);
        let file = OpenOptions::new().write(true).open(place.path("disk.img"));
        file.unwrap().set_len((LONG + SPARE) as u64).unwrap();
        // nbdkit 1.32 fails an assertion of its own when a client with several requests is killed.
        let mut server = place.command("qemu-nbd");
        server.args("--persistent --shared=0 --image-opts".split(' '));
        server.arg("driver=raw,file.driver=file,file.filename=disk.img,file.locking=off");
        server.arg("--socket").arg(place.path("nbd.sock"));
        let server = Background::start(&mut server);
        wait_until("it listens", || place.path("nbd.sock").exists());
        let socket = place.path("nbd.sock").display().to_string();
        let image = format!("nbd+unix:///?socket={socket}");
        refuses_a_second_run(&place, &image);
        let image_and_size = format!("{image} --reduce-device-size 33M");
        half_done += kill_until_done(&place, &image_and_size, seed);
        drop(server);
        place.run("cryptsetup", ["luksDump", "disk.img"]);
        place.scrim("export disk.img back.raw -d key".split(' '));
        let back = fs::read(place.path("back.raw")).unwrap();
        assert_same(&back[..LONG], &bytes, "the data");
    }
    assert!(half_done > 0, "never killed in the midst");
}

#[test]
fn only_the_passphrase_goes_on() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let bytes = noise(LONG, 9);
    let place = with_raw(&bytes);
    let line = format!("encrypt --in-place disk.img -q -d key {COST}");
    let mut child = place
        .command(scrim())
        .args(line.split(' '))
        .spawn()
        .unwrap();
    let whole = (16 << 20) + LONG as u64;
    wait_until("the header is there", || {
        says_underway(&place) || fs::metadata(place.path("disk.img")).unwrap().len() == whole
    });
    let _ = child.kill();
    let _ = child.wait();
    if !is_underway(&place) {
        println!("skipped: the encryption was done before it could be killed");
        return;
    }
    place.write("wrong", "not this one");
    let output = place.run_with_input(
        scrim(),
        ["encrypt", "--in-place", "disk.img", "-q", "-d", "wrong"],
        b"",
    );
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(encrypt(&place, "").status.success());
    let image = Image { place, case: USUAL };
    assert!(image.cryptsetup_accepts("key"));
}
