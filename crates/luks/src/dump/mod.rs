//! Contents of a header, for people and for programs. They never include a secret: salts and digests
//! are in the header for all to read.

mod hex;
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
