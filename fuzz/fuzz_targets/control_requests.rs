//! The input is the line that a client sends to the control socket of an open volume.
//!
//! The program is no library, so its parser, a file that needs `scrim-volume` only, is taken in.

#![no_main]

#[path = "../../crates/cli/src/nbd/control/request.rs"]
mod request;

use libfuzzer_sys::fuzz_target;
use request::{JSON_MAX, KEY_MAX, LINE_MAX, READ_MAX, Request};
use scrim_volume::CryptTable;

const WORDS: [&str; 15] = [
    "status",
    "statistics",
    "table",
    "table-showkeys",
    "inactive",
    "inactive-showkeys",
    "suspend",
    "forget",
    "resume",
    "release",
    "clear",
    "close",
    "close-force",
    "close-deferred",
    "close-cancel",
];

/// A number in its only spelling.
fn number(digits: &str) -> Option<u64> {
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

fn is_request(bytes: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(bytes) else {
        return false;
    };
    let words = line.strip_prefix("scrim 1 ");
    let Some(words) = words.and_then(|words| words.strip_suffix('\n')) else {
        return false;
    };
    match words.split(' ').collect::<Vec<_>>()[..] {
        [word] => WORDS.contains(&word),
        ["hold", seconds] => number(seconds).is_some_and(|seconds| seconds <= u16::MAX.into()),
        ["resize", sectors] => number(sectors).is_some(),
        ["mount" | "umount", len] => number(len).is_some_and(|len| len <= JSON_MAX as u64),
        ["resume-key", len] => number(len).is_some_and(|len| len <= KEY_MAX as u64),
        ["header", offset, len] => {
            number(offset).is_some() && number(len).is_some_and(|len| len <= READ_MAX as u64)
        }
        ["reload" | "reload-force", len] => {
            number(len).is_some_and(|len| len <= CryptTable::TEXT_MAX as u64)
        }
        ["refresh", "as-it-is" | "auto" | "inline" | "queued", flags] => {
            flags.len() == 6 && flags.bytes().all(|flag| flag == b'0' || flag == b'1')
        }
        _ => false,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let request = Request::from_line(bytes);
    assert_eq!(request.is_some(), is_request(bytes));
    if let Some(request) = request {
        assert_eq!(request.to_line().as_bytes(), bytes);
        let body_max = CryptTable::TEXT_MAX.max(KEY_MAX).max(JSON_MAX);
        assert!(bytes.len() <= LINE_MAX && request.body_len() <= body_max);
    }
});
