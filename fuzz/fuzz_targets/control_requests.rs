//! The input is what a client sends to the control socket of an open volume in one piece.
//!
//! The program is no library, so its parser, a file without dependencies, is taken in.

#![no_main]

#[path = "../../crates/cli/src/control/request.rs"]
mod request;

use libfuzzer_sys::fuzz_target;
use request::{REQUEST_MAX, Request};

const WORDS: [&str; 5] = ["status", "table", "table-showkeys", "close", "close-force"];

/// The only one with a number, in its only spelling.
fn is_resize(bytes: &[u8]) -> bool {
    let digits = bytes
        .strip_prefix(b"scrim 1 resize ")
        .and_then(|rest| rest.strip_suffix(b"\n"));
    let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
    number.is_some_and(|number| Some(number.to_string().as_bytes()) == digits)
}

fuzz_target!(|bytes: &[u8]| {
    let line = |word: &&str| format!("scrim 1 {word}\n");
    let known = WORDS.iter().any(|word| line(word).as_bytes() == bytes);
    let request = Request::from_bytes(bytes);
    assert_eq!(request.is_some(), known || is_resize(bytes));
    if let Some(request) = request {
        assert_eq!(request.to_line().as_bytes(), bytes);
        assert!(bytes.len() <= REQUEST_MAX);
    }
});
