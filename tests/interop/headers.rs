//! Headers saved, restored, repaired, labelled and converted: by Scrim for `cryptsetup`, and the other
//! way round.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};

use crate::support::{assert_same, have};
use crate::volume::{CHEAP, Case, Image, LUKS1, LUKS2, USUAL};

const UUID: &str = "8c2f9ba1-5a0f-4c1e-9d52-3a6f0e7b1c44";

impl Image {
    fn write_at(&self, bytes: &[u8], offset: u64) {
        let file = self.place.path(self.header());
        let file = fs::File::options().write(true).open(file).unwrap();
        file.write_all_at(bytes, offset).unwrap();
    }

    fn uuid(&self) -> String {
        self.place
            .scrim(["luksUUID", self.header()])
            .trim()
            .to_owned()
    }
}

const SMALL: Case = Case {
    pbkdf: "pbkdf2",
    sector: 512,
    ..USUAL
};

#[test]
fn backups_are_cryptsetup_s_and_each_restores_the_other_s() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    for case in [LUKS1[0], LUKS1[3], LUKS2[1], USUAL] {
        let image = Image::made_by_scrim(case);
        let (place, header) = (&image.place, image.header());
        let payload = image.fill_with_noise(1);
        image.must(&format!("header-backup {header} --header-backup-file ours"));
        place.cryptsetup(&format!(
            "luksHeaderBackup {header} --header-backup-file theirs"
        ));
        let read = |name: &str| fs::read(place.path(name)).unwrap();
        // What follows the last key slot up to the next block is in neither.
        let (ours, theirs) = (read("ours"), read("theirs"));
        assert_eq!(ours.len(), theirs.len());
        let end = ours.len() - 4096;
        assert_same(&ours[..end], &theirs[..end], "the backup");
        let mode = fs::metadata(place.path("ours"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);

        image.must(&format!("change-key {CHEAP} -d key {header} other"));
        let said = image.must(&format!(
            "header-restore -q {header} --header-backup-file theirs"
        ));
        assert!(said.contains("becomes valid again"), "{said}");
        assert!(image.both_accept("key") && !image.both_accept("other"));
        let kept = format!("theirs.replaced-{}", image.uuid());
        assert!(said.contains(&kept), "{said}");
        // What was kept is a backup too.
        image.must(&format!(
            "header-restore -q {header} --header-backup-file {kept}"
        ));
        assert!(!image.both_accept("key") && image.both_accept("other"));
        place.cryptsetup(&format!(
            "luksHeaderRestore {header} --header-backup-file ours"
        ));
        assert!(image.both_accept("key") && !image.both_accept("other"));
        assert_same(&image.read(), &payload, "the payload");
    }
}

#[test]
fn a_header_is_restored_over_ruins_of_which_a_copy_is_kept() {
    if !have(&["cryptsetup", "mkfs.ext4"]) {
        return;
    }
    for case in [LUKS1[1], USUAL] {
        let image = Image::made_by_scrim(case);
        let place = &image.place;
        image.must("header-backup disk.img --header-backup-file backup");
        place.run("mkfs.ext4", ["-q", "-F", "disk.img"]);
        let zeros = vec![0; 256 << 10];
        image.write_at(&zeros[..1 << 10], 0);
        image.write_at(&zeros, 1 << 14);
        let said = image.fails("repair disk.img", 1);
        assert!(said.contains("an ext2, ext3 or ext4 file system"), "{said}");
        assert!(said.contains("no trace of a LUKS header"), "{said}");
        assert!(said.contains("`scrim header-restore`"), "{said}");
        let ruins = image.header_bytes();
        let refused = image.fails("header-restore disk.img --header-backup-file backup", 5);
        assert!(
            refused.contains("what lies at its start is overwritten"),
            "{refused}"
        );
        assert_same(&image.header_bytes(), &ruins, "refused");
        image.must("header-restore -q disk.img --header-backup-file backup --replaced-file ruins");
        assert!(image.both_accept("key"));
        let kept = fs::read(place.path("ruins")).unwrap();
        assert_same(&kept, &ruins[..kept.len()], "what was overwritten");
    }
}

#[test]
fn a_blank_device_takes_a_header_unasked() {
    let image = Image::made_by_scrim(SMALL);
    let place = &image.place;
    image.must("header-backup disk.img --header-backup-file backup");
    place.sparse("disk.img", 18 << 20);
    let said = image.must("header-restore disk.img --header-backup-file backup");
    assert!(!said.contains("is kept in"), "nothing was there: {said}");
    assert!(image.scrim_accepts("key"));
    // The file of a detached header, by its own name.
    let image = Image::made_by_scrim(LUKS2[4]);
    image.must("header-backup disk.img --header head.img --header-backup-file backup");
    image.must(&format!("add-key {CHEAP} -d key head.img other"));
    let restore = "header-restore -q --header-backup-file backup";
    image.must(&format!("{restore} head.img"));
    assert!(image.scrim_accepts("key") && !image.scrim_accepts("other"));
    image.must(&format!(
        "add-key {CHEAP} -d key disk.img --header head.img other"
    ));
    image.must(&format!("{restore} disk.img --header head.img"));
    assert!(image.scrim_accepts("key") && !image.scrim_accepts("other"));
}

#[test]
fn a_restore_that_cannot_be_is_refused_by_name() {
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    image.must("header-backup disk.img --header-backup-file backup");
    let whole = fs::read(place.path("backup")).unwrap();
    place.write("cut", &whole[..whole.len() - 4096]);
    place.write("zeros", vec![0; 1 << 20]);
    place.scrim(format!("format {CHEAP} --offset 8192 --size 6M -d key elsewhere.img").split(' '));
    place.scrim("header-backup elsewhere.img --header-backup-file of-elsewhere".split(' '));
    place.sparse("blank", 1 << 20);
    let before = image.header_bytes();
    for (line, code, said) in [
        (
            "disk.img --header-backup-file missing",
            1,
            "cannot open header backup missing",
        ),
        ("disk.img --header-backup-file cut", 1, "16777216 bytes"),
        ("disk.img --header-backup-file zeros", 1, "no header backup"),
        (
            "disk.img --header-backup-file of-elsewhere",
            1,
            "not the backup of this volume",
        ),
        ("blank --header-backup-file backup", 1, "not the device"),
        ("missing.img --header-backup-file backup", 4, "missing.img"),
        (
            "disk.img -q --header-backup-file backup --replaced-file key",
            5,
            "--replaced-file",
        ),
    ] {
        if line.contains("--replaced-file") {
            image.must(&format!("add-key {CHEAP} -d key disk.img other"));
        }
        let now = image.header_bytes();
        let shown = image.fails(&format!("header-restore {line}"), code);
        assert!(shown.contains(said), "{line}: {shown}");
        assert_same(&image.header_bytes(), &now, line);
    }
    assert_ne!(image.header_bytes(), before);
    let nowhere = "header-backup disk.img --header-backup-file none/backup";
    assert!(image.fails(nowhere, 1).contains("none/backup"));
}

#[test]
fn one_copy_is_repaired_from_the_other() {
    if !have(&["cryptsetup"]) {
        return;
    }
    for copy in [0, 0x4000] {
        let image = Image::made_by_scrim(SMALL);
        let sound = image.header_bytes();
        image.write_at(b"damage", copy + 0x1100);
        let said = image.must("repair disk.img");
        assert!(said.contains("fails its checksum"), "{said}");
        assert!(said.contains("the header is repaired"), "{said}");
        // All but the salt and the checksum of the copy.
        for json in [0x1000..0x4000, 0x5000..0x8000] {
            assert_same(
                &image.header_bytes()[json.clone()],
                &sound[json],
                "as it was",
            );
        }
        assert!(image.both_accept("key"));
        assert!(image.must("repair disk.img").contains("nothing to repair"));
    }
    // A partition table over the primary may be in use: no command overwrites it without consent.
    let image = Image::made_by_scrim(SMALL);
    let mut sector = [0; 512];
    sector[510..].copy_from_slice(b"\x55\xaa");
    image.write_at(&sector, 0);
    let ruins = image.header_bytes();
    let said = image.fails("repair disk.img", 5);
    assert!(
        said.contains("an MBR partition table or a boot sector"),
        "{said}"
    );
    let refused = image.fails(&format!("add-key {CHEAP} -d key disk.img other"), 1);
    assert!(refused.contains("use `scrim repair`"), "{refused}");
    assert_same(&image.header_bytes(), &ruins, "nothing was written");
    image.must("repair -q disk.img");
    assert!(image.both_accept("key"));
}

#[test]
fn a_luks1_header_is_repaired_as_cryptsetup_does_it() {
    if !have(&["cryptsetup"]) {
        return;
    }
    // The marker of slot 3, its stripes, its offset.
    for (offset, bytes) in [
        (208 + 3 * 48, b"\0\0\0\x01"),
        (208 + 3 * 48 + 44, b"\0\0\0\x02"),
    ] {
        let image = Image::made_by_scrim(LUKS1[1]);
        let sound = image.header_bytes();
        image.write_at(bytes, offset);
        image.fails("test-passphrase -d key disk.img", 1);
        assert!(image.fails("repair disk.img", 5).contains("key slot 3"));
        image.must("repair -q disk.img");
        assert_same(&image.header_bytes()[..1024], &sound[..1024], "as it was");
        assert!(image.both_accept("key"));
    }
}

#[test]
fn labels_flags_priorities_and_uuids_are_what_cryptsetup_shows() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let image = Image::made_by_scrim(SMALL);
    image.must("config disk.img --label a-label --subsystem tests");
    image.must("config disk.img --priority prefer -S 0");
    image.must("config disk.img --persistent-flags allow-discards,no-read-workqueue");
    image.must(&format!("luksUUID disk.img --uuid {UUID}"));
    let dump = image.dump();
    for expected in [
        "Label: a-label Subsystem: tests",
        "Flags: allow-discards no-read-workqueue",
        "Priority: preferred",
        UUID,
    ] {
        assert!(dump.contains(expected), "{expected}: {dump}");
    }
    // Each alone; the others stay.
    image.must("config disk.img --label other");
    assert!(
        image.dump().contains("Label: other Subsystem: tests"),
        "{}",
        image.dump()
    );
    image.must("config disk.img --persistent-flags none --subsystem=");
    let dump = image.dump();
    assert!(
        dump.contains("Subsystem: (no subsystem) Flags: (no flags)"),
        "{dump}"
    );
    assert!(image.both_accept("key"));
    for (line, said) in [
        ("config disk.img", "required"),
        ("config disk.img --priority prefer", "--key-slot"),
        (
            "config disk.img --priority prefer -S 4",
            "key slot 4 is not in use",
        ),
        (
            "config disk.img --persistent-flags fast",
            "fast is not a flag",
        ),
        ("luksUUID disk.img --uuid x", "is no UUID"),
    ] {
        assert!(image.fails(line, 1).contains(said), "{line}");
    }
    let label = format!("config disk.img --label {}", "x".repeat(48));
    assert!(image.fails(&label, 1).contains("at most 47 bytes"));
}

#[test]
fn open_makes_its_flags_persistent() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let image = Image::made_by_scrim(SMALL);
    let flags = [
        "--persistent",
        "--allow-discards",
        "--perf-no_write_workqueue",
    ];
    image.open_with("key", "secret", &flags);
    image.place.close("secret");
    let dump = image.dump();
    assert!(
        dump.contains("Flags: allow-discards no-write-workqueue"),
        "{dump}"
    );
    image.open_with("key", "secret", &[]);
    let status = image.place.scrim(["status", "secret"]);
    assert!(status.contains("discards"), "{status}");
    image.place.close("secret");
    image.open_with("key", "secret", &["--persistent"]);
    image.place.close("secret");
    assert!(
        image.dump().contains("Flags: (no flags)"),
        "{}",
        image.dump()
    );
    let image = Image::made_by_scrim(LUKS1[1]);
    let said = image.fails(
        "open --persistent --allow-discards -d key disk.img secret",
        1,
    );
    assert!(said.contains("LUKS1 has no persistent flags"), "{said}");
}

/// If the volume cannot be served, its header is not changed either.
#[test]
fn flags_are_not_stored_where_the_address_is_in_use() {
    let image = Image::made_by_scrim(SMALL);
    let before = fs::read(image.place.path("disk.img")).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let line = format!(
        "open --persistent --allow-discards --insecure-plaintext --nbd {address} -d key disk.img secret"
    );
    image.fails(&line, 5);
    let now = fs::read(image.place.path("disk.img")).unwrap();
    assert_same(&now, &before, "the image");
}

#[test]
fn tokens_pass_between_the_programs_as_they_are() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let image = Image::made_by_scrim(SMALL);
    let place = &image.place;
    image.must("token add --key-description some:key disk.img");
    let dump = image.dump();
    assert!(
        dump.contains("0: luks2-keyring Key description: some:key Keyslot: 0"),
        "{dump}"
    );
    let own = r#"{"type":"of-mine","keyslots":[],"deep":{"a":[1,2.5,null,"ü"]}}"#;
    place.write("own.json", own);
    image.must("token import --token-id 7 --json-file own.json -S 0 disk.img");
    place.cryptsetup("token export --token-id 7 --json-file theirs disk.img");
    let ours = place.scrim(["token", "export", "--token-id", "7", "disk.img"]);
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let theirs = fs::read_to_string(place.path("theirs")).unwrap();
    assert_eq!(parse(&ours), parse(&theirs));
    assert_eq!(parse(&ours)["deep"], parse(own)["deep"]);
    assert_eq!(parse(&ours)["keyslots"], parse(r#"["0"]"#));
    // The token stays as it is when either program changes other parts of the header.
    image.must(&format!("add-key {CHEAP} -d key disk.img other"));
    place.cryptsetup("config --label new disk.img");
    assert_eq!(
        place.scrim(["token", "export", "--token-id", "7", "disk.img"]),
        ours
    );
    image.must("token unassign --token-id 7 -S 0 disk.img");
    image.must("token assign --token-id 7 -S 1 disk.img");
    assert!(
        image.dump().contains("7: of-mine Keyslot: 1"),
        "{}",
        image.dump()
    );
    let said = image.must("kill-slot -d key disk.img 1");
    assert!(
        said.contains("token 7 names no key slot any more"),
        "{said}"
    );
    image.must("token remove --token-id 7 disk.img");
    image.must("token add --token-id 0 --token-replace --key-description new disk.img");
    place.cryptsetup("token remove --token-id 0 disk.img");
    assert!(!image.dump().contains("luks2-keyring"));
    // As cryptsetup has it: types that begin so are its own.
    place.write("foreign.json", r#"{"type":"luks2-own","keyslots":[]}"#);
    place.write("half.json", r#"{"type":"luks2-keyring","keyslots":[]}"#);
    for (line, said) in [
        ("token remove --token-id 5 disk.img", "no token 5"),
        ("token export --token-id 5 disk.img", "no token 5"),
        ("token import --json-file key disk.img", "no LUKS2 token"),
        (
            "token import --json-file foreign.json disk.img",
            "luks2-own",
        ),
        (
            "token import --json-file half.json disk.img",
            "key_description is missing",
        ),
        ("token add disk.img", "--key-description"),
        (
            "token add --key-description x -S 9 disk.img",
            "key slot 9 is not in use",
        ),
        (
            "token add --key-description x --token-id 40 disk.img",
            "number 40",
        ),
        ("token unassign --token-id 5 -S 0 disk.img", "no token 5"),
    ] {
        assert!(image.fails(line, 1).contains(said), "{line}");
    }
}

#[test]
fn headers_are_converted_both_ways() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    let convert = |image: &Image, program: &str, version: u8| {
        let line = format!("convert -q disk.img --type luks{version}");
        let done = image.place.run_with_input(program, line.split(' '), b"");
        // cryptsetup wants the areas where it puts them itself.
        let may_refuse = program == "cryptsetup";
        let refused = may_refuse && done.status.code() == Some(1);
        assert!(
            done.status.success() || refused,
            "{program} {line}: {done:?}"
        );
        assert!(image.both_accept("key") && image.both_accept("other"));
        if !refused {
            let dump = image.dump();
            assert!(dump.contains(&format!("Version: {version}")), "{dump}");
        }
        !refused
    };
    let mut back = 0;
    for case in [LUKS1[0], LUKS1[1]] {
        for (up, down) in [
            ("scrim", "scrim"),
            ("cryptsetup", "scrim"),
            ("scrim", "cryptsetup"),
        ] {
            let image = Image::made_by_scrim(case);
            let payload = image.fill_with_noise(3);
            image.must(&format!("add-key {CHEAP} -d key disk.img other"));
            assert!(convert(&image, up, 2), "{up}");
            back += usize::from(convert(&image, down, 1));
            assert_same(&image.read(), &payload, "the payload");
        }
    }
    assert!(back >= 4, "Scrim converts whatever either made");
    let image = Image::made_by_scrim(LUKS1[1]);
    let again = image.fails("convert disk.img --type luks1", 1);
    assert!(again.contains("LUKS1 already"), "{again}");
    let image = Image::made_by_scrim(USUAL);
    let said = image.fails("convert disk.img --type luks1", 1);
    assert!(
        said.contains("which the other version of LUKS cannot say"),
        "{said}"
    );
    let vague = image.fails("convert disk.img --type luks", 1);
    assert!(vague.contains("--type luks2"), "{vague}");
}

/// Warnings of `open` about a header whose keys are in no known backup.
#[test]
fn open_warns_of_keys_that_are_in_no_known_backup() {
    let image = Image::made_by_scrim(SMALL);
    let warning = |image: &Image| {
        let output = image.try_scrim("open disk.img secret -d key");
        assert!(output.status.success(), "{output:?}");
        image.place.close("secret");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(warning(&image), "", "it is as it was made");
    image.must(&format!("add-key {CHEAP} -d key disk.img other"));
    assert!(warning(&image).contains("no backup of it is known"));
    image.must("header-backup disk.img --header-backup-file backup");
    assert_eq!(warning(&image), "");
    image.must("config disk.img --label new");
    image.must(&format!("luksUUID disk.img --uuid {UUID}"));
    assert_eq!(warning(&image), "", "the keys are those of the backup");
    image.must("remove-key disk.img other");
    assert!(warning(&image).contains("keys have changed since the last backup"));
    image.must("header-restore -q disk.img --header-backup-file backup");
    assert_eq!(warning(&image), "");
    // If the state cannot be stored, there is no warning.
    fs::remove_dir_all(image.place.path("state")).unwrap();
    image.place.write("state", "in the way");
    image.must("remove-key disk.img other");
    assert_eq!(warning(&image), "");
}
