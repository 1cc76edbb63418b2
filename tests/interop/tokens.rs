//! Volumes that tokens open: by cryptsetup's plugins, and by Clevis with a Tang server. Other programs made the tokens.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use crate::newer;
use crate::support::{Background, PYTHON, Place, have, noise, scrim, script, succeeded};
use crate::volume::CHEAP;

/// Adds the key `description` with the content "secret" to the session's keyring, then runs a command in it.
const WITH_KEY: &str = "\
import ctypes, os, sys
kernel = ctypes.CDLL(None, use_errno=True)
kernel.syscall(250, 1, None)
description = sys.argv[1].encode()
if kernel.syscall(248, b'user', description, b'secret', 6, -3) < 0: sys.exit(77)
os.execvp(sys.argv[2], sys.argv[2:])
";

/// Exit code where the kernel has no keyrings.
const NO_KEYRINGS: i32 = 77;

/// A Tang server on a port of its own, which it prints: a process of `tangd` for each connection.
const TANG: &str = "\
import os, socket, subprocess, sys
server = socket.create_server(('127.0.0.1', 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    with connection:
        subprocess.run([sys.argv[1], sys.argv[2]], stdin=connection, stdout=connection, stderr=subprocess.DEVNULL)
";

/// A volume whose passphrase is "secret".
fn place() -> Place {
    let place = Place::new();
    place.write("key", "secret");
    place.sparse("disk.img", 20 << 20);
    place.cryptsetup(&format!("luksFormat --type luks2 {CHEAP} disk.img key"));
    place
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_key_in_the_kernels_keyring_opens_the_volume_of_its_token() {
    if !have(&["cryptsetup", PYTHON]) {
        return;
    }
    let place = place();
    place.cryptsetup("token add --key-description scrim-test-token --token-id 3 disk.img");
    let before = fs::read(place.path("disk.img")).unwrap();
    let run = |description: &str, options: &str, input: &[u8]| {
        let line = format!("open --test-passphrase {options} disk.img");
        let words = ["-c", WITH_KEY, description, scrim()]
            .into_iter()
            .chain(line.split(' '));
        place.run_with_input(PYTHON, words, input)
    };
    let there = "scrim-test-token";
    for (description, options, input, code) in [
        (there, "--token-only", "", 0),
        (there, "--token-id 3", "", 0),
        (there, "--token-only --token-type luks2-keyring", "", 0),
        (there, "--token-only --token-id 4", "", 2),
        (there, "--token-only --token-type systemd-tpm2", "", 2),
        ("scrim-test-other", "--token-only", "secret", 2),
        // Without --token-only a passphrase is asked for then.
        ("scrim-test-other", "--token-id 3", "secret", 0),
        ("scrim-test-other", "--token-id 3", "wrong", 2),
    ] {
        let output = run(description, options, input.as_bytes());
        if output.status.code() == Some(NO_KEYRINGS) {
            println!("skipped: the kernel has no keyrings here");
            return;
        }
        let text = said(&output);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{description} {options}: {text}"
        );
    }
    assert!(
        fs::read(place.path("disk.img")).unwrap() == before,
        "the header has changed"
    );
}

/// Runs a shell script in a session with keyrings of its own. There, `put NAME FILE` adds a key of type user to them, and
/// `refused COMMAND` fails if the command does not.
fn in_session(place: &Place, script: &str) -> Option<Output> {
    let script =
        format!("set -e\nput() {{ {PYTHON} -c '{PUT}' \"$1\" \"$2\"; }}\n{REFUSED}\n{script}\n");
    let words = ["-c", WITH_KEY, "scrim-test-session", "sh", "-c", &script];
    let output = place.run_with_input(PYTHON, words, b"");
    if output.status.code() == Some(NO_KEYRINGS) {
        println!("skipped: the kernel has no keyrings here");
        return None;
    }
    Some(output)
}

const REFUSED: &str = "refused() { if \"$@\"; then echo \"not refused: $*\" >&2; exit 9; fi; }";

/// Adds a key of type user to the session's keyring.
const PUT: &str = "\
import ctypes, sys
name, key = sys.argv[1].encode(), open(sys.argv[2], \"rb\").read()
assert ctypes.CDLL(None).syscall(248, b\"user\", name, key, len(key), -3) > 0
";

#[test]
fn volume_keys_pass_through_keyrings_between_both_programs() {
    if !have(&["cryptsetup", PYTHON]) {
        return;
    }
    let place = place();
    let Some(newer) = newer::cryptsetup(&place) else {
        return;
    };
    let (scrim, newer) = (scrim(), newer.display());
    place.write("more", "more");
    let script = format!(
        "
        {newer} open --test-passphrase -d key disk.img --link-vk-to-keyring @s::%user:theirs
        {scrim} test-passphrase disk.img --volume-key-keyring theirs
        {scrim} add-key {CHEAP} disk.img --volume-key-keyring %user:theirs more
        {scrim} open --test-passphrase -d more disk.img --link-vk-to-keyring @s::ours
        {newer} open --test-passphrase --volume-key-keyring %user:ours disk.img
        {newer} open --test-passphrase -d key disk.img --link-vk-to-keyring @s::%logon:scrim:ours
        refused {scrim} test-passphrase disk.img --volume-key-keyring %logon:scrim:ours
        refused {scrim} test-passphrase disk.img --volume-key-keyring nothing
        refused {scrim} test-passphrase -d key disk.img --link-vk-to-keyring nowhere::key
        put wrong key
        code=0
        {scrim} test-passphrase disk.img --volume-key-keyring wrong || code=$?
        test $code = 2
        {scrim} open disk.img linked --volume-key-keyring ours --link-vk-to-keyring @s::again
        {scrim} luksSuspend linked
        {scrim} luksResume linked --volume-key-keyring again --link-vk-to-keyring @s::resumed
        {scrim} close linked
        {newer} open --test-passphrase --volume-key-keyring resumed disk.img
        "
    );
    let Some(output) = in_session(&place, &script) else {
        return;
    };
    assert!(output.status.success(), "{}", said(&output));
}

/// As with cryptsetup, options of tokens are not needed for a key in reach.
#[test]
fn a_token_of_the_keyring_is_tried_before_a_passphrase_is_asked_for() {
    if !have(&["cryptsetup", PYTHON]) {
        return;
    }
    let place = place();
    place.write("other", "other");
    place.cryptsetup(&format!("luksAddKey {CHEAP} -d key disk.img other"));
    place.cryptsetup("token add --key-description scrim-test-own --key-slot 1 disk.img");
    let scrim = scrim();
    let script = format!(
        "
        refused {scrim} open --test-passphrase disk.img
        put scrim-test-own key
        refused {scrim} open --test-passphrase disk.img
        put scrim-test-own other
        {scrim} open --test-passphrase disk.img
        refused {scrim} open --test-passphrase disk.img --key-slot 0
        refused {scrim} open --test-passphrase disk.img -d /dev/null
        refused {scrim} test-passphrase disk.img
        printf 'secret\\nthird' | {scrim} add-key {CHEAP} disk.img
        printf third | {scrim} test-passphrase disk.img
        {scrim} open disk.img tokened
        {scrim} luksSuspend tokened
        {scrim} luksResume tokened
        {scrim} close tokened
        "
    );
    let Some(output) = in_session(&place, &script) else {
        return;
    };
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_plain_volume_has_its_key_in_a_keyring() {
    if !have(&[PYTHON, "nbdcopy"]) {
        return;
    }
    let place = Place::new();
    place.sparse("disk.img", 1 << 20);
    place.write("key", [3; 32]);
    place.write("payload", noise(1 << 20, 5));
    let scrim = scrim();
    let open = "plainOpen -c aes-xts-plain64 disk.img plain";
    let script = format!(
        "
        put plain key
        refused {scrim} {open} -s 512 --volume-key-keyring plain
        nbdcopy payload $({scrim} {open} -s 256 --volume-key-keyring plain)
        {scrim} close plain
        nbdcopy $({scrim} {open} -s 256 --key-file key) read
        {scrim} close plain
        cmp payload read
        "
    );
    let Some(output) = in_session(&place, &script) else {
        return;
    };
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn clevis_and_a_tang_server_open_the_volume_that_they_bound() {
    let tangd = "/usr/libexec/tangd";
    let is_there = have(&["cryptsetup", PYTHON]) && fs::exists(tangd).is_ok_and(|exists| exists);
    if !is_there || !fs::exists("/usr/bin/clevis-luks-bind").is_ok_and(|exists| exists) {
        println!("skipped: no clevis-luks and tang to bind a volume");
        return;
    }
    let place = place();
    fs::create_dir(place.path("keys")).unwrap();
    place.run("/usr/libexec/tangd-keygen", ["keys"]);
    let mut command = place.command(PYTHON);
    command
        .args(["-c", TANG, tangd, "keys"])
        .stdout(Stdio::piped());
    let mut server = Background::start(&mut command);
    let mut port = String::new();
    let output = server.0.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut port).unwrap();
    let pin = format!("{{\"url\":\"http://127.0.0.1:{}\"}}", port.trim());
    place.run(
        "clevis",
        [
            "luks", "bind", "-y", "-f", "-k", "key", "-d", "disk.img", "tang", &pin,
        ],
    );

    let uri = place.open("disk.img", "bound", &["--token-only"]);
    assert!(place.scrim(["status", "bound"]).contains("LUKS2"), "{uri}");
    place.close("bound");
    drop(server);
    let words = "open --test-passphrase --token-type clevis --token-only disk.img";
    let refused = place.run_with_input(scrim(), words.split(' '), b"");
    let text = said(&refused);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("clevis could not use the token"), "{text}");
}

/// A volume with a token of Clevis for its key slot.
fn place_with_clevis_token() -> Place {
    let place = place();
    place.write(
        "token.json",
        r#"{"type":"clevis","keyslots":["0"],"jwe":{"protected":"a","iv":"b","ciphertext":"c","tag":"d"}}"#,
    );
    place.cryptsetup("token import --json-file token.json disk.img");
    place
}

/// Runs Scrim with a shell script in the place of Clevis.
fn with_clevis(place: &Place, script: &str, line: &str) -> Output {
    fs::create_dir_all(place.path("bin")).unwrap();
    let clevis = place.write("bin/clevis", format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(clevis, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/sbin:/usr/bin:/bin", place.path("bin").display());
    let mut command = place.command(scrim());
    command.args(line.split(' ')).env("PATH", path);
    command.output().unwrap()
}

/// Each script gets the JWE in compact form.
#[test]
fn a_program_that_hangs_dies_or_lies_is_named() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = place_with_clevis_token();
    for (script, code, expected) in [
        (
            "test \"$(cat)\" = a..b.c.d && printf secret",
            0,
            "the volume key fits",
        ),
        ("printf wrong", 2, "opens no key slot of token 0"),
        ("exit 0", 2, "returned no passphrase"),
        (
            "echo a reason >&2; exit 1",
            2,
            "could not use the token: a reason",
        ),
        ("exec sleep 600", 2, "not done with the token after 1 s"),
        ("yes | head -c 1000000", 2, "could not use the token"),
    ] {
        let limit = if script.contains("sleep") { 1 } else { 60 };
        let line = format!("open --test-passphrase --token-only --token-timeout {limit} disk.img");
        let output = with_clevis(&place, script, &line);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{script}: {text}");
        assert!(text.contains(expected), "{script}: {text}");
    }
}

#[test]
fn a_token_opens_the_volume_for_a_new_key() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = place_with_clevis_token();
    place.write("new", "new");
    let add = |script: &str, options: &str| {
        let line = format!("add-key {CHEAP} {options} disk.img new");
        with_clevis(&place, script, &line)
    };
    let wrong = add("printf wrong", "--token-only");
    assert_eq!(wrong.status.code(), Some(2), "{}", said(&wrong));
    let beside = add("printf secret", "--token-only --key-file key");
    assert_eq!(beside.status.code(), Some(1), "{}", said(&beside));
    let added = add("printf secret", "--token-id 0");
    assert!(added.status.success(), "{}", said(&added));
    place.cryptsetup("open --test-passphrase --key-file new --key-slot 1 disk.img");
}

/// Makes a smartcard in software with a key and its certificate, and enrols it for disk.img.
const SMARTCARD: &str = "
set -e
softhsm2-util --init-token --free --label scrim --pin 1234 --so-pin 5678
openssl req -x509 -newkey rsa:2048 -nodes -keyout pair.pem -out certificate.pem -subj /CN=test
openssl pkcs8 -topk8 -nocrypt -in pair.pem -out key.pem
softhsm2-util --import key.pem --token scrim --label key --id 01 --pin 1234
openssl x509 -in certificate.pem -outform der -out certificate.der
module=$(sed -n 's/^module: *//p' /usr/share/p11-kit/modules/softhsm2.module)
pkcs11-tool --module $module --login --pin 1234 --write-object certificate.der --type cert --label key --id 01
PASSWORD=secret PIN=1234 systemd-cryptenroll --pkcs11-token-uri=auto disk.img
";

/// `systemd-cryptenroll` enrols it, and the plugin of systemd asks for the PIN at the terminal.
#[test]
fn a_smartcard_opens_the_volume_by_its_pin() {
    let programs = [
        "cryptsetup",
        "openssl",
        "pkcs11-tool",
        "softhsm2-util",
        "systemd-cryptenroll",
    ];
    if !have(&programs) {
        return;
    }
    let place = place();
    fs::create_dir(place.path("tokens")).unwrap();
    let tokens = place.path("tokens").display().to_string();
    let configuration = place.write(
        "softhsm2.conf",
        format!("directories.tokendir = {tokens}\nobjectstore.backend = file\nlog.level = ERROR\n"),
    );
    let with_card = |command: &mut Command| {
        let output = command.env("SOFTHSM2_CONF", &configuration).output();
        output.unwrap()
    };
    let enrolled = with_card(place.command("sh").args(["-c", SMARTCARD]));
    succeeded("systemd-cryptenroll", &enrolled);
    for (pin, code) in [("1234", 0), ("4321", 2)] {
        // The prompt drops what was typed before it had set the terminal.
        let steps = format!("wait PIN\nsettle \ntype {pin}\\r\n");
        place.write("steps", steps);
        let line = format!(
            "{PYTHON} {} {} open --test-passphrase --token-only disk.img < steps",
            script("terminal.py").display(),
            scrim()
        );
        let output = with_card(place.command("sh").args(["-c", &line]));
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(
            shown.contains(&format!("exit {code}")),
            "{pin}: {shown}{}",
            said(&output)
        );
    }
}
