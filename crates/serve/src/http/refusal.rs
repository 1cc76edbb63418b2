//! Refusals of requests, before any site is asked.

use std::fmt;

use http::StatusCode;

/// Reason for which a request is refused before a file is looked for. The end of the request cannot be trusted then:
/// after the answer its connection, or in HTTP/2 its stream, is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The bytes are not a request of HTTP/1.
    Malformed,
    /// A line ends in a bare LF, or a CR stands alone.
    LineEnding,
    /// The request's version is not one of HTTP/1.
    Version,
    /// The target is not one that its method may have.
    Target,
    /// The target's scheme is neither `http` nor `https`.
    Scheme,
    /// The target is longer than the limit.
    TargetTooLong,
    /// The head is longer than the limit, or has more fields.
    HeadTooLarge,
    /// `Host` is missing, doubled, not a host, or not the one of `:authority`.
    Host,
    /// A field that has one value came twice.
    Doubled,
    /// `Content-Length` is not one number, or stands beside `Transfer-Encoding`.
    ContentLength,
    /// `Transfer-Encoding` does not say where the content ends.
    TransferEncoding,
    /// A transfer coding besides `chunked`.
    UnknownCoding,
    /// `Expect` has anything else than `100-continue`.
    Expectation,
    /// `CONNECT`: this is not a proxy.
    Connect,
    /// Content in chunks that are malformed.
    Chunk,
    /// The content is longer than the server skips.
    ContentTooLarge,
}

impl Refusal {
    /// Status of the answer to it.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Malformed
            | Self::LineEnding
            | Self::Target
            | Self::Scheme
            | Self::Host
            | Self::Doubled
            | Self::ContentLength
            | Self::TransferEncoding
            | Self::Chunk => StatusCode::BAD_REQUEST,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::UnknownCoding => StatusCode::NOT_IMPLEMENTED,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::Connect => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Malformed => "the request is malformed",
            Self::LineEnding => "a line of the request does not end in CR LF",
            Self::Version => "the request has a version other than HTTP/1.x",
            Self::Target => "the request's target is malformed",
            Self::Scheme => "the request is for a scheme other than http and https",
            Self::TargetTooLong => "the request's target is too long",
            Self::HeadTooLarge => "the request's head is too large",
            Self::Host => "the request does not name one host",
            Self::Doubled => "a field that has one value came twice",
            Self::ContentLength => "the length of the request's content is in doubt",
            Self::TransferEncoding => "the end of the request's content is in doubt",
            Self::UnknownCoding => "the request's content has an unknown transfer coding",
            Self::Expectation => "the request expects what cannot be done",
            Self::Connect => "the request asks for a proxy",
            Self::Chunk => "the request's content is not in well-formed chunks",
            Self::ContentTooLarge => "the request's content is too long",
        })
    }
}

impl std::error::Error for Refusal {}
