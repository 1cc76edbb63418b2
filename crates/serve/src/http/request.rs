//! What a server of files wants to know of a request.

/// What is asked for. Methods that a server of files has no answer to are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The content.
    Get,
    /// What `Get` would answer, without the content.
    Head,
    /// What may be asked.
    Options,
    /// Anything else.
    Other,
}

/// A request, borrowed from the connection's buffer. Every byte is the client's.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What is asked for.
    pub method: Method,
    /// The path and the query as they came: percent-encoded, not yet normalised, beginning with `/`, or
    /// `*` where `Options` asks about the server. The scheme and the authority of an absolute target have
    /// been taken off.
    pub target: &'a str,
    /// The host that is asked for, with or without a port.
    pub host: Option<&'a str>,
    /// The fields that matter here.
    pub fields: Fields<'a>,
}

/// The fields of a request that decide about its answer, or belong into the access log. One that came
/// more than once where the protocol has only one is refused before this.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fields<'a> {
    /// `Range`.
    pub range: Option<&'a [u8]>,
    /// `If-Range`.
    pub if_range: Option<&'a [u8]>,
    /// `If-Match`; a list, which may have come in several fields: they are joined by commas.
    pub if_match: Option<&'a [u8]>,
    /// `If-None-Match`, as `If-Match`.
    pub if_none_match: Option<&'a [u8]>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'a [u8]>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'a [u8]>,
    /// `Accept-Encoding`.
    pub accept_encoding: Option<&'a [u8]>,
    /// `Referer`, for the access log.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, for the access log.
    pub user_agent: Option<&'a [u8]>,
}
