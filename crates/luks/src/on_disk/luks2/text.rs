//! The JSON area as text: bounded before it is parsed, and strict about repeated keys.
//!
//! LUKS2 specification, chapter 3: one JSON object, then a NUL, then nothing but NULs to the end of
//! the area.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::node::shorten;
use crate::error::{JsonFault, Problem};

/// Deepest nesting. The structures of LUKS2 need 5, and a token may hold some of its own.
const MAX_DEPTH: usize = 32;
/// Most values in one area, so that 4 MiB of `0,0,0,…` cannot become gigabytes in memory. A full
/// header of 32 key slots has about a thousand.
const MAX_VALUES: usize = 1 << 16;

/// Parses the object in a JSON area.
pub(super) fn parse(area: &[u8]) -> Result<Map<String, Value>, JsonFault> {
    let fault = |problem| Err(JsonFault::whole(problem));
    let Some(len) = area.iter().position(|&byte| byte == 0) else {
        return fault(Problem::Unterminated);
    };
    let (text, rest) = area.split_at(len);
    if text.first() != Some(&b'{') {
        return fault(Problem::NotAnObject);
    }
    if rest.iter().any(|&byte| byte != 0) {
        return fault(Problem::TrailingBytes);
    }
    parse_text(text)
}

/// Parses text that is one object.
pub(super) fn parse_text(text: &[u8]) -> Result<Map<String, Value>, JsonFault> {
    let fault = |problem| Err(JsonFault::whole(problem));
    bound(text).map_err(JsonFault::whole)?;
    let repeated = RefCell::new(None);
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Strict(&repeated)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    match (value, repeated.into_inner()) {
        (Ok(Value::Object(object)), _) => Ok(object),
        (Ok(_), _) => fault(Problem::NotAnObject),
        (Err(_), Some(key)) => fault(Problem::RepeatedKey(shorten(&key))),
        (Err(error), None) => fault(Problem::Syntax {
            line: error.line(),
            column: error.column(),
        }),
    }
}

/// Refuses text that would nest too deep or hold too many values, without building anything.
fn bound(text: &[u8]) -> Result<(), Problem> {
    let (mut depth, mut values) = (0usize, 1usize);
    let (mut in_string, mut escaped) = (false, false);
    for &byte in text {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' | b':' => values += 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Problem::TooDeep { limit: MAX_DEPTH });
        }
        if values > MAX_VALUES {
            return Err(Problem::TooManyValues { limit: MAX_VALUES });
        }
    }
    Ok(())
}

/// Builds a [`Value`] as `serde_json` does, but refuses an object that names a key twice, and
/// leaves that key where the caller finds it.
#[derive(Clone, Copy)]
struct Strict<'r>(&'r RefCell<Option<String>>);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if object.contains_key(&key) {
                self.0.replace(Some(key));
                return Err(A::Error::custom("repeated key"));
            }
            object.insert(key, map.next_value_seed(self)?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &[u8]) -> Problem {
        let mut area = text.to_vec();
        area.push(0);
        parse(&area).unwrap_err().problem
    }

    #[test]
    fn an_object_and_nuls_are_read_in_order() {
        let object = parse(b"{\"b\":[1,-2,2.5,null,true],\"a\":{\"x\":\"y\"}}\0\0\0").unwrap();
        let expected = "{\"b\":[1,-2,2.5,null,true],\"a\":{\"x\":\"y\"}}";
        assert_eq!(serde_json::to_string(&object).unwrap(), expected);
    }

    /// Fuzzing found the last one: it was another number after each time that it was written.
    #[test]
    fn numbers_stay_the_same_when_they_are_written_again() {
        for number in [
            "0.1",
            "-0.0",
            "1e20",
            "5e-324",
            "18446744073709551616",
            "1.7976931343972400e308",
        ] {
            let read = parse(format!("{{\"n\":{number}}}\0").as_bytes()).unwrap();
            let written = serde_json::to_string(&read).unwrap() + "\0";
            assert_eq!(parse(written.as_bytes()).unwrap(), read, "{number}");
        }
    }

    #[test]
    fn only_one_object_and_then_nuls() {
        assert!(matches!(
            parse(b"{}").unwrap_err().problem,
            Problem::Unterminated
        ));
        assert!(matches!(
            parse(b"").unwrap_err().problem,
            Problem::Unterminated
        ));
        assert!(matches!(
            parse(b"{}\0x\0").unwrap_err().problem,
            Problem::TrailingBytes
        ));
        for text in ["", "[]", " {}", "null", "7"] {
            assert!(
                matches!(problem(text.as_bytes()), Problem::NotAnObject),
                "{text}"
            );
        }
        for text in ["{", "{}{}", "{\"a\":}", "{\"a\":1e999}", "{\"a\":tru}"] {
            assert!(
                matches!(problem(text.as_bytes()), Problem::Syntax { .. }),
                "{text}"
            );
        }
        assert!(matches!(problem(b"{\"\xff\":1}"), Problem::Syntax { .. }));
    }

    #[test]
    fn a_repeated_key_is_named() {
        let repeated = problem(br#"{"a":1,"b":{"c":1,"d":2,"c":3}}"#);
        assert!(matches!(repeated, Problem::RepeatedKey(key) if key == "c"));
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let nest = |depth| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(format!("{}\0", nest(MAX_DEPTH - 1)).as_bytes()).is_ok());
        assert!(matches!(
            problem(nest(MAX_DEPTH).as_bytes()),
            Problem::TooDeep { .. }
        ));
        let unclosed = "{\"a\":".repeat(1 << 20);
        assert!(matches!(
            problem(unclosed.as_bytes()),
            Problem::TooDeep { .. }
        ));
        let zeros = format!("{{\"a\":[{}0]}}", "0,".repeat(1 << 21));
        assert!(matches!(
            problem(zeros.as_bytes()),
            Problem::TooManyValues { .. }
        ));
        let text = format!("{{\"a\":\"{}\\\"[[\"}}\0", "[{,".repeat(1 << 20));
        assert!(parse(text.as_bytes()).is_ok());
    }
}
