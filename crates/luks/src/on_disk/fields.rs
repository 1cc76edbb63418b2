//! Fixed-size fields of a binary header, in order.

use crate::error::WriteError;

/// Reads one field after the other.
pub(crate) struct Fields<'a>(&'a [u8]);

/// The header ends before its fields do.
#[derive(Debug)]
pub(crate) struct TooShort;

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], TooShort> {
        let (field, rest) = self.0.split_first_chunk().ok_or(TooShort)?;
        self.0 = rest;
        Ok(field)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, TooShort> {
        self.array().copied().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, TooShort> {
        self.array().copied().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, TooShort> {
        self.array().copied().map(u64::from_be_bytes)
    }
}

/// The text in a field that a NUL ends.
pub(crate) fn text(field: &[u8]) -> Option<&str> {
    let len = field.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&field[..len]).ok()
}

/// A field of `N` bytes, called `name`, with this text and at least one NUL.
pub(crate) fn field<const N: usize>(name: &'static str, text: &str) -> Result<[u8; N], WriteError> {
    let mut field = [0; N];
    if text.len() >= N || text.contains('\0') {
        return Err(WriteError::Text {
            field: name,
            capacity: N - 1,
        });
    }
    field[..text.len()].copy_from_slice(text.as_bytes());
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order_to_the_end() {
        let mut fields = Fields::new(b"\x01\x02abc\0\0\0\x07");
        assert_eq!(fields.u16().unwrap(), 0x0102);
        assert_eq!(fields.array::<3>().unwrap(), b"abc");
        assert_eq!(fields.u32().unwrap(), 7);
        assert!(fields.array::<1>().is_err());
        assert!(fields.array::<0>().is_ok());
    }

    #[test]
    fn text_needs_its_nul() {
        assert_eq!(text(b"aes\0\0junk"), Some("aes"));
        assert_eq!(text(b"\0"), Some(""));
        assert_eq!(text(b"aes"), None);
        assert_eq!(text(b"\xff\0"), None);
        assert_eq!(field("cipher", "aes").unwrap(), *b"aes\0");
        assert!(field::<4>("cipher", "aes4").is_err());
        assert!(field::<4>("cipher", "a\0b").is_err());
    }
}
