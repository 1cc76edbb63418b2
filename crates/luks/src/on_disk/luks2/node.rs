//! A member of the JSON metadata with its path: every read checks type, spelling and range.

use std::ops::RangeInclusive;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::error::{JsonFault, Problem};

/// Longest string that names an algorithm, a type or a flag.
const MAX_NAME: usize = 128;

/// A JSON value and where it stands.
pub(super) struct Node<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Node<'a> {
    /// The member `name` of the outermost object.
    pub(super) fn of_root(root: &'a Map<String, Value>, name: &str) -> Result<Self, JsonFault> {
        let path = name.to_owned();
        match root.get(name) {
            Some(value) => Ok(Self { path, value }),
            None => Err(JsonFault {
                path,
                problem: Problem::Missing,
            }),
        }
    }

    /// A value of its own.
    pub(super) fn of_value(name: &str, value: &'a Value) -> Self {
        Self {
            path: name.to_owned(),
            value,
        }
    }

    pub(super) fn fault(&self, problem: Problem) -> JsonFault {
        JsonFault {
            path: self.path.clone(),
            problem,
        }
    }

    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    pub(super) fn object(&self) -> Result<&'a Map<String, Value>, JsonFault> {
        self.value
            .as_object()
            .ok_or_else(|| self.fault(Problem::Expected("an object")))
    }

    /// The member `name`, if there is one.
    pub(super) fn find(&self, name: &str) -> Result<Option<Self>, JsonFault> {
        Ok(self
            .object()?
            .get(name)
            .map(|value| self.child(name, value)))
    }

    /// The member `name`, which must be there.
    pub(super) fn get(&self, name: &str) -> Result<Self, JsonFault> {
        self.find(name)?.ok_or_else(|| JsonFault {
            path: format!("{}.{name}", self.path),
            problem: Problem::Missing,
        })
    }

    /// The members of an object whose keys are numbers below `limit`, by number.
    pub(super) fn numbered(&self, limit: u8) -> Result<Vec<(u8, Self)>, JsonFault> {
        let object = self.object()?;
        let mut members = Vec::new();
        for (name, value) in object {
            let member = self.child(name, value);
            let id = parse_id(name, limit)
                .ok_or_else(|| member.fault(Problem::Expected("named by a number in its range")))?;
            members.push((id, member));
        }
        members.sort_by_key(|(id, _)| *id);
        Ok(members)
    }

    /// An array of at most `limit` elements.
    pub(super) fn array(&self, limit: usize) -> Result<Vec<Self>, JsonFault> {
        let array = self
            .value
            .as_array()
            .ok_or_else(|| self.fault(Problem::Expected("an array")))?;
        if array.len() > limit {
            return Err(self.fault(Problem::TooMany { limit }));
        }
        let elements = array.iter().enumerate();
        Ok(elements
            .map(|(index, value)| self.child(&index.to_string(), value))
            .collect())
    }

    /// An array of numbers below `limit`, as strings, each at most once.
    pub(super) fn ids(&self, limit: u8) -> Result<Vec<u8>, JsonFault> {
        let mut ids = Vec::new();
        for element in self.array(usize::from(limit))? {
            let id = parse_id(element.text()?, limit)
                .ok_or_else(|| element.fault(Problem::Expected("a number in its range")))?;
            if ids.contains(&id) {
                let other = self.path.clone();
                return Err(element.fault(Problem::Twice { other }));
            }
            ids.push(id);
        }
        Ok(ids)
    }

    /// A string of any characters, also empty.
    pub(super) fn string(&self) -> Result<&'a str, JsonFault> {
        self.value
            .as_str()
            .ok_or_else(|| self.fault(Problem::Expected("a string")))
    }

    /// Printable ASCII, not empty, of bounded length.
    pub(super) fn text(&self) -> Result<&'a str, JsonFault> {
        match self.value.as_str() {
            Some(text)
                if !text.is_empty()
                    && text.len() <= MAX_NAME
                    && text.bytes().all(|byte| byte.is_ascii_graphic()) =>
            {
                Ok(text)
            }
            _ => Err(self.fault(Problem::Expected("a short word"))),
        }
    }

    /// A JSON number in `allowed`.
    pub(super) fn number(&self, allowed: RangeInclusive<u32>) -> Result<u32, JsonFault> {
        let value = self
            .value
            .as_u64()
            .ok_or_else(|| self.fault(Problem::Expected("a whole number")))?;
        match u32::try_from(value) {
            Ok(number) if allowed.contains(&number) => Ok(number),
            _ => Err(self.fault(Problem::OutOfRange {
                value,
                allowed: u64::from(*allowed.start())..=u64::from(*allowed.end()),
            })),
        }
    }

    /// A number of 64 bits, which LUKS2 writes as a string of decimal digits.
    pub(super) fn decimal(&self) -> Result<u64, JsonFault> {
        self.value
            .as_str()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| self.fault(Problem::Expected("a string of decimal digits, 64 bits")))
    }

    /// Bytes in Base64, as many as `allowed` says.
    pub(super) fn bytes(&self, allowed: RangeInclusive<usize>) -> Result<Vec<u8>, JsonFault> {
        let wrong = || self.fault(Problem::Expected("a string in Base64"));
        let text = self.value.as_str().ok_or_else(wrong)?;
        let length = |len| {
            let allowed = allowed.clone();
            self.fault(Problem::Length { len, allowed })
        };
        if text.len() > allowed.end().div_ceil(3).saturating_mul(4) {
            return Err(length(text.len() / 4 * 3));
        }
        let bytes = STANDARD.decode(text).map_err(|_| wrong())?;
        if !allowed.contains(&bytes.len()) {
            return Err(length(bytes.len()));
        }
        Ok(bytes)
    }

    fn child(&self, name: &str, value: &'a Value) -> Self {
        Self {
            path: format!("{}.{}", self.path, shorten(name)),
            value,
        }
    }
}

/// A name from an untrusted header, short enough for a message.
pub(super) fn shorten(name: &str) -> String {
    if name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return name.to_owned();
    }
    let start: String = name.chars().take(24).collect();
    format!("{start:?}…")
}

/// A decimal number below `limit` in its one spelling: no sign, no leading zero.
fn parse_id(text: &str, limit: u8) -> Option<u8> {
    let id: u8 = text.parse().ok()?;
    (id < limit && id.to_string() == text).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with<T>(value: &Value, read: impl FnOnce(Node<'_>) -> T) -> T {
        let mut root = Map::new();
        root.insert("x".to_owned(), value.clone());
        read(Node::of_root(&root, "x").unwrap())
    }

    #[test]
    fn decimals_are_strings_of_digits_within_64_bits() {
        let read = |value: &Value| with(value, |node| node.decimal());
        assert_eq!(read(&json!("18446744073709551615")), Ok(u64::MAX));
        assert_eq!(read(&json!("0")), Ok(0));
        for bad in [
            "18446744073709551616",
            "-1",
            "+1",
            "",
            " 1",
            "0x10",
            "1e3",
            "dynamic",
        ] {
            assert!(read(&json!(bad)).is_err(), "{bad}");
        }
        assert!(read(&json!(5)).is_err());
    }

    #[test]
    fn numbers_are_whole_and_in_range() {
        let read = |value: &Value| with(value, |node| node.number(1..=10));
        assert_eq!(read(&json!(10)), Ok(10));
        for bad in [
            json!(0),
            json!(11),
            json!(-1),
            json!(1.5),
            json!("5"),
            json!(1u64 << 32),
        ] {
            assert!(read(&bad).is_err(), "{bad}");
        }
        let four_tib = json!(4_294_967_296_u64);
        let fault = with(&four_tib, |node| node.number(1..=u32::MAX)).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "x is 4294967296, outside 1 to 4294967295"
        );
    }

    #[test]
    fn ids_have_one_spelling_and_occur_once() {
        let read = |value: &Value| with(value, |node| node.ids(8));
        assert_eq!(read(&json!(["7", "0"])), Ok(vec![7, 0]));
        for bad in [
            json!(["8"]),
            json!(["00"]),
            json!(["+1"]),
            json!([1]),
            json!(["1", "1"]),
        ] {
            assert!(read(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn base64_is_bounded_before_it_is_decoded() {
        let read = |value: &Value| with(value, |node| node.bytes(1..=4));
        assert_eq!(read(&json!("AAECAw==")), Ok(vec![0, 1, 2, 3]));
        for bad in [
            "",
            "AAECAwQ=",
            "AAECAw",
            "AAEC Aw=",
            "AAEC!w==",
            &"A".repeat(1 << 20),
        ] {
            assert!(read(&json!(bad)).is_err(), "{}", bad.len());
        }
    }

    #[test]
    fn names_in_messages_stay_short_and_printable() {
        let mut members = Map::new();
        members.insert(format!("\u{1b}[31m{}", "x".repeat(1 << 16)), json!(0));
        let fault = with(&Value::Object(members), |node| node.numbered(8).map(|_| ()));
        let message = fault.unwrap_err().to_string();
        assert!(
            message.len() < 120 && !message.contains('\u{1b}'),
            "{message}"
        );
    }
}
