//! The way from plain HTTP to HTTPS.

use http::{HeaderValue, StatusCode, header};

use crate::http::{Answer, Authority, Body, Request};
use crate::live::Live;
use crate::site::{Misdirection, error_page, misdirected};

/// The port that nobody has to name.
const HTTPS: u16 = 443;

/// Sends a client to the same target at `port`, or at the one that it has asked for, on the host that it has asked
/// for: one that is served here, which is any where a site is for all hosts.
pub(crate) fn answer(request: &Request, port: Option<u16>, live: &Live) -> Answer {
    let host = request.host.filter(|host| live.serves(host));
    let Some(authority) = host.and_then(|host| Authority::parse(host).ok()) else {
        return misdirected(Misdirection::Unknown);
    };
    let target = if request.target == "*" {
        "/"
    } else {
        request.target
    };
    let location = match port.or(authority.port).unwrap_or(HTTPS) {
        HTTPS => format!("https://{}{target}", authority.name),
        port => format!("https://{}:{port}{target}", authority.name),
    };
    let Ok(location) = HeaderValue::try_from(location) else {
        return error_page(StatusCode::BAD_REQUEST);
    };
    Answer {
        status: StatusCode::PERMANENT_REDIRECT,
        shared: None,
        fields: vec![(header::LOCATION, location)],
        body: Body::default(),
    }
}
