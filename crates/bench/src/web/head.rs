//! The start of an answer.

use super::error::WebError;

/// Longest head of an answer, in bytes.
pub(super) const LONGEST: usize = 16 << 10;

/// Content of an answer's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the body.
    pub length: u64,
    /// Bytes of the head itself.
    pub(super) bytes: usize,
    /// True if the file may still be changing (RFC 9110, 8.8.1): later heads will be shorter then.
    pub(super) has_weak_tag: bool,
}

impl Head {
    /// Looks for a head at the start of `received`; `None` while it is not whole. It must be that of a whole
    /// file, which the server sends without another transfer coding.
    pub(super) fn find(received: &[u8], server: &str) -> Result<Option<Self>, WebError> {
        let end = received.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            return match received.len() < LONGEST {
                true => Ok(None),
                false => Err(WebError::answer(
                    server,
                    format!("its answer has no end of its head in {LONGEST} bytes"),
                )),
            };
        };
        let text = String::from_utf8_lossy(&received[..end]);
        let mut lines = text.split("\r\n");
        let status = lines.next().unwrap_or_default();
        if !(status.starts_with("HTTP/1.1 200 ") || status == "HTTP/1.1 200") {
            let said: String = status.chars().take(80).collect();
            return Err(WebError::answer(
                server,
                format!("it answered {said:?} and not with the file"),
            ));
        }
        let fields: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
        let all = |wanted: &'static str| {
            let fields = fields.iter();
            let named = fields.filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
            named.map(|(_, value)| value.trim())
        };
        let lengths: Vec<Option<u64>> = all("content-length")
            .map(|value| value.parse().ok())
            .collect();
        match lengths[..] {
            [Some(length)] => Ok(Some(Self {
                length,
                bytes: end + 4,
                has_weak_tag: all("etag").any(|tag| tag.starts_with("W/")),
            })),
            _ => Err(WebError::answer(
                server,
                "its answer has not one Content-Length, by which its end is known",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_how_long_the_body_is() {
        let text = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-LENGTH: 12\r\n\r\nbody";
        let head = Head::find(text, "s").unwrap().unwrap();
        assert_eq!((head.length, head.bytes), (12, text.len() - 4));
        assert_eq!(Head::find(&text[..40], "s").unwrap(), None);
        for (tag, is_weak) in [("\"W/a\"", false), ("W/\"a\"", true)] {
            let text = format!("HTTP/1.1 200 OK\r\nETag: {tag}\r\nContent-Length: 1\r\n\r\n");
            let head = Head::find(text.as_bytes(), "s").unwrap().unwrap();
            assert_eq!(head.has_weak_tag, is_weak, "{tag}");
        }
    }

    #[test]
    fn other_answers_are_refused() {
        for text in [
            "HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            &"x".repeat(LONGEST),
        ] {
            let error = Head::find(text.as_bytes(), "server").unwrap_err();
            assert!(error.to_string().starts_with("server: it"), "{error}");
        }
    }
}
