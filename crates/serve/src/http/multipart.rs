//! Several parts of a file in one answer: `multipart/byteranges` (RFC 9110, 14.6).

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;

use super::{Body, Piece};
use crate::files::OpenFile;

/// Boundary between the parts: 128 random bits, new for each answer, so that no content can have it.
#[derive(Debug, Clone)]
pub struct Multipart {
    boundary: String,
}

impl Multipart {
    /// A boundary that cannot be foretold; `None` if the kernel has no random numbers.
    #[must_use]
    pub fn new() -> Option<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        Some(Self {
            boundary: format!("{:032x}", u128::from_ne_bytes(random)),
        })
    }

    /// The value of `Content-Type` of the whole.
    #[must_use]
    pub fn content_type(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("multipart/byteranges; boundary={}", self.boundary)).ok()
    }

    /// The whole content: each part with its fields, and the end.
    #[must_use]
    pub fn body(
        &self,
        file: &Arc<OpenFile>,
        content_type: &HeaderValue,
        ranges: &[Range<u64>],
    ) -> Body {
        let mut body = Body::default();
        let mut head = Vec::new();
        for (count, range) in ranges.iter().enumerate() {
            head.clear();
            if count > 0 {
                head.extend_from_slice(b"\r\n");
            }
            head.extend_from_slice(b"--");
            head.extend_from_slice(self.boundary.as_bytes());
            head.extend_from_slice(b"\r\nContent-Type: ");
            head.extend_from_slice(content_type.as_bytes());
            head.extend_from_slice(b"\r\nContent-Range: ");
            head.extend_from_slice(content_range(range, file.size()).as_bytes());
            head.extend_from_slice(b"\r\n\r\n");
            body.push(Piece::Bytes(Bytes::copy_from_slice(&head)));
            body.push(Piece::File(Arc::clone(file), range.clone()));
        }
        let end = format!("\r\n--{}--\r\n", self.boundary);
        body.push(Piece::Bytes(end.into()));
        body
    }
}

/// The value of `Content-Range` for a range that is not empty.
pub(crate) fn content_range(range: &Range<u64>, size: u64) -> String {
    format!(
        "bytes {}-{}/{size}",
        range.start,
        range.end.saturating_sub(1)
    )
}
