//! Redirects from plain HTTP to HTTPS.

use http::{HeaderValue, StatusCode, header};

use crate::http::{Answer, Authority, Body, Request};
use crate::site::{Misdirection, error_page, misdirected};
use crate::sites::Sites;

/// Default port of HTTPS, which a URL need not name.
const HTTPS: u16 = 443;

/// Redirects a request to the same target by HTTPS, on the requested host if that is served here, and on `port`. Without
/// `port`, the request came as plain HTTP to an HTTPS port, and is redirected to the port that its `Host` names. If it
/// names none, it comes from a proxy that terminates TLS: a redirect would come back through that proxy in a loop.
pub(crate) fn answer(request: &Request, port: Option<u16>, sites: &Sites) -> Answer {
    let host = request.host.filter(|host| sites.serves(host));
    let Some(authority) = host.and_then(|host| Authority::parse(host).ok()) else {
        return misdirected(Misdirection::of(request.host));
    };
    let Some(to) = port.or(authority.port) else {
        return misdirected(Misdirection::HttpsPort);
    };
    let target = if request.target == "*" {
        "/"
    } else {
        request.target
    };
    let location = match to {
        HTTPS => format!("https://{}{target}", authority.name),
        to => format!("https://{}:{to}{target}", authority.name),
    };
    let Ok(location) = HeaderValue::try_from(location) else {
        return error_page(StatusCode::BAD_REQUEST);
    };
    let mut fields = vec![(header::LOCATION, location)];
    let status = match port {
        Some(_) => StatusCode::PERMANENT_REDIRECT,
        // A client error, which no cache should keep.
        None => {
            let no_store = HeaderValue::from_static("no-store");
            fields.push((header::CACHE_CONTROL, no_store));
            StatusCode::TEMPORARY_REDIRECT
        }
    };
    Answer {
        status,
        shared: None,
        fields,
        body: Body::default(),
    }
}
