//! Each rule of the LUKS2 on-disk format (specification 1.1.3) and a header that breaks it, made from a
//! sound one: Scrim refuses it by name. Beside it stands what cryptsetup 2.6.1 makes of the same header,
//! and why, where it judges otherwise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test fails by panicking, and a table of cases is long"
)]

#[path = "../common/mod.rs"]
mod common;
mod rules;

use std::error::Error;
use std::fs;
use std::process::Command;

use common::{
    Bench, COPY, PASSPHRASE, edit, have_cryptsetup, secret, set_checksum, set_json, small_luks2,
    volume_key,
};
use scrim_luks::{CopyFault, Header, HeaderError, Placement};
use serde_json::{Value, json};

/// Damage to a header, in both copies alike.
enum Break {
    /// Members set, or removed where there is no value, by their JSON pointers.
    Json(Vec<(&'static str, Option<Value>)>),
    /// The whole text replaced.
    Text(Vec<u8>),
    /// Bytes of the binary header, under a checksum that is right.
    Binary(usize, Vec<u8>),
    /// Bytes of the binary header, under the old checksum.
    Torn(usize, Vec<u8>),
}

/// A header that breaks a rule, and that Scrim refuses.
struct Case {
    how: Break,
    stage: Stage,
    /// The whole text of Scrim's error.
    text: &'static str,
    cryptsetup: Cryptsetup,
}

/// The stage at which Scrim refuses a header.
#[derive(Debug, PartialEq)]
enum Stage {
    /// While it reads the header.
    Read,
    /// It reads the header, so that it can be shown and kept, and refuses to open the volume.
    Opened,
}

/// Verdict of cryptsetup on a header that Scrim refuses; where it takes one, the reason why Scrim does not.
#[derive(Debug, Clone, Copy)]
enum Cryptsetup {
    /// `luksDump` refuses the header.
    Refuses,
    /// `luksDump` takes the header, but the right passphrase opens nothing.
    RefusesToOpen,
    /// The passphrase opens the volume.
    Opens(&'static str),
    /// `luksDump` takes the header. The test does not wait for what the passphrase does.
    Loads(&'static str),
}

/// A header that breaks a rule, and that Scrim opens all the same.
struct Tolerated {
    how: Break,
    why: &'static str,
    cryptsetup: Verdict,
}

/// Verdict of a program on a header, given the right passphrase.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Verdict {
    Refuses,
    RefusesToOpen,
    Opens,
}

#[test]
fn every_rule_has_a_header_that_breaks_it() {
    let sound = sound();
    let parsed = Header::parse(&sound, DEVICE as u64).unwrap();
    assert!(parsed.findings.is_empty(), "{:?}", parsed.findings);
    assert_eq!(refusal(&sound), None);
    let mut wrong = Vec::new();
    for case in rules::broken(&sound) {
        let found = refusal(&case.how.apply(&sound));
        let expected = (case.stage, case.text.to_owned());
        if found.as_ref() != Some(&expected) {
            wrong.push(format!("{}: {found:?}", case.how.name()));
        }
    }
    for case in rules::tolerated(&sound) {
        if let Some(refusal) = refusal(&case.how.apply(&sound)) {
            wrong.push(format!("{}: {refusal:?}; {}", case.how.name(), case.why));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cryptsetup_judges_as_is_written_here() {
    if !have_cryptsetup() {
        return;
    }
    let bench = Bench::new();
    let sound = sound();
    assert_eq!(judge(&bench, &sound), Verdict::Opens, "the sound header");
    let mut wrong = Vec::new();
    for Case {
        how, cryptsetup, ..
    } in rules::broken(&sound)
    {
        let image = how.apply(&sound);
        let (as_written, why) = match cryptsetup {
            Cryptsetup::Refuses => (judge(&bench, &image) == Verdict::Refuses, ""),
            Cryptsetup::RefusesToOpen => (judge(&bench, &image) == Verdict::RefusesToOpen, ""),
            Cryptsetup::Opens(why) => (judge(&bench, &image) == Verdict::Opens, why),
            Cryptsetup::Loads(why) => (loads(&bench, &image), why),
        };
        if !as_written {
            wrong.push(format!("{}: not {cryptsetup:?} {why}", how.name()));
        }
    }
    for case in rules::tolerated(&sound) {
        let verdict = judge(&bench, &case.how.apply(&sound));
        if verdict != case.cryptsetup {
            wrong.push(format!("{}: {verdict:?}", case.how.name()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Bytes of the device: room for several key slots.
const DEVICE: usize = 2 << 20;

/// A sound header with a bit of everything, and its key slot.
fn sound() -> Vec<u8> {
    let mut image = small_luks2(&volume_key(64));
    edit(&mut image, |document| {
        document["config"]["keyslots_size"] = json!("1048576");
        document["config"]["flags"] = json!(["allow-discards"]);
        document["tokens"]["0"] = json!({"type": "example", "keyslots": ["0"]});
        document["segments"]["0"]["offset"] = json!("1081344");
    });
    image.resize(DEVICE, 0);
    image
}

/// When Scrim refuses to open this with the right passphrase, and what it says.
fn refusal(image: &[u8]) -> Option<(Stage, String)> {
    match Header::parse(image, image.len() as u64) {
        Ok(parsed) => open(&parsed.header, image)
            .err()
            .map(|error| (Stage::Opened, error.to_string())),
        Err(HeaderError::Luks2 { primary, .. }) => Some((
            Stage::Read,
            match primary {
                CopyFault::Json(fault) => fault.to_string(),
                other => other.to_string(),
            },
        )),
        Err(other) => Some((Stage::Read, other.to_string())),
    }
}

fn open(header: &Header, image: &[u8]) -> Result<(), Box<dyn Error>> {
    let segment = header.data_segment()?;
    segment.extent(Placement::Attached, image.len() as u64)?;
    let slot = header.keyslots_to_try(None)?[0];
    let keyslot = header.keyslots().iter().find(|keyslot| keyslot.id == slot);
    let material = keyslot.unwrap().material();
    let material = &image[material.start.try_into()?..material.end.try_into()?];
    header.unlock(slot, material, &secret(PASSPHRASE))?;
    Ok(())
}

fn judge(bench: &Bench, image: &[u8]) -> Verdict {
    if !loads(bench, image) {
        return Verdict::Refuses;
    }
    if cryptsetup(bench, &["open", "--test-passphrase", "--key-file", "key"]) {
        Verdict::Opens
    } else {
        Verdict::RefusesToOpen
    }
}

/// Returns whether cryptsetup takes the header as it is; one that it mends it does not take.
fn loads(bench: &Bench, image: &[u8]) -> bool {
    let path = bench.path("image");
    fs::write(&path, image).unwrap();
    cryptsetup(bench, &["luksDump"]) && fs::read(path).unwrap() == image
}

/// Returns whether this succeeds. What it prints may be no text.
fn cryptsetup(bench: &Bench, arguments: &[&str]) -> bool {
    let mut cryptsetup = Command::new("cryptsetup");
    cryptsetup.args(arguments).arg("image");
    let output = cryptsetup.current_dir(bench.path("")).output();
    output.unwrap().status.success()
}

impl Break {
    fn apply(&self, sound: &[u8]) -> Vec<u8> {
        let mut image = sound.to_vec();
        match self {
            Self::Json(changes) => edit(&mut image, |document| {
                for (pointer, value) in changes {
                    set(document, pointer, value.clone());
                }
            }),
            Self::Text(text) => (0..2).for_each(|copy| set_json(&mut image, copy, text)),
            Self::Binary(at, bytes) | Self::Torn(at, bytes) => {
                for whole in image[..2 * COPY].chunks_exact_mut(COPY) {
                    whole[*at..at + bytes.len()].copy_from_slice(bytes);
                    if matches!(self, Self::Binary(..)) {
                        set_checksum(whole);
                    }
                }
            }
        }
        image
    }

    /// Description for the message of a test that fails.
    fn name(&self) -> String {
        match self {
            Self::Json(changes) => changes
                .iter()
                .map(|(pointer, value)| match value {
                    Some(value) => format!("{pointer} = {value}"),
                    None => format!("{pointer} removed"),
                })
                .collect::<Vec<_>>()
                .join(", "),
            Self::Text(text) => format!("text {:.60}", String::from_utf8_lossy(text)),
            Self::Binary(at, _) => format!("binary header at {at}"),
            Self::Torn(at, _) => format!("binary header at {at}, old checksum"),
        }
    }
}

fn set(document: &mut Value, pointer: &str, value: Option<Value>) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap();
    match value {
        Some(value) => parent[name] = value,
        None => drop(parent.as_object_mut().unwrap().shift_remove(name)),
    }
}
