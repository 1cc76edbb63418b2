//! Formatting of an answer's head for HTTP/1.1.

use http::{HeaderValue, StatusCode};

use crate::http::Answer;

/// Value of the field `Connection`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// No field: HTTP/1.1 keeps the connection open.
    Usual,
    /// The connection stays open for a client of HTTP/1.0 that asked for it.
    KeepAlive,
    /// The connection is closed after the answer.
    Close,
}

/// Framing of an answer's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    Length,
    /// Content of unknown length comes in chunks.
    Chunked,
    /// Content of unknown length ends with the connection, for a client of HTTP/1.0.
    UntilClose,
}

/// The field `Server`, without a version, and the name of the field `Date`.
const SERVER: &[u8] = b"\r\nserver: scrim\r\ndate: ";

/// Writes the head of `answer` with the empty line at its end.
pub(super) fn write(
    into: &mut Vec<u8>,
    answer: &Answer,
    date: &HeaderValue,
    framing: BodyFraming,
    ending: Ending,
) {
    into.extend_from_slice(b"HTTP/1.1 ");
    into.extend_from_slice(answer.status.as_str().as_bytes());
    into.push(b' ');
    let reason = answer.status.canonical_reason().unwrap_or_default();
    into.extend_from_slice(reason.as_bytes());
    into.extend_from_slice(SERVER);
    into.extend_from_slice(date.as_bytes());
    for (name, value) in answer
        .shared
        .iter()
        .flat_map(|shared| shared.iter())
        .chain(&answer.fields)
    {
        into.extend_from_slice(b"\r\n");
        into.extend_from_slice(name.as_str().as_bytes());
        into.extend_from_slice(b": ");
        into.extend_from_slice(value.as_bytes());
    }
    match framing {
        BodyFraming::Length if has_length(answer.status) => {
            into.extend_from_slice(b"\r\ncontent-length: ");
            decimal(into, answer.body.length());
        }
        BodyFraming::Chunked => into.extend_from_slice(b"\r\ntransfer-encoding: chunked"),
        BodyFraming::Length | BodyFraming::UntilClose => {}
    }
    into.extend_from_slice(match ending {
        Ending::Usual => b"\r\n\r\n".as_slice(),
        Ending::KeepAlive => b"\r\nconnection: keep-alive\r\n\r\n",
        Ending::Close => b"\r\nconnection: close\r\n\r\n",
    });
}

/// Returns whether an answer has a content length: only if its status allows content (RFC 9110, 8.6).
pub(super) fn has_length(status: StatusCode) -> bool {
    !(status.is_informational()
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED)
}

/// Writes a decimal number, faster than the formatting machinery.
fn decimal(into: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    into.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for number in [0, 9, 10, 12_345, u64::MAX] {
            let mut text = Vec::new();
            decimal(&mut text, number);
            assert_eq!(text, number.to_string().into_bytes());
        }
    }
}
