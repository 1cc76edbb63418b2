//! Headers that an attacker has made to harm a user who looks at them.

use std::io::Read;
use std::process::Stdio;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::remote::{said, scrim, serve};
use crate::support::{Background, PYTHON, Place, have, wait_until};
use crate::terminal::{at_a_terminal, steps};

/// Options that make key slots cheap.
const COST: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
/// One of each kind that a terminal obeys or that hides something: a title, a cursor, a C1 control,
/// DEL, line ends, an override of the direction.
const LABEL: &str = "\u{1b}]0;x\u{7}\u{9b}2J\u{7f}\r\nA\u{202e}B";
const UUID: &str = "\u{1b}[2J\u{9b}1A\nu\u{202e}";
/// A printable word is all that the header has to be recognised by.
const SUBSYSTEM: &str = "\u{1b}[8msub\u{85}\u{2066}";

/// Fields of the binary header: where, and of how many bytes.
const LABEL_FIELD: (usize, usize) = (24, 48);
const UUID_FIELD: (usize, usize) = (168, 40);
const SUBSYSTEM_FIELD: (usize, usize) = (208, 48);
const CHECKSUM: std::ops::Range<usize> = 448..512;
/// Offset of the JSON area in a copy.
const JSON: usize = 4096;

/// Changes both copies of a LUKS2 header, and their checksums with them.
pub(crate) fn rewrite(place: &Place, image: &str, change: impl Fn(&mut [u8], &mut Value)) {
    let path = place.path(image);
    let mut bytes = std::fs::read(&path).unwrap();
    let size = u64::from_be_bytes(bytes[8..16].try_into().unwrap());
    let size = usize::try_from(size).unwrap();
    for copy in bytes[..2 * size].chunks_mut(size) {
        let end = copy[JSON..].iter().position(|byte| *byte == 0).unwrap();
        let mut document: Value = serde_json::from_slice(&copy[JSON..JSON + end]).unwrap();
        change(&mut copy[..JSON], &mut document);
        let text = serde_json::to_vec(&document).unwrap();
        copy[JSON..].fill(0);
        copy[JSON..JSON + text.len()].copy_from_slice(&text);
        copy[CHECKSUM].fill(0);
        let checksum = Sha256::digest(&*copy);
        copy[CHECKSUM][..checksum.len()].copy_from_slice(&checksum);
    }
    std::fs::write(path, bytes).unwrap();
}

fn put(header: &mut [u8], (at, len): (usize, usize), text: &str) {
    header[at..at + len].fill(0);
    header[at..at + text.len()].copy_from_slice(text.as_bytes());
}

/// A volume `disk.img` whose header is full of escapes, with a key file `key`.
fn hostile() -> Place {
    let place = Place::new();
    place.write("key", "open sesame");
    let format = format!("format -q disk.img --size 18M {COST} --key-file key");
    place.scrim(format.split_whitespace());
    rewrite(&place, "disk.img", |header, document| {
        put(header, LABEL_FIELD, LABEL);
        put(header, UUID_FIELD, UUID);
        put(header, SUBSYSTEM_FIELD, SUBSYSTEM);
        document["tokens"]["3"] = json!({
            "type": "luks2-keyring",
            "keyslots": ["0"],
            "key_description": LABEL,
        });
        document["tokens"]["4"] = json!({
            "type": UUID,
            "keyslots": [],
            LABEL: LABEL,
        });
    });
    place
}

/// Demands that nothing but `allowed` controls, and no invisible character, is in what was shown.
fn assert_harmless(what: &str, shown: &[u8], allowed: &str) {
    let text = std::str::from_utf8(shown).unwrap_or_else(|error| panic!("{what}: {error}"));
    let harmful = |c: char| {
        c.is_control() && !allowed.contains(c)
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if let Some(found) = text.chars().find(|c| harmful(*c)) {
        panic!("{what} prints {found:?}: {text:?}");
    }
}

#[test]
fn nothing_in_a_header_reaches_a_pipe_as_an_escape() {
    let place = hostile();
    for words in [
        "dump disk.img",
        "dump --json disk.img",
        "luksUUID disk.img",
        "isLuks -v disk.img",
        "token export disk.img --token-id 3",
        "token export disk.img --token-id 4",
        "test-passphrase disk.img --key-file key",
        "header-backup disk.img --header-backup-file backup",
        "header-restore -q disk.img --header-backup-file backup",
        "config disk.img --priority prefer --key-slot 0",
        "header-restore -q disk.img --header-backup-file backup",
        "repair disk.img",
        "kill-slot disk.img 0 --key-file key",
        "erase disk.img",
        "open disk.img foreign --key-file key",
        "status foreign",
        "status --json foreign",
        "list",
        "list --json",
        "table foreign",
        "close foreign",
    ] {
        let output = place.run_with_input(crate::support::scrim(), words.split(' '), b"");
        assert_harmless(words, &output.stdout, "\n\t");
        assert_harmless(words, &output.stderr, "\n\t");
        if words.contains("json") && !words.starts_with("token") {
            serde_json::from_slice::<Value>(&output.stdout)
                .unwrap_or_else(|error| panic!("{words}: {error}"));
        }
    }
    let dumped: Value = serde_json::from_str(&place.scrim(["dump", "--json", "disk.img"])).unwrap();
    assert_eq!(dumped["label"], LABEL, "the value stays the same");
    assert_eq!(dumped["uuid"], UUID);
    let uuid = place.scrim(["luksUUID", "disk.img"]);
    assert_eq!(uuid, "\\u{1b}[2J\\u{9b}1A\\nu\\u{202e}\n", "one line");
}

#[test]
fn nothing_in_a_header_reaches_the_terminal_where_a_user_confirms() {
    if !have(&[PYTHON]) {
        return;
    }
    let place = hostile();
    place.scrim("header-backup disk.img --header-backup-file backup".split(' '));
    place.scrim("config disk.img --priority prefer --key-slot 0".split(' '));
    let refuse = steps(&[("wait", "capital letters): "), ("type", "no\\r")]);
    for line in [
        "luksUUID disk.img --uuid 9bbcbbf9-cf9b-48eb-95a2-34484ec7a33b",
        "header-restore disk.img --header-backup-file backup",
        "remove-key disk.img --key-file key",
        "kill-slot disk.img 0 --key-file key",
        "erase disk.img",
        "format disk.img",
    ] {
        let session = at_a_terminal(&place, line, &refuse);
        assert!(
            session.shown.contains("capital letters"),
            "{line}: {}",
            session.shown
        );
        assert_harmless(line, session.shown.as_bytes(), "\r\n\t");
    }
    let session = at_a_terminal(
        &place,
        "luksUUID disk.img --uuid 9bbcbbf9-cf9b-48eb-95a2-34484ec7a33b",
        &steps(&[("wait", "capital letters): "), ("type", "YES\\r")]),
    );
    assert_eq!(session.code, 0, "{}", session.shown);
}

/// A name is foreign too, if it came by an archive or a glob.
#[test]
fn names_of_files_reach_no_terminal_as_escapes() {
    let place = Place::new();
    let name = "\u{1b}]0;x\u{7}.img";
    place.sparse(name, 1 << 20);
    place.write("key", "x");
    for words in [
        vec!["open", name, "v", "--key-file", "key"],
        vec!["dump", name],
        vec!["isLuks", "-v", name],
        vec!["repair", name],
        vec!["import", name, "-"],
    ] {
        let output = place.run_with_input(crate::support::scrim(), &words, b"");
        assert!(!output.status.success());
        assert_harmless(words[0], &output.stderr, "\n\t");
    }
}

/// Address at which the server serves `disk.img`.
const URI: &str = "nbd+unix:///?socket=server";

/// A volume `disk.img` of which each key slot has this key derivation, with its server.
fn served(kdf: &Value, slots: usize) -> (Place, Background) {
    let place = Place::new();
    place.write("key", "open sesame");
    let format = format!("format -q disk.img --size 18M {COST} --key-file key");
    place.scrim(format.split_whitespace());
    for slot in 1..slots {
        let add = format!(
            "add-key disk.img --key-file key --new-keyfile key --new-key-slot {slot} {COST}"
        );
        place.scrim(add.split_whitespace());
    }
    rewrite(&place, "disk.img", |_, document| {
        for (_, keyslot) in document["keyslots"].as_object_mut().unwrap() {
            for (name, value) in kdf.as_object().unwrap() {
                keyslot["kdf"][name] = value.clone();
            }
        }
    });
    let server = serve(&place, "nbdkit -f -U server file disk.img", URI);
    (place, server)
}

/// Argon2id that would take half an hour, and little memory.
fn half_an_hour() -> Value {
    json!({"type": "argon2id", "time": 1 << 25, "memory": 64, "cpus": 1})
}

#[test]
fn a_servers_header_gets_no_more_memory_than_is_allowed() {
    if !have(&["nbdkit", "nbdinfo"]) {
        return;
    }
    let kdf = json!({"type": "argon2id", "time": 1, "memory": (1 << 20) + 4, "cpus": 4});
    let (place, _server) = served(&kdf, 3);
    for words in [
        format!("open {URI} v --key-file key"),
        format!("test-passphrase {URI} --key-file key"),
        format!("test-passphrase {URI} --key-file key --pbkdf-memory-limit 1024"),
        format!("change-key {URI} --key-file key --new-keyfile key --key-slot 1"),
        format!("remove-key -q {URI} --key-file key"),
        "test-passphrase disk.img --key-file key --pbkdf-memory-limit 1024".to_owned(),
    ] {
        let output = scrim(&place, &words);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{words}: {said}");
        assert!(
            said.contains("--pbkdf-memory-limit 1048580"),
            "{words}: {said}"
        );
    }
}

#[test]
fn a_servers_header_gets_no_more_time_than_is_allowed_for_all_of_its_slots() {
    if !have(&["nbdkit", "nbdinfo"]) {
        return;
    }
    let (place, _server) = served(&half_an_hour(), 4);
    for words in [
        format!("open {URI} v --key-file key --nbd-timeout 1"),
        format!("test-passphrase {URI} --key-file key --pbkdf-time-limit 1"),
        format!("kill-slot {URI} 1 --key-file key --pbkdf-time-limit 1"),
        "test-passphrase disk.img --key-file key --pbkdf-time-limit 1".to_owned(),
    ] {
        let output = scrim(&place, &words);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(4), "{words}: {said}");
        assert!(said.contains("--pbkdf-time-limit"), "{words}: {said}");
        let announced = said.matches("asks for 33554432 passes over 64 KiB").count();
        assert_eq!(announced, 1, "{words}: the first used up the time: {said}");
    }
}

/// The digest of the key is a derivation as well, by a number of the header's.
#[test]
fn a_digest_has_the_same_limit() {
    let place = Place::new();
    place.write("key", "open sesame");
    let format = format!("format -q disk.img --size 18M {COST} --key-file key");
    place.scrim(format.split_whitespace());
    place.write("volume-key", [7; 64]);
    rewrite(&place, "disk.img", |_, document| {
        document["digests"]["0"]["iterations"] = json!(1 << 30);
    });
    for words in [
        "test-passphrase disk.img --key-file key --pbkdf-time-limit 1",
        "add-key disk.img --volume-key-file volume-key --new-keyfile key --pbkdf-time-limit 1",
    ] {
        let output = scrim(&place, words);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(4), "{words}: {said}");
        assert!(
            said.contains("the digest of the key asks for 1073741824"),
            "{words}: {said}"
        );
        assert!(said.contains("--pbkdf-time-limit"), "{words}: {said}");
    }
}

/// A limit that the command would not obey is refused.
#[test]
fn a_new_header_has_no_such_limit() {
    let place = Place::new();
    place.write("key", "x");
    place.sparse("raw", 1 << 20);
    for option in ["--pbkdf-memory-limit", "--pbkdf-time-limit"] {
        for command in [
            "format -q new --size 18M",
            "import raw new",
            "encrypt --in-place -q raw",
        ] {
            let output = scrim(&place, &format!("{command} --key-file key {option} 1"));
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
            assert!(!place.path("new").exists());
        }
    }
}

/// A signal that ends the command also ends the process that derives a key in the background.
#[test]
fn a_signal_ends_a_derivation() {
    if !have(&["nbdkit", "nbdinfo", "kill"]) {
        return;
    }
    let (place, _server) = served(&half_an_hour(), 1);
    for signal in ["TERM", "INT", "HUP"] {
        // A shell's background jobs and `nohup` ignore signals, and children inherit that.
        let mut command = place.command("env");
        command
            .arg("--default-signal=TERM,INT,HUP")
            .arg(crate::support::scrim())
            .args([
                "open",
                URI,
                "v",
                "--key-file",
                "key",
                "--pbkdf-time-limit",
                "1800",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut open = Background::start(&mut command);
        let mut error = open.0.stderr.take().unwrap();
        let mut shown = [0; 20];
        error.read_exact(&mut shown).unwrap();
        assert!(
            shown.starts_with(b"nbd+unix"),
            "it has announced the key slot"
        );
        place.run("kill", [&format!("-{signal}"), &open.0.id().to_string()]);
        // It ends when every process that has it open has ended.
        let rest = std::thread::spawn(move || error.read_to_end(&mut Vec::new()));
        wait_until("the derivation ends", || rest.is_finished());
        assert!(!open.0.wait().unwrap().success());
    }
}
