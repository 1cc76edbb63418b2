//! `scrim doctor` on a machine where things are missing: no check needs root, and no finding is an error.

use serde_json::Value;

use crate::no_root::UserHome;
use crate::schema::violations;
use crate::support::{PYTHON, Place, have};
use crate::volume::CHEAP;

/// Parses the output of `--json`, and checks it against the schema.
fn checked(printed: &str) -> Value {
    let found: Value = serde_json::from_str(printed).unwrap();
    let schema = include_str!("../../docs/doctor.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(violations(&schema, &found), [""; 0]);
    found
}

/// The finding of this name.
fn finding<'a>(found: &'a Value, name: &str) -> &'a Value {
    let sections = found["sections"].as_array().unwrap().iter();
    let mut findings = sections.flat_map(|section| section["findings"].as_array().unwrap());
    let finding = findings.find(|finding| finding["name"] == name);
    finding.unwrap_or_else(|| panic!("no {name} in {found}"))
}

fn is_missing(found: &Value, name: &str, words: &str) {
    let finding = finding(found, name);
    assert_eq!(finding["state"], "missing", "{finding}");
    let all = finding.to_string();
    assert!(all.contains(words), "{words}: {finding}");
}

#[test]
fn what_is_printed_for_scripts_is_as_the_schema_says() {
    let place = Place::new();
    let found = checked(&place.run("scrim", ["doctor", "--json"]));
    let states = found["sections"].as_array().unwrap().iter();
    let states = states.flat_map(|section| section["findings"].as_array().unwrap());
    let missing = states.filter(|finding| finding["state"] == "missing");
    assert_eq!(found["missing"], missing.count());
}

#[test]
fn what_was_switched_off_is_missing() {
    let place = Place::new();
    let output = place
        .command("scrim")
        .args(["doctor", "--json"])
        .env("SCRIM_DISABLE", "aes")
        .output()
        .unwrap();
    assert!(output.status.success());
    let found = checked(&String::from_utf8(output.stdout).unwrap());
    // Where the processor has no AES there is nothing to switch off.
    if finding(&found, "instructions")["found"]
        .as_str()
        .unwrap()
        .contains("aes ")
    {
        is_missing(&found, "aes-xts", "unset SCRIM_DISABLE");
        is_missing(&found, "aes-cbc", "cbc-aes-portable");
    }
}

#[test]
fn a_user_under_a_filter_and_tight_limits_is_told_of_each() {
    if !have(&["setpriv", "chown", "prlimit", PYTHON]) {
        return;
    }
    let home = UserHome::new(&format!(
        "prlimit --memlock=0:0 --nofile=256:256 {PYTHON} without_io_uring.py"
    ));
    let (printed, _) = home.run("./scrim doctor --json");
    let found = checked(&printed);
    is_missing(&found, "io_uring", "seccomp");
    is_missing(&found, "locked memory", "LimitMEMLOCK");
    is_missing(&found, "open files", "at most 192 connections");
    assert_eq!(finding(&found, "openat2")["state"], "found");
    let (page, said) = home.run("./scrim doctor");
    assert!(page.contains("\n! io_uring "), "{page}");
    assert_eq!(said, "");
}

/// All texts of a header's JSON that a guess could be tried on, or that seal a key.
fn secrets_of(header: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![header];
    while let Some(value) = open.pop() {
        for (name, value) in value.as_object().into_iter().flatten() {
            match value.as_str() {
                Some(text)
                    if ["salt", "digest", "ciphertext"]
                        .iter()
                        .any(|end| name.ends_with(end)) =>
                {
                    found.push(text.to_owned());
                }
                _ => open.push(value),
            }
        }
    }
    found
}

/// Secrets are planted in a header and in an open volume.
#[test]
fn what_is_given_to_others_has_no_secrets() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = Place::new();
    place.write("key", "a planted passphrase");
    place.write(
        "token.json",
        r#"{"type":"clevis","keyslots":["0"],"jwe":{"ciphertext":"a-planted-ciphertext"}}"#,
    );
    place.sparse("disk.img", 20 << 20);
    place.cryptsetup(&format!("luksFormat -q --type luks2 {CHEAP} disk.img key"));
    place.cryptsetup("token import --json-file token.json disk.img");
    place.sparse("old.img", 20 << 20);
    place.cryptsetup(&format!("luksFormat -q --type luks1 {CHEAP} old.img key"));
    place.open("disk.img", "secret", &["--key-file", "key"]);
    let printed = place.scrim(["support", "disk.img", "old.img", "missing.img"]);
    let table = place.scrim(["table", "secret", "--showkeys"]);
    place.close("secret");

    let dump = place.scrim(["dump", "--dump-json-metadata", "disk.img"]);
    let mut secrets = secrets_of(&serde_json::from_str(&dump).unwrap());
    assert_eq!(secrets.len(), 4, "{secrets:?}");
    let old = place.scrim(["dump", "--json", "old.img"]);
    secrets.extend(secrets_of(&serde_json::from_str(&old).unwrap()));
    assert_eq!(secrets.len(), 7, "{secrets:?}");
    secrets.push("a planted passphrase".to_owned());
    secrets.push(table.split(' ').nth(4).unwrap().to_owned());
    for secret in secrets {
        assert!(!printed.contains(&secret), "{secret}: {printed}");
    }
    let found: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(found["open"][0]["name"], "secret");
    assert_eq!(found["open"][0]["version"], found["versions"]["scrim"]);
    let metadata = &found["headers"]["disk.img"]["metadata"];
    assert_eq!(metadata["tokens"]["0"]["type"], "clevis");
    assert!(found["headers"]["missing.img"]["error"].is_string());
    assert!(found["doctor"]["sections"].is_array() && found["log"].is_array());

    let versions = place.scrim(["--version", "--verbose"]);
    assert!(
        versions.starts_with("scrim ") && versions.contains("\nkernel: Linux "),
        "{versions}"
    );
}
