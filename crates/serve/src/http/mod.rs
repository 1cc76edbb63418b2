//! HTTP, independent of its version: parsing of a [`Request`], and the content of an [`Answer`]. Nothing here does I/O: a
//! [`Body`] names ranges of open files, and the code that sends it reads them.

mod answer;
mod authorization;
mod conditional;
mod date;
mod encoding;
mod head;
mod host;
mod multipart;
mod range;
mod refusal;
mod request;
mod request_body;

pub(crate) use answer::Meter;
pub use answer::{Answer, Body, Field, Piece, PieceSource};
pub use authorization::Authorization;
pub use conditional::{Etag, Validators, Verdict};
pub(crate) use date::DateCache;
pub use encoding::{Acceptable, Coding};
pub use head::{Framing, Head, HeadLimits, as_newest_known};
pub use host::Authority;
pub use multipart::Multipart;
pub(crate) use multipart::content_range;
pub use range::Ranges;
pub use refusal::Refusal;
pub use request::{Fields, Method, Request, Scheme};
pub use request_body::{Skipped, Skipper};
