//! The input is a file of ticket keys, which is read and rotated twice.
//!
//! The public functions read files only, so this includes the modules that parse and rotate the text of one.

#![no_main]

#[path = "../../crates/serve/src/tls/tickets/error.rs"]
#[allow(dead_code, reason = "the target uses faults without paths")]
mod error;
#[path = "../../crates/serve/src/tls/tickets/file.rs"]
#[allow(dead_code, reason = "the target rotates text only")]
mod file;
#[path = "../../crates/serve/src/tls/tickets/key.rs"]
mod key;
#[path = "../../crates/serve/src/tls/tickets/keys.rs"]
#[allow(dead_code, reason = "the target parses text only")]
mod keys;
#[path = "../../crates/serve/src/whole_file.rs"]
#[allow(dead_code, reason = "the target writes no file")]
mod whole_file;

use error::TicketKeysFault;
use keys::TicketKeys;
use libfuzzer_sys::fuzz_target;

const KEYS_MAX: usize = 16;
/// Keys that a rotation leaves at most.
const KEPT: usize = 3;
const SESSION: &[u8] = b"a session";

/// The six bits that a character of base64 stands for.
fn bits(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Returns whether a line is the only base64 of some 32 bytes: 42 characters, one with four bits, and a padding.
fn is_key(line: &[u8]) -> bool {
    line.len() == 44
        && line[..43]
            .iter()
            .all(|&character| bits(character).is_some())
        && bits(line[42]).is_some_and(|bits| bits.is_multiple_of(4))
        && line[43] == b'='
}

fn is_comment(line: &[u8]) -> bool {
    line.is_empty() || line[0] == b'#'
}

/// The lines of a text without the white space at their ends.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<_> = text.split(|&byte| byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) && lines.len() > 1 {
        lines.pop();
    }
    lines.iter().map(|line| line.trim_ascii_end()).collect()
}

/// The keys in these lines, or the number of the first line that is wrong.
fn expected<'a>(lines: &[&'a [u8]]) -> Result<Vec<&'a [u8]>, usize> {
    let mut keys = Vec::new();
    for (number, line) in (1..).zip(lines).filter(|(_, line)| !is_comment(line)) {
        if keys.len() == KEYS_MAX || !is_key(line) || keys.contains(line) {
            return Err(number);
        }
        keys.push(*line);
    }
    Ok(keys)
}

/// Checks a rotation of a text with these keys, and returns the new text.
fn assert_rotated(text: &[u8], old: &[&[u8]]) -> Vec<u8> {
    let (rotated, count) = file::rotated(text).expect("a text that can be used");
    let rotated_lines = lines(&rotated);
    let new = expected(&rotated_lines).expect("a text that can be used");
    let made = if old.is_empty() { 2 } else { 1 };
    assert_eq!((count, new.len()), (KEPT.min(old.len() + made), count));
    let kept = &old[old.len() - (count - made)..];
    assert_eq!(new[..count - made], *kept);
    assert!(!new[count - made..].iter().any(|key| old.contains(key)));
    // Everything else stays, in its order.
    let mut expected_lines = lines(text);
    expected_lines.retain(|line| is_comment(line) || kept.contains(line));
    assert_eq!(rotated_lines[..rotated_lines.len() - made], expected_lines);
    // Servers with the one and with the other file open each other's tickets.
    let after = TicketKeys::parse(&rotated).expect("a text that can be used");
    if let Ok(before) = TicketKeys::parse(text) {
        for (making, opening) in [(&before, &after), (&after, &before)] {
            let ticket = making.seal(0, SESSION).expect("a ticket");
            assert_eq!(opening.open(0, &ticket).as_deref(), Some(SESSION));
        }
    }
    rotated.to_vec()
}

fuzz_target!(|text: &[u8]| {
    match (TicketKeys::parse(text), expected(&lines(text))) {
        (Ok(_), Ok(old)) if !old.is_empty() => {
            let rotated = assert_rotated(text, &old);
            let old = expected(&lines(&rotated)).expect("a text that can be used");
            assert_rotated(&rotated, &old);
        }
        (Err(TicketKeysFault::Empty), Ok(old)) if old.is_empty() => {
            assert_rotated(text, &old);
        }
        (Err(TicketKeysFault::Line { number, .. }), Err(expected)) if number == expected => {
            assert!(file::rotated(text).is_err());
        }
        (parsed, expected) => panic!("{parsed:?} instead of {expected:?}"),
    }
});
