//! The parts of a request that a server of files needs.

use std::borrow::Cow;

use http::request::Parts;

use super::{Authority, Authorization, Refusal};

/// Method of a request. Methods that a server of files has the same answer to are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    /// The answer to `Get`, without the content.
    Head,
    /// The methods that are allowed.
    Options,
    /// A method that changes or tells something, which files do not have.
    Other,
    /// A method that is not one of HTTP itself.
    Unknown,
}

/// Scheme of an absolute target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// A request, borrowed from the connection's buffer. Every byte is the client's.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Method of the request.
    pub method: Method,
    /// The method's name as it came, for the access log.
    pub method_name: &'a str,
    /// The path and the query as they came: percent-encoded, not yet normalised, beginning with `/`, or
    /// `*` where `Options` asks about the server. The scheme and the authority of an absolute target have
    /// been taken off.
    pub target: &'a str,
    /// Scheme that was taken off an absolute target, or stood in `:scheme`.
    pub scheme: Option<Scheme>,
    /// The host that is asked for, with or without a port: one that [`Authority::parse`] takes.
    pub host: Option<&'a str>,
    /// The fields that matter here.
    pub fields: Fields<'a>,
}

/// The fields of a request that decide about its answer, or belong into the access log. One that came
/// more than once where the protocol has only one is refused before this. Lists may have come in several
/// fields: those are joined by commas.
#[derive(Debug, Clone, Default)]
pub struct Fields<'a> {
    /// Value of `Range`, as it was sent.
    pub range: Option<&'a [u8]>,
    /// Value of `If-Range`, as it was sent.
    pub if_range: Option<&'a [u8]>,
    /// Value of `If-Match`, joined to one list.
    pub if_match: Option<Cow<'a, [u8]>>,
    /// Value of `If-None-Match`, joined to one list.
    pub if_none_match: Option<Cow<'a, [u8]>>,
    /// Value of `If-Modified-Since`, as it was sent.
    pub if_modified_since: Option<&'a [u8]>,
    /// Value of `If-Unmodified-Since`, as it was sent.
    pub if_unmodified_since: Option<&'a [u8]>,
    /// Value of `Accept`, joined to one list.
    pub accept: Option<Cow<'a, [u8]>>,
    /// Value of `Accept-Encoding`, joined to one list.
    pub accept_encoding: Option<Cow<'a, [u8]>>,
    /// Name and password, if the client has any.
    pub authorization: Option<Authorization<'a>>,
    /// `Referer`, for the access log.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, for the access log.
    pub user_agent: Option<&'a [u8]>,
}

impl Method {
    /// The method of this name; names are in capital letters.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "OPTIONS" => Self::Options,
            "POST" | "PUT" | "DELETE" | "PATCH" | "TRACE" | "CONNECT" => Self::Other,
            _ => Self::Unknown,
        }
    }
}

impl Scheme {
    /// The scheme of this name.
    ///
    /// # Errors
    /// [`Refusal::Scheme`] where files are not served by it.
    pub fn named(name: &str) -> Result<Self, Refusal> {
        match name {
            _ if name.eq_ignore_ascii_case("http") => Ok(Self::Http),
            _ if name.eq_ignore_ascii_case("https") => Ok(Self::Https),
            _ => Err(Refusal::Scheme),
        }
    }
}

impl<'a> Request<'a> {
    /// Request whose head a library has parsed already, of any version of HTTP.
    ///
    /// # Errors
    /// Those of [`Head::parse`](super::Head::parse) that such a library leaves to its callers.
    pub fn from_parts(parts: &'a Parts) -> Result<Self, Refusal> {
        let method_name = parts.method.as_str();
        if parts.method == http::Method::CONNECT {
            return Err(Refusal::Connect);
        }
        let method = Method::named(method_name);
        let target = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let target = check_target(method, target)?;

        let scheme = parts.uri.scheme_str().map(Scheme::named).transpose()?;

        let mut fields = Fields::default();
        for (name, value) in &parts.headers {
            // RFC 9113, 8.2.1; in HTTP/1 such a space is none of the value's.
            if value.as_bytes().trim_ascii().len() != value.len() {
                return Err(Refusal::Malformed);
            }
            fields.take(name.as_str().as_bytes(), value.as_bytes())?;
        }
        let mut hosts = parts.headers.get_all(http::header::HOST).iter();
        let named = match hosts.next() {
            Some(host) => Some(host.to_str().map_err(|_| Refusal::Host)?),
            None => None,
        };
        if hosts.next().is_some() {
            return Err(Refusal::Host);
        }
        let host = match (parts.uri.authority(), named) {
            // RFC 9113, 8.3.1: in HTTP/2 they are the same, or the request is malformed. Before that the
            // target's authority counts alone (RFC 9112, 3.2.2).
            (Some(authority), Some(named))
                if parts.version == http::Version::HTTP_2
                    && !authority.as_str().eq_ignore_ascii_case(named) =>
            {
                return Err(Refusal::Host);
            }
            (Some(authority), _) => Some(authority.as_str()),
            (None, named) => named,
        };
        match host {
            Some(host) => drop(Authority::parse(host)?),
            None if parts.version >= http::Version::HTTP_11 => return Err(Refusal::Host),
            None => {}
        }
        Ok(Self {
            method,
            method_name,
            target,
            scheme,
            host,
            fields,
        })
    }
}

/// The target without a scheme and an authority, if its method may have it.
pub(super) fn check_target(method: Method, target: &str) -> Result<&str, Refusal> {
    let is_clean = target
        .bytes()
        .all(|byte| byte > b' ' && byte != 0x7f && byte != b'#');
    match target.as_bytes().first() {
        _ if !is_clean => Err(Refusal::Target),
        Some(b'/') => Ok(target),
        Some(b'*') if target.len() == 1 && method == Method::Options => Ok(target),
        // An absolute target with a query and no path. A query means nothing to files.
        None | Some(b'?') => Ok("/"),
        _ => Err(Refusal::Target),
    }
}

impl<'a> Fields<'a> {
    /// Takes a field, if it is one that matters.
    pub(super) fn take(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), Refusal> {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        // Lengths differ more than first letters do.
        match name.len() {
            5 if is("range") => once(&mut self.range, value),
            6 if is("accept") => join(&mut self.accept, value),
            7 if is("referer") => once(&mut self.referer, value),
            8 if is("if-range") => once(&mut self.if_range, value),
            8 if is("if-match") => join(&mut self.if_match, value),
            10 if is("user-agent") => once(&mut self.user_agent, value),
            13 if is("authorization") => once(&mut self.authorization, Authorization::new(value)),
            13 if is("if-none-match") => join(&mut self.if_none_match, value),
            15 if is("accept-encoding") => join(&mut self.accept_encoding, value),
            17 if is("if-modified-since") => once(&mut self.if_modified_since, value),
            19 if is("if-unmodified-since") => once(&mut self.if_unmodified_since, value),
            _ => Ok(()),
        }
    }
}

fn once<T>(field: &mut Option<T>, value: T) -> Result<(), Refusal> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Refusal::Doubled),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands beside `once`, which may refuse"
)]
fn join<'a>(field: &mut Option<Cow<'a, [u8]>>, value: &'a [u8]) -> Result<(), Refusal> {
    match field {
        None => *field = Some(Cow::Borrowed(value)),
        Some(list) => {
            let list = list.to_mut();
            list.extend_from_slice(b", ");
            list.extend_from_slice(value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(request: http::request::Builder) -> Parts {
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn what_a_library_parsed_is_the_same_request() {
        let parts = parts(
            http::Request::get("https://example.org:8443/a/b?c")
                .version(http::Version::HTTP_2)
                .header("Range", "bytes=0-")
                .header("If-None-Match", "\"a\"")
                .header("If-None-Match", "\"b\""),
        );
        let request = Request::from_parts(&parts).expect("a request");
        assert_eq!(request.method, Method::Get);
        assert_eq!(request.target, "/a/b?c");
        assert_eq!(request.host, Some("example.org:8443"));
        assert_eq!(request.fields.range, Some(&b"bytes=0-"[..]));
        assert_eq!(
            request.fields.if_none_match.as_deref(),
            Some(&b"\"a\", \"b\""[..])
        );
    }

    #[test]
    fn what_a_library_leaves_to_its_user_is_refused() {
        let get = http::Request::get;
        for (builder, refusal) in [
            (get("/"), Refusal::Host),
            (
                get("/").header("Host", "a").header("Host", "a"),
                Refusal::Host,
            ),
            (get("/").header("Host", "a b"), Refusal::Host),
            (
                get("https://a/")
                    .version(http::Version::HTTP_2)
                    .header("Host", "b"),
                Refusal::Host,
            ),
            (get("https://user@a/"), Refusal::Host),
            (get("*").header("Host", "a"), Refusal::Target),
            (http::Request::connect("a:443"), Refusal::Connect),
            (get("ftp://a/"), Refusal::Scheme),
            (
                get("/").header("Host", "a").header("X", " a"),
                Refusal::Malformed,
            ),
            (
                get("/").header("Host", "a").header("X", "a\t"),
                Refusal::Malformed,
            ),
            (
                get("/")
                    .header("Host", "a")
                    .header("Range", "a")
                    .header("Range", "b"),
                Refusal::Doubled,
            ),
        ] {
            let parts = parts(builder);
            assert_eq!(
                Request::from_parts(&parts).err(),
                Some(refusal),
                "{parts:?}"
            );
        }
    }

    #[test]
    fn the_authority_of_an_absolute_target_counts_before_host() {
        let parts = parts(http::Request::get("https://a").header("Host", "b"));
        let request = Request::from_parts(&parts).expect("a request");
        assert_eq!((request.host, request.target), (Some("a"), "/"));
    }
}
