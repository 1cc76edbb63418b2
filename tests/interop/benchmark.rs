//! `scrim benchmark`: beside cryptsetup's, its JSON, and an interruption. No figure is looked at.

use std::collections::HashSet;
use std::io::Read;
use std::process::{Child, Output, Stdio};

use serde_json::Value;

use crate::schema::violations;
use crate::support::{Place, have, succeeded, wait_until};

/// As little as can be measured.
const LITTLE: &str = "--rounds 2 --seconds 0.002 --memory 2M";

fn benchmark(place: &Place, words: &str) -> Output {
    let words = format!("benchmark {LITTLE} {words}");
    place.run_with_input("scrim", words.split_whitespace(), b"")
}

/// Digits as `#`, one for a whole number; several spaces as one.
fn shape(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shape: Vec<char> = line
        .chars()
        .map(|c| if c.is_ascii_digit() { '#' } else { c })
        .collect();
    shape.dedup_by(|a, b| *a == '#' && *b == '#');
    shape.into_iter().collect()
}

#[test]
fn key_derivation_is_shown_as_cryptsetup_shows_it() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let place = Place::new();
    for words in [
        "--hash sha256",
        "--pbkdf pbkdf2 --hash whirlpool --key-size 512",
        "--pbkdf argon2id --iter-time 50 --pbkdf-memory 2000 --pbkdf-parallel 1",
    ] {
        let ours = succeeded(words, &benchmark(&place, words));
        let theirs = place.cryptsetup(&format!("benchmark {words}"));
        let [ours, theirs] =
            [&ours, &theirs].map(|text| text.lines().map(shape).collect::<Vec<_>>());
        assert_eq!(ours, theirs, "{words}");
    }
}

#[test]
fn the_json_is_as_documented() {
    let place = Place::new();
    let output = benchmark(
        &place,
        "--json --pbkdf pbkdf2 --cipher aes-xts --cipher aes-xts-plain64 -s 256",
    );
    let text = succeeded("scrim benchmark", &output);
    assert_eq!(text.lines().count(), 1, "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let schema = include_str!("../../docs/benchmark.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(violations(&schema, &report), [""; 0]);
    for result in report["results"].as_array().unwrap() {
        assert_eq!(result["samples"].as_array().unwrap().len(), 2, "{result}");
    }
    let names = report["results"].as_array().unwrap().iter();
    let names: Vec<_> = names
        .map(|result| result["name"].as_str().unwrap())
        .collect();
    for name in [
        "pbkdf2_sha256",
        "aes-xts-plain64_256b_s512_512_hot_encrypt",
        "aes-xts-plain64_256b_s4096_1m_cold_decrypt",
        "memcpy_64k_cold",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let unique: HashSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len(), "{names:?}");
}

#[test]
fn an_interrupted_measurement_gives_what_it_has() {
    let place = Place::new();
    // A hundred rounds of 0.5 s each.
    let words =
        "benchmark --json -c aes-ecb --sector-size 512 --rounds 100 --seconds 2 --memory 2M";
    let child = beyond_the_first_round(&place, words);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("of 100 rounds were run"), "{warnings}");
    for result in report["results"].as_array().unwrap() {
        let samples = result["samples"].as_array().unwrap().len();
        assert!((1..100).contains(&samples), "{result}");
    }
}

/// A measurement of 100 rounds that has come beyond its first.
pub(crate) fn beyond_the_first_round(place: &Place, words: &str) -> Child {
    let mut child = place
        .command("scrim")
        .args(words.split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = child.stderr.take().unwrap();
    let mut said = String::new();
    // The first line comes with the first round, and others follow at growing distances: on a busy machine another one
    // of the first round too.
    let has_come =
        |said: &str| said.matches(" of 100, ").count() > said.matches(" 1 of 100, ").count();
    wait_until("another round than the first", || {
        let mut byte = [0];
        while !has_come(&said) && progress.read(&mut byte).unwrap() == 1 {
            said.push(char::from(byte[0]));
        }
        has_come(&said)
    });
    child
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}
