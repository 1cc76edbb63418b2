//! Figures of the server as a page for Prometheus.

use scrim_figures::prometheus::{Kind, Page, Seconds};

use crate::counters::Figures;
use crate::tls::kernel::{Path, Statistics};

/// All figures, one on a line.
pub(super) fn text(figures: &Figures, kernel: Option<Statistics>) -> String {
    let mut page = Page::new();
    connections(&mut page, figures);
    paths(&mut page, figures);
    if let Some(kernel) = kernel {
        kernel_tls(&mut page, &kernel);
    }
    answers(&mut page, figures);
    latencies(&mut page, figures);
    page.into_text()
}

fn connections(page: &mut Page, figures: &Figures) {
    page.counter(
        "scrim_serve_connections_total",
        "Connections that were taken in.",
        figures.connections,
    );
    page.counter(
        "scrim_serve_connections_refused_total",
        "Connections that were not, since there were too many.",
        figures.refused,
    );
    page.gauge(
        "scrim_serve_connections_open",
        "Connections that are open.",
        figures.open,
    );
    let mut handshakes = page.metric(
        "scrim_serve_handshakes_total",
        Kind::Counter,
        "TLS handshakes that succeeded.",
    );
    handshakes.sample(&[("version", "1.2")], figures.tls12);
    handshakes.sample(&[("version", "1.3")], figures.tls13);
    page.counter(
        "scrim_serve_handshakes_resumed_total",
        "TLS handshakes that went on with an earlier session.",
        figures.resumed,
    );
    page.counter(
        "scrim_serve_handshakes_failed_total",
        "TLS handshakes that failed.",
        figures.failed,
    );
}

/// Connections by maker of their TLS records.
fn paths(page: &mut Page, figures: &Figures) {
    let mut connections = page.metric(
        "scrim_serve_tls_connections_total",
        Kind::Counter,
        "Connections under TLS, by who makes their records, and why not the kernel.",
    );
    for (path, count) in Path::all().zip(figures.by_path) {
        let reason = path.reason().unwrap_or_default();
        connections.sample(&[("path", path.name()), ("reason", reason)], count);
    }
}

fn kernel_tls(page: &mut Page, kernel: &Statistics) {
    let mut open = page.metric(
        "scrim_serve_kernel_tls_open",
        Kind::Gauge,
        "Connections of all programs here whose records the kernel makes, and by what.",
    );
    for (direction, by, count) in [
        ("send", "processor", kernel.send_software),
        ("send", "device", kernel.send_device),
        ("receive", "processor", kernel.receive_software),
        ("receive", "device", kernel.receive_device),
    ] {
        open.sample(&[("direction", direction), ("by", by)], count);
    }
}

fn answers(page: &mut Page, figures: &Figures) {
    let mut requests = page.metric(
        "scrim_serve_requests_total",
        Kind::Counter,
        "Requests by version of HTTP.",
    );
    requests.sample(&[("version", "1")], figures.http1);
    requests.sample(&[("version", "2")], figures.http2);
    let mut answers = page.metric(
        "scrim_serve_answers_total",
        Kind::Counter,
        "Answers by class of status.",
    );
    for (class, count) in ["1xx", "2xx", "3xx", "4xx", "5xx"]
        .into_iter()
        .zip(figures.by_class)
    {
        answers.sample(&[("class", class)], count);
    }
    page.counter(
        "scrim_serve_answers_broken_total",
        "Answers that were begun and could not be sent whole.",
        figures.broken,
    );
    page.counter(
        "scrim_serve_sent_bytes_total",
        "Bytes of content that were sent, before encryption.",
        figures.bytes_sent,
    );
}

fn latencies(page: &mut Page, figures: &Figures) {
    let mut seconds = page.metric(
        "scrim_serve_answer_seconds",
        Kind::Histogram,
        "How long answers took, from a request's head to the last byte given to the kernel.",
    );
    let mut sum = 0;
    let last = figures.latencies.len() - 1;
    for (power, count) in figures.latencies.iter().enumerate() {
        sum += count;
        let bound = match power == last {
            true => "+Inf".to_owned(),
            false => Seconds::of_nanoseconds(1000 << power).to_string(),
        };
        seconds.part("_bucket", &[("le", &bound)], sum);
    }
    seconds.part("_sum", &[], Seconds::of_nanoseconds(figures.latency_sum));
    seconds.part("_count", &[], sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_name_and_a_number() {
        let mut figures = Figures {
            latency_sum: 1_500_000_000,
            ..Figures::default()
        };
        figures.latencies[0] = 2;
        figures.latencies[24] = 1;
        let text = text(&figures, None);
        for line in text.lines().filter(|line| !line.starts_with("# ")) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("scrim_serve_"), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
        for line in [
            "scrim_serve_answers_total{class=\"5xx\"} 0\n",
            "scrim_serve_answer_seconds_bucket{le=\"0.000001\"} 2\n",
            "scrim_serve_answer_seconds_bucket{le=\"8.388608\"} 2\n",
            "scrim_serve_answer_seconds_bucket{le=\"+Inf\"} 3\n",
            "scrim_serve_answer_seconds_sum 1.5\n",
            "scrim_serve_answer_seconds_count 3\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
