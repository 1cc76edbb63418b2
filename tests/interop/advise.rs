//! `scrim advise` on directories and devices: its recommendations can be followed as they are printed, and nothing is left.

use std::fs;

use serde_json::Value;

use crate::block_device::Loop;
use crate::clients::send;
use crate::schema::violations;
use crate::support::{Background, Place, have, noise, wait_until};

/// Parses the output of `--json`, and checks it against the schema.
fn checked(printed: &[u8]) -> Value {
    let advice: Value = serde_json::from_slice(printed).unwrap();
    let schema = include_str!("../../docs/advise.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(violations(&schema, &advice), [""; 0]);
    advice
}

fn choice<'a>(advice: &'a Value, subject: &str) -> &'a str {
    let lines = advice["recommendations"].as_array().unwrap();
    let line = lines.iter().find(|line| line["subject"] == subject);
    line.unwrap()["choice"].as_str().unwrap()
}

fn command<'a>(advice: &'a Value, program: &str) -> &'a str {
    let commands = advice["commands"].as_array().unwrap().iter();
    let mut lines = commands.map(|command| command["line"].as_str().unwrap());
    lines.find(|line| line.starts_with(program)).unwrap()
}

/// Files in a directory, by name.
fn names(place: &Place, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(place.path(directory)).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn what_is_advised_for_a_directory_can_be_typed() {
    let place = Place::new();
    place.write("key", "a passphrase");
    fs::create_dir(place.path("my files")).unwrap();
    let output = place.run_with_input("scrim", ["advise", "--json", "my files"], b"");
    assert!(output.status.success(), "{output:?}");
    let advice = checked(&output.stdout);
    assert_eq!(names(&place, "my files"), [""; 0]);
    assert_eq!(choice(&advice, "sector size"), "4096 bytes");
    assert_eq!(choice(&advice, "key derivation"), "argon2id");
    let disk = &advice["figures"]["disk"];
    let is_left_out = advice["figures"]["disk_left_out"].is_string();
    assert!(is_left_out || disk["read"].as_f64() > Some(0.0), "{disk}");
    let line = command(&advice, "scrim format").replace("10G", "64M");
    let cheap = "--pbkdf-memory 1024 --pbkdf-force-iterations 4 --key-file key";
    let line = line.replacen("scrim format", &format!("scrim format {cheap}"), 1);
    place.run("sh", ["-c", &line]);
    let dump = place.scrim(["dump", "my files/disk.img"]);
    assert!(dump.contains(choice(&advice, "cipher")), "{dump}");
    assert!(dump.contains("sector: 4096"), "{dump}");
}

#[test]
fn the_cipher_is_the_faster_one_here() {
    let place = Place::new();
    let output = place
        .command("scrim")
        .args(["advise", "--json"])
        .env("SCRIM_DISABLE", "aes")
        .output()
        .unwrap();
    let advice = checked(&output.stdout);
    let rate = |cipher: &str| advice["figures"][cipher]["sectors_4096"].as_f64().unwrap();
    let expected = match rate("adiantum") > rate("aes_256") {
        true => ("xchacha12,aes-adiantum-plain64", "256 bits"),
        false => ("aes-xts-plain64", "512 bits"),
    };
    assert_eq!(choice(&advice, "cipher"), expected.0);
    assert_eq!(choice(&advice, "key size"), expected.1);
}

#[test]
fn an_end_leaves_no_file_and_shows_what_there_is() {
    if !have(&["kill"]) {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("storage")).unwrap();
    let mut command = place.command("scrim");
    command.args(["advise", "--json", "storage"]);
    let mut running =
        Background::start(command.stdout(fs::File::create(place.path("advice")).unwrap()));
    wait_until("it has its file", || !names(&place, "storage").is_empty());
    send("-INT", &running.0);
    assert_eq!(running.0.wait().unwrap().code(), Some(130));
    assert_eq!(names(&place, "storage"), [""; 0]);
    let advice = checked(&fs::read(place.path("advice")).unwrap());
    assert!(advice["figures"]["argon2id"].is_null());
}

#[test]
fn a_device_is_only_read() {
    let place = Place::new();
    let before = noise(32 << 20, 1);
    place.write("disk", &before);
    let Some(disk) = Loop::on(&place, "disk") else {
        return;
    };
    let device = &disk.device;
    let output = place.run_with_input("scrim", ["advise", "--json", device], b"");
    let advice = checked(&output.stdout);
    assert_eq!(advice["figures"]["disk"]["write"], Value::Null);
    assert!(advice["figures"]["disk"]["read"].as_f64() > Some(0.0));
    assert_eq!(choice(&advice, "sector size"), "512 bytes");
    assert!(command(&advice, "cryptsetup luksFormat").ends_with(device));
    drop(disk);
    assert!(fs::read(place.path("disk")).unwrap() == before);
}
