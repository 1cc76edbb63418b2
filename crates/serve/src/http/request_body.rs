//! The content of a request: it means nothing to a server of files and is passed over.

use super::{Framing, Refusal};

/// Bytes of one line of a chunked body, where a number and extensions stand, or of one trailer field.
const LONGEST_LINE: u64 = 4096;

/// Passes over a request's content, so that the next request can be read. It keeps none of it.
#[derive(Debug, Clone)]
pub struct Skipper {
    state: State,
    /// Bytes that may still come, framing included.
    left: u64,
}

/// Bytes of content that were passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skipped {
    /// Bytes that belonged to the content; what follows them is the next request's.
    pub bytes: usize,
    /// True if the content has ended.
    pub is_all: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Content without framing: bytes that are still to come.
    Plain(u64),
    /// A chunk's length: its value so far, and the number of its digits.
    Length(u64, u32),
    /// The chunk extension, which follows the length in its line: that length, and the bytes of it so far.
    Extension(u64, u64),
    /// The LF after a length.
    LengthEnd(u64),
    /// A chunk: bytes of it that are still to come.
    Chunk(u64),
    /// The CR after a chunk.
    ChunkCr,
    /// The LF after a chunk.
    ChunkLf,
    /// A line of the trailer: the bytes of it so far.
    Trailer(u64),
    /// The LF after a line of the trailer, and the length of that line.
    TrailerLf(u64),
    /// All of the content was skipped.
    Done,
}

impl Skipper {
    /// Skips content of this framing, and no more than `limit` bytes of it.
    ///
    /// # Errors
    /// [`Refusal::ContentTooLarge`] where the head says already that it is longer.
    pub fn new(framing: Framing, limit: u64) -> Result<Self, Refusal> {
        let state = match framing {
            Framing::None => State::Done,
            Framing::Length(length) if length > limit => return Err(Refusal::ContentTooLarge),
            Framing::Length(length) => State::Plain(length),
            Framing::Chunked => State::Length(0, 0),
        };
        Ok(Self { state, left: limit })
    }

    /// Returns whether nothing more is to come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done | State::Plain(0))
    }

    /// Passes over what `bytes` has of the content.
    ///
    /// # Errors
    /// Content that is malformed or longer than the limit: the connection cannot be used any more.
    pub fn skip(&mut self, bytes: &[u8]) -> Result<Skipped, Refusal> {
        let mut at = 0;
        while !self.is_done() && at < bytes.len() {
            let count = match &mut self.state {
                State::Plain(left) | State::Chunk(left) => {
                    let here = (bytes.len() - at) as u64;
                    let count = here.min(*left);
                    *left -= count;
                    count
                }
                _ => {
                    self.state = self.state.after(bytes[at])?;
                    1
                }
            };
            if let State::Chunk(0) = self.state {
                self.state = State::ChunkCr;
            }
            self.left = self
                .left
                .checked_sub(count)
                .ok_or(Refusal::ContentTooLarge)?;
            at += usize::try_from(count).map_err(|_| Refusal::ContentTooLarge)?;
        }
        Ok(Skipped {
            bytes: at,
            is_all: self.is_done(),
        })
    }
}

impl State {
    /// The state after one byte of the framing.
    fn after(self, byte: u8) -> Result<Self, Refusal> {
        let is_text = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        Ok(match (self, byte) {
            (Self::Length(length, digits), _) if byte.is_ascii_hexdigit() => {
                // Sixteen digits would fit; no limit is so high that fifteen are too few.
                if digits == 15 {
                    return Err(Refusal::ContentTooLarge);
                }
                let digit = char::from(byte).to_digit(16).ok_or(Refusal::Chunk)?;
                Self::Length(16 * length + u64::from(digit), digits + 1)
            }
            (Self::Length(length, 1..) | Self::Extension(length, _), b'\r') => {
                Self::LengthEnd(length)
            }
            (Self::Length(length, 1..), b';' | b' ' | b'\t') => Self::Extension(length, 1),
            (Self::Extension(length, count), _) if is_text && count < LONGEST_LINE => {
                Self::Extension(length, count + 1)
            }
            (Self::LengthEnd(0), b'\n') => Self::Trailer(0),
            (Self::LengthEnd(length), b'\n') => Self::Chunk(length),
            (Self::ChunkCr, b'\r') => Self::ChunkLf,
            (Self::ChunkLf, b'\n') => Self::Length(0, 0),
            (Self::Trailer(count), b'\r') => Self::TrailerLf(count),
            (Self::Trailer(count), _) if is_text && count < LONGEST_LINE => {
                Self::Trailer(count + 1)
            }
            (Self::TrailerLf(0), b'\n') => Self::Done,
            (Self::TrailerLf(_), b'\n') => Self::Trailer(0),
            _ => return Err(Refusal::Chunk),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skips in pieces of this size; what was not skipped.
    fn skip(framing: Framing, text: &str, piece: usize) -> Result<Option<&str>, Refusal> {
        let mut skipper = Skipper::new(framing, 100)?;
        let mut at = 0;
        while !skipper.is_done() {
            if at == text.len() {
                return Ok(None);
            }
            let end = (at + piece).min(text.len());
            at += skipper.skip(&text.as_bytes()[at..end])?.bytes;
        }
        Ok(Some(&text[at..]))
    }

    #[test]
    fn content_is_skipped_to_its_end_whatever_pieces_it_comes_in() {
        for piece in [1, 2, 3, 7, 1000] {
            for (framing, text, rest) in [
                (Framing::None, "GET", Some("GET")),
                (Framing::Length(3), "abcGET", Some("GET")),
                (Framing::Length(3), "ab", None),
                (Framing::Chunked, "0\r\n\r\nGET", Some("GET")),
                (Framing::Chunked, "3\r\nabc\r\n0\r\n\r\nGET", Some("GET")),
                (
                    Framing::Chunked,
                    "0003;x=\"y\"\r\nabc\r\n0\r\n\r\n",
                    Some(""),
                ),
                (
                    Framing::Chunked,
                    "a\r\n0123456789\r\nA \r\n0123456789\r\n0\r\n\r\n",
                    Some(""),
                ),
                (
                    Framing::Chunked,
                    "0\r\nDigest: x\r\nB: y\r\n\r\nGET",
                    Some("GET"),
                ),
                (Framing::Chunked, "3\r\nabc\r\n", None),
            ] {
                assert_eq!(skip(framing, text, piece), Ok(rest), "{text:?}");
            }
        }
    }

    #[test]
    fn chunks_that_are_none_are_refused() {
        for text in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1\nabc",
            "3\r\nabcd\r\n",
            "3\r\nabc\n",
            "3\rabc",
            "0\r\n\n",
            "0\r\na\n\r\n",
            "1;\0\r\n",
            "0\r\n\r\r",
        ] {
            assert_eq!(
                skip(Framing::Chunked, text, 1),
                Err(Refusal::Chunk),
                "{text:?}"
            );
        }
    }

    #[test]
    fn content_without_end_is_not_read() {
        let large = Err(Refusal::ContentTooLarge);
        assert_eq!(skip(Framing::Length(101), "", 1), large);
        assert_eq!(skip(Framing::Length(u64::MAX), "", 1), large);
        let chunk = format!("60\r\n{}\r\n0\r\n\r\n", "a".repeat(0x60));
        assert_eq!(skip(Framing::Chunked, &chunk, 10), large);
        assert_eq!(skip(Framing::Chunked, "0000000000000000", 1), large);
        assert_eq!(
            skip(Framing::Chunked, "fffffffffffffff\r\nabc", 1),
            Ok(None)
        );
        let extension = format!("1;{}", "a".repeat(200));
        assert_eq!(skip(Framing::Chunked, &extension, 10), large);
        let ones = "1\r\na\r\n".repeat(50);
        assert_eq!(skip(Framing::Chunked, &ones, 10), large);
    }
}
