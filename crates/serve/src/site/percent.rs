//! Percent-encoding (RFC 3986, 2.1).

/// Takes the encoding off; `None` where a `%` is not followed by two hexadecimal digits.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let [high, low, after @ ..] = rest else {
            return None;
        };
        rest = after;
        decoded.push(digit(*high)? << 4 | digit(*low)?);
    }
    Some(decoded)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Appends `bytes` with all encoded but what no part of a URI, and no quoted attribute of HTML, gives a
/// meaning.
pub(super) fn encode(bytes: &[u8], out: &mut String) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(DIGITS[usize::from(byte >> 4)]);
            out.push(DIGITS[usize::from(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let mut encoded = String::new();
        encode(&all, &mut encoded);
        assert_eq!(decode(encoded.as_bytes()), Some(all));
        assert!(!encoded.contains(['/', '"', '\'', '&', '<', '>', ':', '?', '#', ' ']));
    }

    #[test]
    fn an_encoding_that_is_cut_or_no_number_is_none() {
        for text in ["%", "%4", "a%", "%4g", "%g4", "%%41", "%+1", "% 1"] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
        assert_eq!(decode(b"%2541"), Some(b"%41".to_vec()));
    }
}
