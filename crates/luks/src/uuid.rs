//! UUIDs (RFC 9562) as text.

use crate::random::{self, RandomError};

/// The one that was asked for, if it is one, or else a random one.
pub(crate) fn given_or_random<E: From<RandomError>>(
    given: Option<&str>,
    refused: impl FnOnce(String) -> E,
) -> Result<String, E> {
    match given {
        Some(uuid) if is_uuid(uuid) => Ok(uuid.to_owned()),
        Some(other) => Err(refused(other.to_owned())),
        None => Ok(v4()?),
    }
}

pub(crate) fn is_uuid(text: &str) -> bool {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    let fits = |(at, byte): (usize, u8)| {
        (byte == b'-') == dash(at) && (dash(at) || byte.is_ascii_hexdigit())
    };
    text.len() == 36 && text.bytes().enumerate().all(fits)
}

/// A random UUID, version 4.
fn v4() -> Result<String, RandomError> {
    let mut id = u128::from_be_bytes(random::bytes()?);
    id = id & !(0xf << 76) | 0x4 << 76;
    id = id & !(0b11 << 62) | 0b10 << 62;
    let mut text = format!("{id:032x}");
    for dash in [8, 13, 18, 23] {
        text.insert(dash, '-');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FormatError;

    #[test]
    fn a_random_uuid_has_version_four_and_the_rfc_variant() {
        for _ in 0..100 {
            let uuid = v4().unwrap();
            assert!(is_uuid(&uuid), "{uuid}");
            assert_eq!(uuid.as_bytes()[14], b'4', "{uuid}");
            assert!(b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
        }
        assert_ne!(v4().unwrap(), v4().unwrap());
    }

    #[test]
    fn only_a_uuid_is_taken_for_one() {
        let uuid = "9BBCBBF9-cf9b-48eb-95a2-34484ec7a33b";
        assert_eq!(
            given_or_random(Some(uuid), FormatError::Uuid).unwrap(),
            uuid
        );
        for bad in [
            "",
            "x",
            "9bbcbbf9cf9b48eb95a234484ec7a33b",
            "9bbcbbf9-cf9b-48eb-95a2-34484ec7a33g",
            "9bbcbbf9-cf9b-48eb-95a2-34484ec7a33b ",
            "----------------------------------------",
        ] {
            assert!(
                given_or_random(Some(bad), FormatError::Uuid).is_err(),
                "{bad}"
            );
        }
    }
}
