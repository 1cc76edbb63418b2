//! The input is a table as a user types it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrim_volume::{CryptTable, Keys};

fuzz_target!(|text: &str| {
    match CryptTable::parse(text) {
        Ok(table) => {
            for keys in [Keys::Shown, Keys::Masked] {
                let printed = table.to_text(keys);
                let printed = std::str::from_utf8(printed.expose()).expect("a table is text");
                let again = CryptTable::parse(printed).expect("what was printed is a table");
                let again = again.to_text(keys);
                assert_eq!(std::str::from_utf8(again.expose()), Ok(printed));
            }
            let last = table.lines().last();
            let end = last.and_then(|line| line.start.checked_add(line.len));
            assert_eq!(end, Some(table.len()));
        }
        Err(error) => assert_no_key(text, &error.to_string()),
    }
});

/// Checks that no error repeats a word that could be a key, wherever the word stood.
fn assert_no_key(text: &str, error: &str) {
    let could_be_key =
        |word: &&str| word.len() >= 32 && word.bytes().all(|letter| letter.is_ascii_hexdigit());
    for word in text.split_ascii_whitespace().filter(could_be_key) {
        let told = error
            .split_ascii_whitespace()
            .any(|told| told.trim_matches('`') == word);
        assert!(!told, "a key is told: {error}");
    }
}
