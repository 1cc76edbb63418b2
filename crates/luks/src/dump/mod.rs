//! Contents of a header, for people and for programs. They never include a secret: salts and digests
//! are in the header for all to read.

mod json;
mod luks1;
mod luks2;

pub use json::json;

use std::fmt;

use crate::header::Header;

/// Formats a header in the words and layout of `cryptsetup luksDump`. `device` is the name to show.
///
/// Text from the header is shown as by [`Foreign`](scrim_foreign::Foreign).
#[must_use]
pub fn text(header: &Header, device: &str) -> String {
    Text { header, device }.to_string()
}

struct Text<'a> {
    header: &'a Header,
    device: &'a str,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.header {
            Header::Luks1(header) => luks1::write(f, header, self.device),
            Header::Luks2(header) => luks2::write(f, header),
        }
    }
}

/// Bytes in hexadecimal, each followed by a space, `per_line` to a line; `indent` stands before every
/// line but the first.
struct Hex<'a> {
    bytes: &'a [u8],
    per_line: usize,
    indent: &'a str,
}

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.bytes.chunks(self.per_line).enumerate() {
            if number > 0 {
                write!(f, "\n{}", self.indent)?;
            }
            for byte in line {
                write!(f, "{byte:02x} ")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_breaks_after_sixteen() {
        let bytes: Vec<u8> = (0..18).collect();
        let hex = Hex {
            bytes: &bytes,
            per_line: 16,
            indent: "\t",
        };
        let expected = "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f \n\t10 11 ";
        assert_eq!(hex.to_string(), expected);
    }
}
