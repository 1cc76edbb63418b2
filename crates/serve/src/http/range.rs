//! Ranges of bytes that a request asks for (RFC 9110, 14).

use std::ops::Range;

/// Most ranges that are answered, more than any reader of files needs: a request for more gets the whole content.
const MOST: usize = 16;

/// Ranges that `Range` asks for, of content of a known length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// All of it: the field is malformed, in another unit or absurd, so that it is ignored.
    All,
    /// One range, which is not empty.
    One(Range<u64>),
    /// Several ranges, none of them empty, without a byte in common, in the order in which they were asked for.
    Several(Vec<Range<u64>>),
    /// No byte that the content has.
    Unsatisfiable,
}

impl Ranges {
    /// Reads the field's value.
    #[must_use]
    pub fn parse(value: &[u8], length: u64) -> Self {
        // No part of empty content can be named, and a client that adds a range to every request wants to learn that
        // the content is empty, not that something is wrong.
        let Some(set) = range_set(value).filter(|_| length > 0) else {
            return Self::All;
        };
        // One range, as nearly always, needs no memory.
        if !set.contains(&b',') {
            return match Spec::parse(set).map(|spec| spec.within(length)) {
                None => Self::All,
                Some(range) if range.is_empty() => Self::Unsatisfiable,
                Some(range) => Self::One(range),
            };
        }
        several(set, length)
    }
}

/// Text behind the unit, if the unit is bytes.
fn range_set(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked("bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

fn several(set: &[u8], length: u64) -> Ranges {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    // A list may have empty elements (RFC 9110, 5.6.1.2), but not without end.
    for (count, part) in set.split(|&byte| byte == b',').enumerate() {
        if count >= 2 * MOST {
            return Ranges::All;
        }
        let part = part.trim_ascii();
        if part.is_empty() {
            continue;
        }
        match Spec::parse(part).map(|spec| spec.within(length)) {
            None => return Ranges::All,
            Some(range) if range.is_empty() => {}
            Some(_) if ranges.len() == MOST => return Ranges::All,
            Some(range) => ranges.push(range),
        }
    }
    coalesce(&mut ranges);
    match ranges.as_slice() {
        [] => Ranges::Unsatisfiable,
        [range] => Ranges::One(range.clone()),
        _ => Ranges::Several(ranges),
    }
}

/// Joins ranges that overlap or touch, so that no byte is sent twice. There are few of them.
fn coalesce(ranges: &mut Vec<Range<u64>>) {
    let mut at = 0;
    while at < ranges.len() {
        let this = ranges[at].clone();
        let touches = |other: &Range<u64>| other.start <= this.end && this.start <= other.end;
        match ranges[at + 1..].iter().position(touches) {
            // The joined range may touch one that was passed: it is looked at again from there.
            Some(further) => {
                let other = ranges.remove(at + 1 + further);
                ranges[at] = this.start.min(other.start)..this.end.max(other.end);
            }
            None => at += 1,
        }
    }
}

/// A range as it is asked for.
enum Spec {
    /// Bytes from the first to the last, both included.
    Between(u64, u64),
    /// Bytes from this one on.
    From(u64),
    /// This number of bytes at the end.
    Last(u64),
}

impl Spec {
    fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|&byte| byte == b'-')?;
        let (first, last) = (&text[..dash], &text[dash + 1..]);
        match (first.is_empty(), last.is_empty()) {
            (true, true) => None,
            (true, false) => Some(Self::Last(number(last)?)),
            (false, true) => Some(Self::From(number(first)?)),
            (false, false) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::Between(first, last))
            }
        }
    }

    /// Bytes of this range that the content has; an empty range where it has none of them.
    fn within(&self, length: u64) -> Range<u64> {
        match *self {
            Self::Between(first, last) => first..last.saturating_add(1).min(length),
            Self::From(first) => first..length,
            Self::Last(count) => length.saturating_sub(count)..length,
        }
    }
}

/// A number, or the largest one where it has too many digits: no file reaches so far.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0_u64, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn several(ranges: &[Range<u64>]) -> Ranges {
        Ranges::Several(ranges.to_vec())
    }

    #[test]
    fn the_examples_of_rfc_9110_are_read_as_it_says() {
        // Section 14.1.2, of content of 10,000 bytes.
        for (value, ranges) in [
            ("bytes=0-499", Ranges::One(0..500)),
            ("bytes=500-999", Ranges::One(500..1000)),
            ("bytes=-500", Ranges::One(9500..10000)),
            ("bytes=9500-", Ranges::One(9500..10000)),
            ("bytes=0-0,-1", several(&[0..1, 9999..10000])),
            (
                "bytes= 0-999, 4500-5499, -1000",
                several(&[0..1000, 4500..5500, 9000..10000]),
            ),
            // These two overlap or touch, which the RFC lets a server join.
            ("bytes=500-600,601-999", Ranges::One(500..1000)),
            ("bytes=500-700,601-999", Ranges::One(500..1000)),
        ] {
            assert_eq!(Ranges::parse(value.as_bytes(), 10000), ranges, "{value}");
        }
    }

    #[test]
    fn ranges_are_cut_to_what_is_there() {
        for (value, length, ranges) in [
            ("bytes=0-", 10, Ranges::One(0..10)),
            ("bytes=0-99", 10, Ranges::One(0..10)),
            ("bytes=9-99999999999999999999999", 10, Ranges::One(9..10)),
            ("bytes=-99", 10, Ranges::One(0..10)),
            ("BYTES=2-3", 10, Ranges::One(2..4)),
            ("bytes=2-3,20-30", 10, Ranges::One(2..4)),
            ("bytes=,2-3,,5-5,", 10, several(&[2..4, 5..6])),
            ("bytes=8-9,0-1", 10, several(&[8..10, 0..2])),
            ("bytes=0-1,5-6,2-4", 10, Ranges::One(0..7)),
            ("bytes=8-8,0-1,5-6,2-4", 10, several(&[8..9, 0..7])),
        ] {
            assert_eq!(Ranges::parse(value.as_bytes(), length), ranges, "{value}");
        }
    }

    #[test]
    fn what_is_not_there_is_unsatisfiable() {
        for (value, length) in [
            ("bytes=10-", 10),
            ("bytes=10-20", 10),
            ("bytes=-0", 10),
            ("bytes=99999999999999999999-", 10),
            ("bytes=10-20,30-,-0", 10),
            ("bytes=,", 10),
        ] {
            assert_eq!(
                Ranges::parse(value.as_bytes(), length),
                Ranges::Unsatisfiable,
                "{value}"
            );
        }
    }

    #[test]
    fn what_is_malformed_or_absurd_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-4",
            "bytes=0-4,5-4",
            "bytes=1",
            "bytes=+1-2",
            "bytes=1-2-3",
            "bytes=0x1-2",
            "bytes =0-1",
            "items=0-1",
            "bytes=1 -2",
            "bytes=- 1",
        ] {
            assert_eq!(Ranges::parse(value.as_bytes(), 10), Ranges::All, "{value}");
        }
        for value in ["bytes=0-", "bytes=-5", "bytes=0-0", "bytes=0-0,1-1"] {
            assert_eq!(Ranges::parse(value.as_bytes(), 0), Ranges::All, "{value}");
        }
        let many: Vec<String> = (0..17).map(|n| format!("{}-{}", 3 * n, 3 * n)).collect();
        let value = format!("bytes={}", many.join(","));
        assert_eq!(Ranges::parse(value.as_bytes(), 1000), Ranges::All);
        let value = format!("bytes={}", many[..16].join(","));
        assert!(
            matches!(Ranges::parse(value.as_bytes(), 1000), Ranges::Several(ranges) if ranges.len() == 16)
        );
        let commas = format!("bytes=0-0{}", ",".repeat(8000));
        assert_eq!(Ranges::parse(commas.as_bytes(), 10), Ranges::All);
    }
}
