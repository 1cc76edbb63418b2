//! Raw images into volumes and back: judged by an independent implementation of the ciphers, by QEMU's
//! own LUKS driver and by hash; interrupted at any point and taken up again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PYTHON, Place, assert_same, have, noise, scrim, succeeded, wait_until};
use crate::volume::{Case, Image, LUKS1, LUKS2, PASSPHRASE, PAYLOAD, USUAL};

/// Options that make the key derivation of an import cheap.
const COST: &str = "--pbkdf-force-iterations 4 --pbkdf-memory 64 --pbkdf-parallel 1";
/// Bytes of an image that takes long enough to be interrupted.
const LONG: usize = 96 << 20;

fn scrim_in(place: &Place, line: &str) -> Output {
    place.run_with_input(scrim(), line.split_whitespace(), b"")
}

/// Demands a refusal; returns what was said.
#[track_caller]
fn refused(place: &Place, line: &str, code: i32) -> String {
    let output = scrim_in(place, line);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{line}: {said}");
    said
}

/// A place with noise in `disk.raw`, holes included, and a key.
fn with_raw(size: usize, seed: u64) -> (Place, Vec<u8>) {
    let place = Place::new();
    place.write("key", PASSPHRASE);
    let mut bytes = noise(size, seed);
    bytes[size / 4..size / 2].fill(0);
    place.write("disk.raw", &bytes);
    (place, bytes)
}

fn names(place: &Place) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(place.dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "run")
        .collect();
    names.sort();
    names
}

fn check_import(case: Case, seed: u64) {
    let (place, bytes) = with_raw(PAYLOAD, seed);
    let options = case.options();
    place.scrim(format!("import disk.raw disk.img --key-file key {options}").split_whitespace());
    assert_eq!(names(&place), ["disk.img", "disk.raw", "key"]);
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
fn what_is_imported_is_what_an_independent_xts_decrypts() {
    if !have(&["cryptsetup", "nbdcopy", PYTHON]) {
        return;
    }
    let attached = LUKS1.into_iter().chain(LUKS2).filter(|case| !case.detached);
    for (seed, case) in (1..).zip(attached) {
        check_import(case, seed);
    }
}

/// QEMU's own LUKS driver, which knows LUKS1.
#[test]
fn qemu_reads_what_is_imported() {
    if !have(&["qemu-img"]) {
        return;
    }
    let (place, bytes) = with_raw(PAYLOAD, 3);
    let options = LUKS1[1].options();
    place.scrim(format!("import disk.raw disk.img -d key {options}").split_whitespace());
    let secret = "secret,id=key,file=key";
    let image = "driver=luks,key-secret=key,file.filename=disk.img";
    let convert = ["convert", "--object", secret, "--image-opts", image];
    place.run(
        "qemu-img",
        convert.into_iter().chain(["-O", "raw", "back.raw"]),
    );
    assert_same(
        &fs::read(place.path("back.raw")).unwrap(),
        &bytes,
        "as QEMU reads it",
    );
}

#[test]
fn what_cryptsetup_formatted_and_others_filled_is_exported() {
    if !have(&["cryptsetup", PYTHON]) {
        return;
    }
    for (seed, case) in (1..).zip(LUKS1.into_iter().chain(LUKS2)) {
        let image = Image::made_by_cryptsetup(case);
        let mut bytes = noise(PAYLOAD, seed);
        bytes[PAYLOAD / 2..].fill(0);
        image.encrypt_independently(&bytes);
        let header = if case.detached {
            " --header head.img"
        } else {
            ""
        };
        let line = format!("export disk.img back.raw --key-file key{header}");
        image.place.scrim(line.split_whitespace());
        let back = image.place.path("back.raw");
        assert_same(&fs::read(&back).unwrap(), &bytes, &format!("{case:?}"));
        let found = fs::metadata(&back).unwrap();
        assert!(found.blocks() * 512 < PAYLOAD as u64, "zeros are holes");
        assert_eq!(found.mode() & 0o777, 0o600);
    }
}

#[test]
fn sizes_that_are_no_whole_sectors_are_filled_up() {
    let place = Place::new();
    place.write("key", PASSPHRASE);
    for (size, option, whole) in [
        (1, "", 512),
        (4608, "", 4608),
        (4608, "--sector-size 4096", 8192),
    ] {
        let mut bytes = noise(size, 1);
        place.write("disk.raw", &bytes);
        let line = format!("import disk.raw disk.img -q -d key {COST} {option}");
        place.scrim(line.split_whitespace());
        place.scrim("export disk.img back.raw -q -d key".split(' '));
        bytes.resize(whole, 0);
        assert_same(&fs::read(place.path("back.raw")).unwrap(), &bytes, option);
    }
}

/// Existing data: what makes it in `disk.raw`, of how many MiB, and the encryption sector that it fits.
const EXISTING: [(&str, &str, u64, usize); 7] = [
    ("mkfs.ext4", "-q -F -b 1024 disk.raw", 20, 512),
    ("mkfs.ext4", "-q -F -b 4096 disk.raw", 20, 4096),
    ("mkfs.xfs", "-q -f disk.raw", 301, 512),
    ("mkfs.btrfs", "-q disk.raw", 120, 4096),
    ("mkfs.vfat", "disk.raw", 20, 512),
    ("mkswap", "disk.raw", 20, 4096),
    ("sfdisk", "-q -X gpt disk.raw", 20, 512),
];

fn sector_of(place: &Place, image: &str) -> usize {
    let said = scrim_in(place, &format!("dump {image}"));
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut lines = text.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix("sector:")?;
        rest.split_whitespace().next()?.parse().ok()
    });
    lines.next().unwrap()
}

#[test]
fn existing_data_gets_sectors_that_its_own_writes_fit() {
    let makers = EXISTING.map(|(program, ..)| program);
    if !have(&makers) {
        return;
    }
    for (program, args, mib, sector) in EXISTING {
        let place = Place::new();
        place.write("key", PASSPHRASE);
        place.sparse("disk.raw", mib << 20);
        let made = place.run_with_input(program, args.split(' '), b",10M\n");
        succeeded(program, &made);
        for (image, command) in [
            ("disk.img", "import disk.raw disk.img --no-verify"),
            ("disk.raw", "encrypt --in-place disk.raw"),
        ] {
            let line = format!("{command} -q -d key {COST}");
            let output = scrim_in(&place, &line);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} {args}: {said}");
            assert!(!said.contains("warning"), "{said}");
            assert_eq!(
                sector_of(&place, image),
                sector,
                "{program} {args}: {image}"
            );
        }
    }
}

/// The sector size that was asked for is used, with a warning if it does not fit the file system.
#[test]
fn a_sector_size_that_does_not_fit_is_warned_of() {
    if !have(&["mkfs.ext4"]) {
        return;
    }
    let place = Place::new();
    place.write("key", PASSPHRASE);
    place.sparse("disk.raw", 20 << 20);
    for (blocks, asked, warned) in [(1024, 4096, true), (1024, 512, false), (4096, 4096, false)] {
        let make = format!("-q -F -b {blocks} disk.raw");
        place.run("mkfs.ext4", make.split(' '));
        let line = format!("import disk.raw disk.img -q -d key {COST} --sector-size {asked}");
        let output = scrim_in(&place, &line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(sector_of(&place, "disk.img"), asked);
        assert_eq!(said.contains("blocks of 1024 bytes"), warned, "{said}");
    }
}

/// Files of an unfinished import stay until everything else that the next one needs has been checked.
#[test]
fn what_an_earlier_import_left_stays_where_a_later_one_is_refused() {
    let (place, _) = with_raw(PAYLOAD, 11);
    place.write("disk.img.partial", "half");
    place.write("disk.img.partial.state", "{}");
    let said = refused(&place, "import disk.raw disk.img -q -d no-such-key", 1);
    assert!(said.contains("no-such-key"), "{said}");
    refused(&place, "import disk.raw disk.img -q -d key --offset 9", 1);
    assert_eq!(fs::read(place.path("disk.img.partial")).unwrap(), b"half");
    let line = format!("import disk.raw disk.img -q -d key {COST}");
    place.scrim(line.split_whitespace());
    assert_eq!(names(&place), ["disk.img", "disk.raw", "key"]);
}

fn start(place: &Place, line: &str) -> Child {
    let mut command: Command = place.command(scrim());
    command.args(line.split_whitespace());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Interrupts a transfer again and again until it has come to its end by itself; returns how often.
fn resume_until_done(place: &Place, begin: &str, again: &str, target: &str, seed: u64) -> usize {
    let delays = noise(64, seed);
    for (turn, delay) in delays.into_iter().enumerate() {
        let state = fs::read_to_string(place.path(&format!("{target}.partial.state")));
        let begun = state.is_ok_and(|state| !state.contains("\"position\":0"));
        let resume = format!("{again} --resume -d key");
        let mut child = start(place, if begun { &resume } else { begin });
        let record = place.path(&format!("{target}.partial.state"));
        if turn == 0 {
            wait_until("it has begun", || {
                record.exists() || child.try_wait().unwrap().is_some()
            });
        } else {
            // Later ones are longer by far, so that a busy disk lets it come to its end.
            let more = (10 * turn as u64) << (turn / 16);
            std::thread::sleep(Duration::from_millis(10 + u64::from(delay) / 3 + more));
        }
        let signal = if turn % 2 == 0 {
            Signal::KILL
        } else {
            Signal::INT
        };
        if child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_child(&child), signal).unwrap();
        }
        let status = child.wait().unwrap();
        // A signal that comes after the target has its name leaves a record that --resume confirms, or nothing to do.
        let ended = place.path(target).exists() && !record.exists();
        assert!(ended || !status.success(), "a target is whole: {status}");
        if ended {
            return turn;
        }
        let by_signal = status.signal() == Some(9) || matches!(status.code(), Some(130));
        let too_early = status.signal() == Some(2);
        assert!(by_signal || too_early, "{status}");
        let partial = place.path(&format!("{target}.partial"));
        if partial.exists() && !record.exists() {
            fs::remove_file(partial).unwrap();
        }
    }
    panic!("never done");
}

#[test]
fn an_import_and_an_export_go_on_after_signals() {
    let (place, bytes) = with_raw(LONG, 5);
    let begin = format!("import disk.raw disk.img -d key {COST}");
    let mut times = 0;
    for seed in 1..=3 {
        let _ = fs::remove_file(place.path("disk.img"));
        let _ = fs::remove_file(place.path("back.raw"));
        times += resume_until_done(&place, &begin, "import disk.raw disk.img", "disk.img", seed);
        let export = "export disk.img back.raw";
        times += resume_until_done(
            &place,
            &format!("{export} -d key"),
            export,
            "back.raw",
            seed,
        );
        assert_same(
            &fs::read(place.path("back.raw")).unwrap(),
            &bytes,
            "in and out",
        );
        let left = ["back.raw", "disk.img", "disk.raw", "key"];
        assert_eq!(names(&place), left);
    }
    assert!(times > 0, "never interrupted");
}

/// An import that fails leaves the source as it is, and no target.
#[test]
fn a_source_that_changes_is_noticed() {
    let (place, mut bytes) = with_raw(LONG, 6);
    let mut child = start(&place, &format!("import disk.raw disk.img -d key {COST}"));
    wait_until("the import has begun", || {
        place.path("disk.img.partial.state").exists() || child.try_wait().unwrap().is_some()
    });
    bytes[LONG - 1] ^= 1;
    place.write("disk.raw", &bytes);
    let status = child.wait().unwrap();
    if status.success() {
        println!("skipped: the import was done before its source could be changed");
        return;
    }
    assert_eq!(status.code(), Some(4));
    assert!(!place.path("disk.img").exists());
    let said = refused(&place, "import disk.raw disk.img --resume -d key", 4);
    assert!(said.contains("changed"), "{said}");
    place.scrim(format!("import disk.raw disk.img -q -d key {COST}").split_whitespace());
    place.scrim("export disk.img back.raw -d key".split(' '));
    assert_same(
        &fs::read(place.path("back.raw")).unwrap(),
        &bytes,
        "begun again",
    );
}

/// Data that went bad on the disk after encryption is found before the image gets its name.
#[test]
fn what_is_not_on_the_disk_as_it_was_written_is_found() {
    if !have(&["touch"]) {
        return;
    }
    let (place, _) = with_raw(PAYLOAD, 7);
    place.run("touch", ["-d", "@1", "disk.raw"]);
    place.scrim(format!("import disk.raw disk.img -d key {COST}").split_whitespace());
    let uuid = place.scrim(["luksUUID", "disk.img"]);
    let mut bytes = fs::read(place.path("disk.img")).unwrap();
    fs::remove_file(place.path("disk.img")).unwrap();
    bytes[USUAL.default_offset() + 4096] ^= 1;
    place.write("disk.img.partial", bytes);
    let state = format!(
        r#"{{"version":1,"kind":"import","source":{{"size":{PAYLOAD},"modified":[1,0]}},"uuid":"{}","position":{PAYLOAD},"whole":false}}"#,
        uuid.trim()
    );
    place.write("disk.img.partial.state", state);
    let said = refused(&place, "import disk.raw disk.img --resume -d key", 4);
    assert!(said.contains("from byte 4096"), "{said}");
    assert!(!place.path("disk.img").exists());
}

/// In a folder where others may write, they can put a link, or a file with two names, at the paths at which
/// a transfer keeps its unfinished image and its progress.
#[test]
fn planted_files_are_neither_written_nor_believed() {
    let (place, _) = with_raw(PAYLOAD, 8);
    place.scrim(format!("import disk.raw volume.img -d key {COST}").split_whitespace());
    let import = format!("import disk.raw new -d key {COST}");
    let commands = [import.as_str(), "export volume.img new -d key"];
    for command in commands {
        for name in ["new.partial", "new.partial.state", "new.partial.state.new"] {
            for hard in [false, true] {
                let victim = place.write("victim", "precious");
                let planted = place.path(name);
                match hard {
                    false => std::os::unix::fs::symlink(&victim, &planted).unwrap(),
                    true => fs::hard_link(&victim, &planted).unwrap(),
                }
                let resume = command.replace(COST, "") + " --resume";
                for line in [command.to_owned(), resume] {
                    let output = scrim_in(&place, &line);
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert_eq!(fs::read(&victim).unwrap(), b"precious", "{line}, {name}");
                    // A new record takes the place of a link, and of one of two names.
                    if output.status.success() {
                        assert_eq!((name, &line[..]), ("new.partial.state", command), "{said}");
                        fs::remove_file(place.path("new")).unwrap();
                        break;
                    }
                    let named = said.contains("remove") || said.contains("start without --resume");
                    assert!(named, "{line}, {name}: {said}");
                    assert!(!place.path("new").exists(), "{line}, {name}");
                }
                let _ = fs::remove_file(planted);
                for left in ["new.partial", "new.partial.state"] {
                    let _ = fs::remove_file(place.path(left));
                }
                fs::remove_file(victim).unwrap();
            }
        }
    }
}

/// A pipe is refused: opening it would wait until somebody opens its other end.
#[test]
fn a_pipe_in_the_place_of_a_record_is_refused_at_once() {
    if !have(&["mkfifo", "timeout"]) {
        return;
    }
    let (place, _) = with_raw(PAYLOAD, 9);
    place.run("mkfifo", ["new.partial", "new.partial.state"]);
    for line in [
        "import disk.raw new --resume -d key".to_owned(),
        format!("import disk.raw new -q -d key {COST}"),
    ] {
        let mut words = vec!["60", scrim()];
        words.extend(line.split_whitespace());
        let output = place.run_with_input("timeout", words, b"");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{line}: {said}");
        assert!(said.contains("not a regular file"), "{line}: {said}");
    }
}

/// No command writes through a link that is there already.
#[test]
fn no_command_writes_through_a_link() {
    let (place, _) = with_raw(PAYLOAD, 10);
    place.scrim(format!("import disk.raw volume.img -d key {COST}").split_whitespace());
    let token = "token add volume.img --key-description x --token-id 0";
    place.scrim(token.split(' '));
    place.scrim("header-backup volume.img --header-backup-file backup".split(' '));
    place.scrim("config volume.img --label new".split(' '));
    place.write("victim", "precious");
    let none = place.path("none");
    for target in [place.path("victim"), none.clone()] {
        let link = place.path("link");
        std::os::unix::fs::symlink(target, &link).unwrap();
        for line in [
            "header-backup volume.img --header-backup-file link".to_owned(),
            "header-restore -q volume.img --header-backup-file backup --replaced-file link"
                .to_owned(),
            "token export volume.img --token-id 0 --json-file link".to_owned(),
            "bench paths --html link".to_owned(),
            "bench fileserver --quick --html link".to_owned(),
            "bench fileserver --quick --state link".to_owned(),
            format!("import disk.raw link -d key {COST}"),
            "export volume.img link -d key".to_owned(),
        ] {
            let output = scrim_in(&place, &line);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{line}: {said}");
            assert_eq!(
                fs::read(place.path("victim")).unwrap(),
                b"precious",
                "{line}"
            );
            assert!(!none.exists(), "{line}");
        }
        fs::remove_file(link).unwrap();
    }
}
