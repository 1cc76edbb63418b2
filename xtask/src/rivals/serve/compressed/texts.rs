//! Texts that are served: HTML of made-up words, some of which are much more frequent than others, as in a language.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use scrim_seeded::Random;

use super::super::super::room::Room;
use super::coding::Coding;
use crate::error::{Doing, Error};

/// Bytes of a text.
pub(super) const BYTES: usize = 100_000;
/// Number of words of the language.
const WORDS: usize = 4000;
/// Age of the files: in the first seconds after a change Scrim compresses nothing.
const AGE: Duration = Duration::from_secs(3600);

/// Name of the text with this number.
pub(super) fn name(number: usize) -> String {
    format!("{number}.html")
}

/// Writes `count` texts into a folder.
pub(super) fn make(room: &Room, count: usize) -> Result<PathBuf, Error> {
    room.reserve((count * BYTES) as u64)?;
    let root = room.path("texts");
    fs::create_dir(&root).doing(|| format!("make {}", root.display()))?;
    let words = words();
    let write = |path: &Path, number| -> std::io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(&text(&words, number))?;
        file.set_modified(SystemTime::now() - AGE)
    };
    for number in 0..count {
        let path = root.join(name(number));
        write(&path, number).doing(|| format!("write {}", path.display()))?;
    }
    Ok(root)
}

fn words() -> Vec<String> {
    let mut random = Random::new(7);
    let syllables: Vec<String> = "bdfgklmnprst"
        .chars()
        .flat_map(|consonant| {
            "aeiou"
                .chars()
                .map(move |vowel| format!("{consonant}{vowel}"))
        })
        .collect();
    let word = |_| {
        (0..=random.index(4))
            .map(|_| random.pick(&syllables).map_or("", String::as_str))
            .collect()
    };
    (0..WORDS).map(word).collect()
}

fn text(words: &[String], number: usize) -> Vec<u8> {
    let mut random = Random::of(8, number as u64);
    let mut text = format!("<!doctype html>\n<html lang=\"en\"><title>Text {number}</title>\n");
    while text.len() < BYTES {
        text.push_str("<p class=\"paragraph\">");
        for _ in 0..20 + random.index(80) {
            // The lower of three numbers: a word's frequency falls with its place.
            let places = [(); 3].map(|()| random.index(words.len()));
            let place = places.into_iter().min().unwrap_or(0);
            text.push_str(&words[place]);
            text.push(if random.one_in(12) { ',' } else { ' ' });
        }
        text.push_str("</p>\n");
    }
    text.truncate(BYTES);
    text.into_bytes()
}

/// Checks that an answer's content is the text.
pub(super) fn check(root: &Path, number: usize, coding: Coding, body: &[u8]) -> Result<(), Error> {
    let program = coding.program();
    let mut unpacker = Command::new(program)
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .doing(|| format!("start {program}"))?;
    let input = unpacker.stdin.take();
    let output = std::thread::scope(|scope| {
        // Both pipes have to move.
        scope.spawn(move || input.map(|mut input| input.write_all(body)));
        unpacker.wait_with_output()
    });
    let output = output.doing(|| "unpack an answer".to_owned())?;
    let path = root.join(name(number));
    let expected = fs::read(&path).doing(|| format!("read {}", path.display()))?;
    if output.stdout == expected {
        return Ok(());
    }
    Err(Error::program(
        "a server",
        format!("does not send {} as it is", name(number)),
    ))
}
