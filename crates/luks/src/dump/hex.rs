//! Bytes as hexadecimal text.

use std::fmt;

/// Bytes in hexadecimal, each followed by a space, `per_line` to a line; `indent` stands before every
/// line but the first.
pub(super) struct Hex<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) per_line: usize,
    pub(super) indent: &'a str,
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
