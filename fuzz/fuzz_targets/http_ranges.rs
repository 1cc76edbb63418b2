//! The input is the length of some content, and a `Range` of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrim_serve::http::Ranges;

fuzz_target!(|input: (u64, &[u8])| {
    let (length, value) = input;
    let ranges = Ranges::parse(value, length);
    let list = match &ranges {
        Ranges::All | Ranges::Unsatisfiable => return,
        Ranges::One(range) => std::slice::from_ref(range),
        Ranges::Several(list) => {
            assert!((2..=16).contains(&list.len()));
            list
        }
    };
    for (at, range) in list.iter().enumerate() {
        assert!(range.start < range.end && range.end <= length);
        for other in &list[at + 1..] {
            assert!(range.end < other.start || other.end < range.start);
        }
    }
    // The same ranges written differently give the same result.
    let words: Vec<String> = list
        .iter()
        .map(|range| format!("{}-{}", range.start, range.end - 1))
        .collect();
    let words = format!("Bytes={}", words.join(" ,\t, "));
    assert_eq!(Ranges::parse(words.as_bytes(), length), ranges);
});
