//! The server's own status: figures for programs, and a page for people.

mod page;
mod prometheus;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use scrim_figures::prometheus::{CONTENT_TYPE, PATH};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::counters::{Figures, Tally};
use crate::http::{Answer, Authority, Body, Field, Method, Request};
use crate::site::{content_type, error_page, html_type, json_type, no_sniffing};
use crate::tls::kernel::{Path, Statistics};

/// Source of facts about volumes that are open on this machine, as JSON: an array of objects.
pub type Volumes = Box<dyn Fn() -> Value + Send + Sync>;

/// Answers requests for figures.
pub(crate) struct Status {
    tally: Arc<Tally>,
    volumes: Volumes,
    since: Instant,
}

impl Status {
    pub(crate) fn new(tally: Arc<Tally>, volumes: Volumes) -> Self {
        Self {
            tally,
            volumes,
            since: Instant::now(),
        }
    }

    pub(crate) async fn answer(self: &Arc<Self>, request: &Request<'_>) -> Answer {
        // A page from elsewhere, whose own name leads here, must not read what is told here.
        let authority = request.host.and_then(|host| Authority::parse(host).ok());
        if !authority.is_some_and(|authority| authority.is_loopback()) {
            return error_page(StatusCode::MISDIRECTED_REQUEST);
        }
        match request.method {
            Method::Get | Method::Head => {}
            Method::Options | Method::Other => return error_page(StatusCode::METHOD_NOT_ALLOWED),
            Method::Unknown => return error_page(StatusCode::NOT_IMPLEMENTED),
        }
        match request.target.split('?').next() {
            Some("/") => page(),
            Some(PATH) => answer(
                content_type(CONTENT_TYPE),
                prometheus::text(&self.tally.figures(), Statistics::read()).into(),
            ),
            Some("/status.json") => self.json().await,
            _ => error_page(StatusCode::NOT_FOUND),
        }
    }

    /// All figures as JSON. Volumes may take long to answer, and no other request is to wait for that.
    async fn json(self: &Arc<Self>) -> Answer {
        let status = Arc::clone(self);
        let Ok(volumes) = spawn_blocking(move || (status.volumes)()).await else {
            return error_page(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let figures = self.tally.figures();
        let up = self.since.elapsed().as_secs_f64();
        let figures = json!({
            "at": up,
            "up": up,
            "connections": figures.connections,
            "open": figures.open,
            "refused": figures.refused,
            "http1": figures.http1,
            "http2": figures.http2,
            "by_class": figures.by_class,
            "tls12": figures.tls12,
            "tls13": figures.tls13,
            "resumed": figures.resumed,
            "failed": figures.failed,
            "tls_paths": paths(&figures),
            "tls_devices": Statistics::read().map_or(0, |kernel| kernel.send_device),
            "bytes_sent": figures.bytes_sent,
            "broken": figures.broken,
            "latencies": figures.latencies,
            "latency_sum_ns": figures.latency_sum,
            "volumes": volumes,
        });
        answer(json_type(), figures.to_string().into())
    }
}

/// Connections by maker of their TLS records, without makers that had no connection.
fn paths(figures: &Figures) -> Value {
    let paths = Path::all().zip(figures.by_path);
    paths
        .filter(|&(_, count)| count > 0)
        .map(|(path, count)| json!({"path": path.name(), "reason": path.reason(), "count": count}))
        .collect()
}

fn page() -> Answer {
    let mut answer = answer(html_type(), Bytes::from_static(page::PAGE.as_bytes()));
    let policy = (header::CONTENT_SECURITY_POLICY, page::POLICY.clone());
    answer.fields.push(policy);
    answer
}

fn answer(content_type: Field, content: Bytes) -> Answer {
    Answer {
        status: StatusCode::OK,
        shared: None,
        fields: vec![
            content_type,
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
            no_sniffing(),
        ],
        body: Body::bytes(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_what_is_on_the_page() {
        let policy = page::POLICY.to_str().unwrap();
        let nothing = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        assert!(policy.contains("script-src 'sha256-"), "{policy}");
        assert!(!policy.contains(nothing), "{policy}");
    }
}
