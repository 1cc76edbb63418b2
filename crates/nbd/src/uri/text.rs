//! Text in a URI: percent escapes, and the characters of a host.

use super::error::Problem;

/// Checks whether a text can be a host: that it has nothing that ends a host in a URI.
pub(super) fn may_be_host(name: &str) -> bool {
    let odd = |c: char| c.is_control() || c.is_whitespace() || "/?#@[]".contains(c);
    !name.is_empty() && !name.contains(odd)
}

/// Decodes percent escapes of a URI.
pub(super) fn decoded(text: &str) -> Result<Vec<u8>, Problem> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = bytes.next().map(char::from)?;
            digit
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        };
        match (digit(), digit()) {
            (Some(high), Some(low)) => decoded.push(high << 4 | low),
            _ => return Err(Problem::Escape),
        }
    }
    Ok(decoded)
}

/// Escapes all but RFC 3986's unreserved characters and those of `allowed`.
pub(super) fn percent_encoded(bytes: &[u8], allowed: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len());
    for &byte in bytes {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if plain || allowed.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
