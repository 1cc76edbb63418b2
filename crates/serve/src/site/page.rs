//! Pages that the server writes itself.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};

use crate::http::{Answer, Body, Field};

/// Style of these pages. It stands in each of them, so that no page loads anything else.
const STYLE: &str = include_str!("page.css");

/// Policy for these pages: nothing is loaded and nothing is run on them, whatever the names of files are. The digest is
/// the style's.
const POLICY: &str = "default-src 'none'; style-src 'sha256-RSadRG4qLkE08SLNzd+OocndbkwwGJLX+3Hvz8vhc0o='; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Statuses that have a page of their own from the start.
pub(super) const STATUSES: [StatusCode; 18] = [
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::PRECONDITION_FAILED,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::URI_TOO_LONG,
    StatusCode::RANGE_NOT_SATISFIABLE,
    StatusCode::EXPECTATION_FAILED,
    StatusCode::MISDIRECTED_REQUEST,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::NOT_IMPLEMENTED,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::HTTP_VERSION_NOT_SUPPORTED,
];

/// The fields of every page that the server writes itself, but for its type.
pub(super) fn page_fields() -> [Field; 2] {
    [
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(POLICY),
        ),
        (
            header::REFERRER_POLICY,
            HeaderValue::from_static("no-referrer"),
        ),
    ]
}

/// Field that keeps browsers from guessing the type of content; in every answer.
pub(crate) fn no_sniffing() -> Field {
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    )
}

pub(crate) fn html_type() -> Field {
    content_type("text/html; charset=utf-8")
}

pub(crate) fn json_type() -> Field {
    content_type("application/json")
}

/// `Content-Type` with this value.
pub(crate) fn content_type(value: &'static str) -> Field {
    (header::CONTENT_TYPE, HeaderValue::from_static(value))
}

/// `Allow`, with the methods that files have.
pub(super) fn allow() -> Field {
    (
        header::ALLOW,
        HeaderValue::from_static("GET, HEAD, OPTIONS"),
    )
}

/// Fault of a request that is not for the connection that it came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misdirection {
    /// No site is for its host.
    Unknown,
    /// The request names no host, and no site is for such requests.
    NoHost,
    /// Its host is for other connections.
    OtherConnection,
    /// The request is for TLS, and came without.
    NotSecure,
    /// The request came without TLS at the port of HTTPS, and names no port to which it could be sent instead.
    HttpsPort,
}

impl Misdirection {
    /// Misdirection of a request for which there is no site.
    pub(crate) fn of(host: Option<&str>) -> Self {
        host.map_or(Self::NoHost, |_| Self::Unknown)
    }
}

/// The answer to a request that is not for the connection that it came by.
pub(crate) fn misdirected(why: Misdirection) -> Answer {
    let status = match why {
        Misdirection::HttpsPort => StatusCode::BAD_REQUEST,
        _ => StatusCode::MISDIRECTED_REQUEST,
    };
    page(
        status,
        match why {
            Misdirection::Unknown => {
                "This host is not served here. Whoever runs the server can name it: in the configuration, under \
                 <code>names</code> of a <code>[[site]]</code>."
            }
            Misdirection::OtherConnection => {
                "This connection was made for another host: make one for this host."
            }
            Misdirection::NoHost => {
                "The request names no host, in a <code>Host</code> field, and no site here is for such requests."
            }
            Misdirection::HttpsPort => {
                "This port speaks HTTPS, and the request came without TLS. A proxy has to connect to it by \
                 <code>https</code>."
            }
            Misdirection::NotSecure => "An https address is not answered without TLS.",
        },
    )
}

/// Answer for a request that belongs to no site: one that is refused before its site is known.
#[must_use]
pub fn error_page(status: StatusCode) -> Answer {
    page(status, sentence(status))
}

fn page(status: StatusCode, sentence: &str) -> Answer {
    static FIELDS: LazyLock<Arc<[Field]>> = LazyLock::new(|| {
        let mut fields = vec![html_type(), no_sniffing()];
        fields.extend(page_fields());
        fields.into()
    });
    let mut fields = Vec::new();
    if status == StatusCode::METHOD_NOT_ALLOWED {
        fields.push(allow());
    }
    Answer {
        status,
        shared: Some(Arc::clone(&FIELDS)),
        fields,
        body: Body::bytes(html_saying(status, sentence)),
    }
}

/// A page that names the status and says in a sentence what it means.
pub(super) fn error_html(status: StatusCode) -> Bytes {
    html_saying(status, sentence(status))
}

fn html_saying(status: StatusCode, sentence: &str) -> Bytes {
    let reason = status.canonical_reason().unwrap_or("Error");
    let title = format!("{} {reason}", status.as_u16());
    let content = format!("<h1>{title}</h1>\n<p>{sentence}</p>\n");
    Bytes::from(frame(&title, "error", &content))
}

fn sentence(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "This is for users with a password.",
        StatusCode::FORBIDDEN => "This may not be seen by you.",
        StatusCode::NOT_FOUND => "There is nothing here under this name.",
        StatusCode::METHOD_NOT_ALLOWED => "This can only be read.",
        StatusCode::REQUEST_TIMEOUT => "The request took too long to arrive.",
        StatusCode::PRECONDITION_FAILED => "This has changed since your browser saw it.",
        StatusCode::PAYLOAD_TOO_LARGE => "The request brings more than is taken here.",
        StatusCode::URI_TOO_LONG => "The address is too long.",
        StatusCode::RANGE_NOT_SATISFIABLE => "The part that was asked for is not there.",
        StatusCode::EXPECTATION_FAILED => "The request expects what cannot be done here.",
        StatusCode::MISDIRECTED_REQUEST => "This host is not served here.",
        StatusCode::TOO_MANY_REQUESTS => "There were too many requests: try again in a moment.",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "The head of the request is too large.",
        StatusCode::NOT_IMPLEMENTED => "The request asks for what is not known here.",
        StatusCode::SERVICE_UNAVAILABLE => "There is too much to do: try again in a moment.",
        StatusCode::HTTP_VERSION_NOT_SUPPORTED => "This version of HTTP is not spoken here.",
        _ if status.is_server_error() => "Something went wrong on this side.",
        _ => "The request could not be understood.",
    }
}

/// A whole page around its content; `title` is escaped already.
pub(super) fn frame(title: &str, class: &str, content: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<main class=\"{class}\">\n{content}</main>\n</html>\n"
    )
}

/// Checks whether a field is set by this module, or by the code that sends an answer.
pub(super) fn is_own_field(name: &HeaderName) -> bool {
    [
        header::ACCEPT_RANGES,
        header::ALLOW,
        header::CACHE_CONTROL,
        header::CONNECTION,
        header::CONTENT_ENCODING,
        header::CONTENT_LENGTH,
        header::CONTENT_RANGE,
        header::CONTENT_TYPE,
        header::DATE,
        header::ETAG,
        header::LAST_MODIFIED,
        header::LOCATION,
        header::RETRY_AFTER,
        header::SERVER,
        header::STRICT_TRANSPORT_SECURITY,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::VARY,
        header::WWW_AUTHENTICATE,
        header::X_CONTENT_TYPE_OPTIONS,
    ]
    .contains(name)
        || name == "keep-alive"
        || name == "proxy-connection"
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_policy_allows_the_style_that_the_pages_have() {
        let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE));
        assert!(POLICY.contains(&format!("'sha256-{digest}'")), "{digest}");
    }

    #[test]
    fn each_status_has_a_page_that_names_it_and_loads_nothing() {
        for status in STATUSES {
            let page = error_html(status);
            let page = std::str::from_utf8(&page).expect("text");
            assert!(page.contains(&format!("<h1>{status}</h1>")), "{page}");
            assert!(!page.contains("href") && !page.contains("src"), "{page}");
        }
    }
}
