//! The page that shows figures while they change.

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

/// All of it, style and script too: it loads nothing but figures.
pub(super) const PAGE: &str = include_str!("page.html");

/// Policy for the browser that shows the page: it may run the one script, and ask for figures.
pub(super) static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash("<script>", "</script>"),
        hash("<style>", "</style>"),
    );
    HeaderValue::try_from(policy).unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
});

/// The hash by which a policy names what stands between two marks.
fn hash(begin: &str, end: &str) -> String {
    let inside = PAGE
        .split_once(begin)
        .and_then(|(_, rest)| rest.split_once(end))
        .map_or("", |(inside, _)| inside);
    let hash = digest(&SHA256, inside.as_bytes());
    format!("sha256-{}", STANDARD.encode(hash))
}
