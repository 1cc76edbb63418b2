//! Differences between tables: in the data, or only in the way they are served.

use std::fmt;

use super::{CryptSpec, CryptTable, Line, TargetSpec};

/// Place where another table would make other data of the same stored bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The line of the new table, counted from 1.
    pub line: usize,
    /// Argument that differs, by its name in a table's line.
    pub field: &'static str,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: another {}", self.line, self.field)
    }
}

impl CryptTable {
    /// Returns the first place where `new` would give other data than this table does, if there is one. Flags, a
    /// cipher's driver and a longer last target make no difference. A device is known by its name.
    #[must_use]
    pub fn difference(&self, new: &Self) -> Option<Difference> {
        self.difference_until(self.len(), new)
    }

    /// As [`difference`](Self::difference), with a last line of this table that ends at `end`, in 512-byte units.
    pub(crate) fn difference_until(&self, end: u64, new: &Self) -> Option<Difference> {
        let last = self.lines.len().max(new.lines.len());
        (0..last).find_map(|index| {
            let is_last = index + 1 == last;
            let field = match (self.lines.get(index), new.lines.get(index)) {
                (Some(old), Some(new)) => {
                    let len = match index + 1 == self.lines.len() {
                        true => end.saturating_sub(old.start),
                        false => old.len,
                    };
                    difference(old, len, new, is_last)?
                }
                _ => "number of lines",
            };
            let line = index + 1;
            Some(Difference { line, field })
        })
    }
}

impl CryptTable {
    /// Returns the line of `new`, counted from 1, whose key is all zeros, like a key that was printed
    /// masked; `None` if this table has such a key too.
    #[must_use]
    pub fn masked_key(&self, new: &Self) -> Option<usize> {
        let is_masked = |line: &Line| match &line.target {
            TargetSpec::Crypt(crypt) => {
                let key = crypt.key.expose();
                !key.is_empty() && key.iter().all(|byte| *byte == 0)
            }
            TargetSpec::Linear(_) | TargetSpec::Zero | TargetSpec::Error => false,
        };
        let found = new.lines.iter().position(is_masked)?;
        let is_real = self.lines.iter().any(is_masked);
        (!is_real).then_some(found + 1)
    }
}

fn difference(old: &Line, len: u64, new: &Line, is_last: bool) -> Option<&'static str> {
    if old.start != new.start {
        return Some("start");
    }
    if new.len < len || (!is_last && new.len != len) {
        return Some("length");
    }
    match (&old.target, &new.target) {
        (TargetSpec::Crypt(old), TargetSpec::Crypt(new)) => crypt_difference(old, new),
        (TargetSpec::Linear(old), TargetSpec::Linear(new)) => {
            place_difference((&old.device, old.offset), (&new.device, new.offset))
        }
        (TargetSpec::Zero, TargetSpec::Zero) | (TargetSpec::Error, TargetSpec::Error) => None,
        _ => Some("target"),
    }
}

fn crypt_difference(old: &CryptSpec, new: &CryptSpec) -> Option<&'static str> {
    if !old.cipher.is_equivalent_to(&new.cipher) {
        return Some("cipher");
    }
    // The same user gave both: no attacker could learn a key from the time that this takes.
    if old.key.expose() != new.key.expose() {
        return Some("key");
    }
    if old.iv_offset != new.iv_offset {
        return Some("iv_offset");
    }
    let (was, is) = (&old.options, &new.options);
    if was.sector_size != is.sector_size {
        return Some("sector_size");
    }
    if was.iv_large_sectors != is.iv_large_sectors {
        return Some("iv_large_sectors");
    }
    place_difference((&old.device, old.offset), (&new.device, new.offset))
}

fn place_difference(old: (&String, u64), new: (&String, u64)) -> Option<&'static str> {
    match (old.0 == new.0, old.1 == new.1) {
        (false, _) => Some("device"),
        (true, false) => Some("offset"),
        (true, true) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> CryptTable {
        CryptTable::parse(text).unwrap()
    }

    #[test]
    fn a_masked_key_is_told_from_one_of_zeros() {
        let with = |key: &str| table(&format!("0 8 zero\n8 8 crypt aes-xts-plain64 {key} 0 /a 0"));
        let (real, zeros) = ("01".repeat(64), "00".repeat(64));
        assert_eq!(with(&real).masked_key(&with(&zeros)), Some(2));
        assert_eq!(with(&real).masked_key(&with(&real)), None);
        assert_eq!(with(&zeros).masked_key(&with(&zeros)), None);
        let null = table("0 8 crypt cipher_null-ecb - 0 /a 0");
        assert_eq!(with(&real).masked_key(&null), None);
    }

    #[test]
    fn what_changes_the_data_is_named() {
        let key = "0123456789abcdef".repeat(8);
        let other_key = "1123456789abcdef".repeat(8);
        let old = format!("0 16 crypt aes-xts-plain64 {key} 8 /a 16\n16 8 linear /b 0");
        let line = |crypt: &str| format!("{crypt}\n16 8 linear /b 0");
        let cases = [
            (old.clone(), None),
            (
                line(&format!("0 16 crypt capi:xts(aes)-plain64 {key} 8 /a 16")),
                None,
            ),
            (
                line(&format!(
                    "0 16 crypt aes-xts-plain64 {key} 8 /a 16 2 no_read_workqueue allow_discards"
                )),
                None,
            ),
            (old.replace("16 8 linear", "16 9 linear"), None),
            (
                old.replace("16 8 linear", "16 7 linear"),
                Some((2, "length")),
            ),
            (old.replace("plain64", "plain"), Some((1, "cipher"))),
            (old.replace(&key, &other_key), Some((1, "key"))),
            (old.replace(" 8 /a", " 0 /a"), Some((1, "iv_offset"))),
            (old.replace("/a", "/c"), Some((1, "device"))),
            (old.replace("/a 16", "/a 24"), Some((1, "offset"))),
            (old.replace("/b 0", "/b 1"), Some((2, "offset"))),
            (
                line(&format!(
                    "0 16 crypt aes-xts-plain64 {key} 8 /a 16 1 sector_size:4096"
                )),
                Some((1, "sector_size")),
            ),
            (old.replace("linear /b 0", "zero"), Some((2, "target"))),
            (format!("{old}\n24 8 zero"), Some((2, "length"))),
        ];
        for (new, expected) in cases {
            let found = table(&old).difference(&table(&new));
            let found = found.map(|difference| (difference.line, difference.field));
            let expected = match expected {
                // A line more: the one before it is no longer the last, but as long as it was.
                Some((2, "length")) if new.contains("zero") => Some((3, "number of lines")),
                other => other,
            };
            assert_eq!(found, expected, "{new}");
        }
    }
}
