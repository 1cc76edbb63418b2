//! The order in which people look for names.

use std::cmp::Ordering;

/// Compares names without regard to case, and numbers in them by what they count.
pub(super) fn compare(one: &[u8], other: &[u8]) -> Ordering {
    let (mut left, mut right) = (one, other);
    while let (&[first, ..], &[second, ..]) = (left, right) {
        if first.is_ascii_digit() && second.is_ascii_digit() {
            let (number, after) = number(left);
            let (counterpart, rest) = self::number(right);
            let order = (number.len(), number).cmp(&(counterpart.len(), counterpart));
            if order.is_ne() {
                return order;
            }
            (left, right) = (after, rest);
        } else {
            let order = first.to_ascii_lowercase().cmp(&second.to_ascii_lowercase());
            if order.is_ne() {
                return order;
            }
            (left, right) = (&left[1..], &right[1..]);
        }
    }
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// The digits at the beginning, without zeros in front, and what follows.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let zeros = digits.iter().position(|&digit| digit != b'0');
    (&digits[zeros.unwrap_or(digits.len())..], rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_people() {
        let sorted = [
            "",
            "1",
            "01",
            "2",
            "10",
            "a",
            "A",
            "a1",
            "a2b",
            "a2c",
            "a10",
            "B",
            "b1x99999999999999999999",
            "b1x100000000000000000000",
            "ä",
        ];
        for (at, one) in sorted.iter().enumerate() {
            for (place, other) in sorted.iter().enumerate() {
                // Two spellings of one number, or of one letter, are in the order of their bytes.
                let order = compare(one.as_bytes(), other.as_bytes());
                let is_same_to_people = matches!(
                    (*one, *other),
                    ("1", "01") | ("01", "1") | ("a", "A") | ("A", "a")
                );
                if is_same_to_people {
                    assert_eq!(order, one.cmp(other));
                } else {
                    assert_eq!(order, at.cmp(&place), "{one} {other}");
                }
            }
        }
    }
}
