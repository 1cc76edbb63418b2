//! Answers, before a version of the protocol gives them bytes.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::files::OpenFile;

/// A field of an answer: its name and its value.
pub type Field = (HeaderName, HeaderValue);

/// An HTTP response: status, fields and body.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    /// Fields made beforehand, shared by all answers of a file, of a site.
    pub shared: Option<Arc<[Field]>>,
    /// The other fields. Neither has `date`, `server`, `content-length` or anything of the connection: the code that
    /// sends an answer adds those.
    pub fields: Vec<Field>,
    /// The content, or the content that an answer to `HEAD` or a 304 would have had: the code that sends it leaves it
    /// out.
    pub body: Body,
}

/// An answer's content: pieces that are sent one after the other.
#[derive(Default)]
pub struct Body {
    /// The first piece. Nearly all content is one piece, for which no memory is allocated.
    first: Option<Piece>,
    /// The pieces behind it; empty if there is no first one.
    rest: VecDeque<Piece>,
    length: u64,
    /// Bytes that are on their way.
    sent: u64,
    /// Meter that these bytes are added to as they leave.
    meter: Option<Arc<dyn Meter>>,
    /// True if some of it has been taken.
    begun: bool,
    /// Source of pieces behind these, whose length is unknown.
    source: Option<Box<dyn PieceSource>>,
}

/// A count of bytes that are sent, for all bodies of a thread.
pub(crate) trait Meter: Send + Sync {
    /// Adds bytes that are on their way.
    fn add_sent(&self, bytes: u64);
}

/// A source of content that is made while it is sent.
pub trait PieceSource: Send {
    /// Makes the next pieces; waits for the disk. `None` is the end.
    ///
    /// # Errors
    /// Those of files and folders; there is no content after one.
    fn next(&mut self) -> io::Result<Option<Vec<Piece>>>;

    /// Name of a file in the pieces that were made last, for messages.
    fn name_of(&self, file: &Arc<OpenFile>) -> Option<String>;
}

/// A piece of content.
#[derive(Debug)]
pub enum Piece {
    /// Bytes that are in memory.
    Bytes(Bytes),
    /// Bytes of a file.
    File(Arc<OpenFile>, Range<u64>),
}

impl Body {
    /// A body of bytes that are in memory.
    #[must_use]
    pub fn bytes(bytes: Bytes) -> Self {
        let mut body = Self::default();
        body.push(Piece::Bytes(bytes));
        body
    }

    /// Bytes of a file.
    #[must_use]
    pub fn file(file: Arc<OpenFile>, range: Range<u64>) -> Self {
        let mut body = Self::default();
        body.push(Piece::File(file, range));
        body
    }

    /// A body whose pieces come from a source.
    #[must_use]
    pub fn streamed(source: Box<dyn PieceSource>) -> Self {
        Self {
            source: Some(source),
            ..Self::default()
        }
    }

    /// Returns whether pieces come from a source, so that the length is unknown.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        self.source.is_some()
    }

    /// The source of the pieces behind these.
    #[must_use]
    pub fn source(&self) -> Option<&dyn PieceSource> {
        self.source.as_deref()
    }

    /// Takes the source, to make the next pieces.
    pub fn take_source(&mut self) -> Option<Box<dyn PieceSource>> {
        self.source.take()
    }

    /// Puts the source back after it made pieces.
    pub fn set_source(&mut self, source: Box<dyn PieceSource>) {
        self.source = Some(source);
    }

    /// Adds a piece at the end, unless it is empty.
    pub fn push(&mut self, piece: Piece) {
        let length = piece.length();
        if length > 0 {
            self.length += length;
            if self.first.is_none() {
                self.first = Some(piece);
            } else {
                self.rest.push_back(piece);
            }
        }
    }

    /// Bytes that are left of it, without those that a source will make.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The piece that comes next.
    #[must_use]
    pub fn front(&self) -> Option<&Piece> {
        self.first.as_ref()
    }

    /// Bytes of it that are on their way, also those that a source has made.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Adds bytes to a meter from now on, at the time at which they are on their way.
    pub(crate) fn count_in(&mut self, meter: Arc<dyn Meter>) {
        self.meter = Some(meter);
    }

    /// Takes `count` bytes from the front away, which are all of one piece: they are on their way.
    pub fn advance(&mut self, count: u64) {
        self.sent += count;
        if let Some(meter) = &self.meter {
            meter.add_sent(count);
        }
        self.remove(count);
    }

    /// Takes `count` bytes from the front away, which are all of one piece.
    fn remove(&mut self, count: u64) {
        let Some(piece) = &mut self.first else {
            return;
        };
        debug_assert!(count <= piece.length());
        match piece {
            Piece::Bytes(bytes) => {
                drop(bytes.split_to(usize::try_from(count).unwrap_or(bytes.len())));
            }
            Piece::File(_, range) => range.start += count,
        }
        if piece.length() == 0 {
            self.first = self.rest.pop_front();
        }
        self.length -= count;
        self.begun = true;
    }

    /// Takes the first `count` bytes away, as a body of their own.
    pub(crate) fn split_front(&mut self, count: u64) -> Self {
        let mut front = Self {
            meter: self.meter.clone(),
            begun: self.begun,
            ..Self::default()
        };
        while let Some(piece) = self.front().filter(|_| front.length < count) {
            let length = piece.length().min(count - front.length);
            front.push(match piece {
                Piece::Bytes(bytes) => {
                    let end = usize::try_from(length).unwrap_or(bytes.len());
                    Piece::Bytes(bytes.slice(..end))
                }
                Piece::File(file, range) => {
                    Piece::File(Arc::clone(file), range.start..range.start + length)
                }
            });
            self.remove(length);
        }
        front
    }

    /// Puts back what is left of a body that [`split_front`](Self::split_front) has taken from this one.
    pub(crate) fn put_back(&mut self, front: Self) {
        self.sent += front.sent;
        let pieces = front.first.into_iter().chain(front.rest);
        for piece in pieces.collect::<Vec<_>>().into_iter().rev() {
            self.length += piece.length();
            if let Some(second) = self.first.replace(piece) {
                self.rest.push_front(second);
            }
        }
    }

    /// Returns whether time has passed since its files were looked at, for example since some of it is on its way.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Notes that time has passed since its files were looked at.
    pub(crate) fn mark_begun(&mut self) {
        self.begun = true;
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pieces: Vec<_> = self.first.iter().chain(&self.rest).collect();
        let mut body = f.debug_struct("Body");
        body.field("pieces", &pieces).field("length", &self.length);
        body.field("is_streamed", &self.is_streamed()).finish()
    }
}

impl Piece {
    /// Number of its bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(_, range) => range.end - range.start,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Default)]
    struct Sum(AtomicU64);

    impl Meter for Sum {
        fn add_sent(&self, bytes: u64) {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn texts(mut body: Body) -> String {
        let mut text = Vec::new();
        while let Some(Piece::Bytes(bytes)) = body.front() {
            text.extend_from_slice(bytes);
            let length = bytes.len() as u64;
            body.advance(length);
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_body_is_split_where_its_pieces_are_not() {
        let mut body = Body::default();
        for bytes in [&b"abc"[..], b"defg", b"h"] {
            body.push(Piece::Bytes(Bytes::from_static(bytes)));
        }
        let front = body.split_front(5);
        assert_eq!((front.length(), front.has_begun()), (5, false));
        assert_eq!(texts(front), "abcde");
        assert_eq!(texts(body.split_front(0)), "");
        let rest = body.split_front(100);
        assert!(rest.has_begun() && body.front().is_none());
        assert_eq!((texts(rest), body.length()), ("fgh".into(), 0));
    }

    #[test]
    fn a_front_that_is_put_back_comes_first_again() {
        let mut body = Body::default();
        for bytes in [&b"abc"[..], b"defg", b"h"] {
            body.push(Piece::Bytes(Bytes::from_static(bytes)));
        }
        let mut front = body.split_front(5);
        front.advance(1);
        body.put_back(front);
        assert_eq!((body.length(), body.has_begun()), (7, true));
        assert_eq!(texts(body), "bcdefgh");
    }

    #[test]
    fn bytes_are_counted_once_when_they_leave() {
        let meter = Arc::new(Sum::default());
        let counted = || meter.0.load(Ordering::Relaxed);
        let mut body = Body::bytes(Bytes::from_static(b"abcdefgh"));
        body.count_in(Arc::<Sum>::clone(&meter));
        let mut front = body.split_front(5);
        assert_eq!((body.sent(), counted()), (0, 0));
        front.advance(3);
        assert_eq!(counted(), 3);
        body.put_back(front);
        assert_eq!((body.sent(), body.length()), (3, 5));
        body.advance(2);
        body.advance(3);
        assert_eq!((body.sent(), counted()), (8, 8));
    }
}
