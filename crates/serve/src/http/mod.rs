//! HTTP, independent of its version: a [`Request`] and an [`Answer`], without I/O.

mod answer;
mod body;
mod conditional;
mod encoding;
mod head;
mod host;
mod multipart;
mod range;
mod refusal;
mod request;

pub use answer::{Answer, Body, Field, Piece};
pub use body::{Skipped, Skipper};
pub use conditional::{Etag, Validators, Verdict};
pub use encoding::{Acceptable, Coding};
pub use head::{Framing, Head, HeadLimits, as_newest_known};
pub use host::Authority;
pub use multipart::Multipart;
pub(crate) use multipart::content_range;
pub use range::Ranges;
pub use refusal::Refusal;
pub use request::{Fields, Method, Request, Scheme};
