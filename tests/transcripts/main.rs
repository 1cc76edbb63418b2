//! Sessions at the shell, as a user would see them: every `tests/transcripts/*.txt` is run in a
//! fresh folder, one shell for the whole file, and what it prints (standard output and error
//! together) must be what the file says.
//!
//! ```text
//! # a comment
//! $ scrim isLuks zeros.img
//! [exit 1]
//! ```
//!
//! `[..]` stands for anything within a line. `SCRIM_TRANSCRIPTS=update cargo test` writes what was
//! printed into the files.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a failing test may panic"
)]

#[allow(
    dead_code,
    unused_imports,
    reason = "shared by several test programs, each using a part"
)]
#[path = "../support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::path::Path;

use support::{Place, have};

/// Ends each command's output in the shell's stream, with its exit code.
const MARK: &str = "@@end-of-command@@";

#[test]
fn every_transcript_is_true() {
    if !have(&[
        "bash",
        "cryptsetup",
        "curl",
        "mke2fs",
        "nbdinfo",
        "openssl",
        "truncate",
    ]) {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transcripts");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let checks: Vec<_> = files
            .iter()
            .map(|file| scope.spawn(|| check(file)))
            .collect();
        let results = checks.into_iter().map(|check| check.join().unwrap());
        results.flatten().collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs one file; returns what is wrong.
fn check(file: &Path) -> Option<String> {
    let expected = std::fs::read_to_string(file).unwrap();
    let commands: Vec<&str> = expected
        .lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .collect();
    let mut outputs = run(&commands).into_iter();
    let mut actual = String::new();
    let mut lines = expected.lines().peekable();
    while let Some(line) = lines.next() {
        // An empty line is the file's own only where no more output follows it.
        let next_is_ours = lines.peek().is_none_or(|next| next.starts_with(['#', '$']));
        if line.starts_with("$ ") {
            let _ = writeln!(actual, "{line}");
            actual.push_str(&outputs.next().unwrap_or_default());
        } else if line.starts_with('#') || (line.is_empty() && next_is_ours) {
            let _ = writeln!(actual, "{line}");
        }
    }
    if same(&expected, &actual) {
        return None;
    }
    if std::env::var("SCRIM_TRANSCRIPTS").is_ok_and(|v| v == "update") {
        std::fs::write(file, &actual).unwrap();
        return None;
    }
    Some(format!("{}: this was printed:\n{actual}", file.display()))
}

/// The output of each command, with a line `[exit N]` where it failed.
fn run(commands: &[&str]) -> Vec<String> {
    let place = Place::new();
    let mut script = String::from("exec 2>&1\n");
    for command in commands {
        let _ = writeln!(script, "{command}\nprintf '{MARK}%d\\n' $?");
    }
    let output = place.run_with_input("bash", ["-c", &script], b"");
    let text = String::from_utf8_lossy(&output.stdout);
    // The place differs from run to run.
    let text = text.replace(&place.dir().display().to_string(), "/place");
    let mut outputs = Vec::new();
    let mut now = String::new();
    for line in text.lines().filter(|line| !is_progress(line)) {
        let Some((before, code)) = line.split_once(MARK) else {
            let _ = writeln!(now, "{line}");
            continue;
        };
        if !before.is_empty() {
            let _ = writeln!(now, "{before}");
        }
        if code != "0" {
            let _ = writeln!(now, "[exit {code}]");
        }
        outputs.push(std::mem::take(&mut now));
    }
    outputs
}

/// Returns whether a line shows the progress of work that takes long, which it does on a slow disk only.
fn is_progress(line: &str) -> bool {
    let activities = ["encrypting ", "decrypting ", "packing ", "verifying "];
    activities.iter().any(|activity| line.starts_with(activity)) && line.contains(" %, ")
}

fn same(expected: &str, actual: &str) -> bool {
    expected.lines().count() == actual.lines().count()
        && expected
            .lines()
            .zip(actual.lines())
            .all(|(e, a)| line_matches(e, a))
}

/// Returns whether a line is what was expected, `[..]` standing for anything.
fn line_matches(expected: &str, actual: &str) -> bool {
    let mut pieces = expected.split("[..]");
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = actual.strip_prefix(first) else {
        return false;
    };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else {
        return rest.is_empty();
    };
    for piece in middle {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn a_wildcard_stands_for_anything_within_a_line() {
    assert!(line_matches("a [..] b", "a x y b"));
    assert!(line_matches("[..]", ""));
    assert!(!line_matches("a [..] b", "a x c"));
    assert!(!line_matches("ab", "abc"));
    assert!(line_matches("[..]x[..]", "axb"));
}
