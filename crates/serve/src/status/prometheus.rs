//! Figures as Prometheus reads them (text format 0.0.4).

use std::fmt::Write as _;

use crate::counters::Figures;
use crate::tls::kernel::{Path, Statistics};

/// All figures, one on a line.
pub(super) fn page(figures: &Figures, kernel: Option<Statistics>) -> String {
    let mut page = Page(String::new());
    page.connections(figures);
    page.paths(figures, kernel);
    page.answers(figures);
    page.latencies(figures);
    page.0
}

struct Page(String);

impl Page {
    fn connections(&mut self, figures: &Figures) {
        self.counter(
            "connections_total",
            "Connections that were taken in.",
            figures.connections,
        );
        let help = "Connections that were not, since there were too many.";
        self.counter("connections_refused_total", help, figures.refused);
        self.head("connections_open", "gauge", "Connections that are open.");
        self.value("connections_open", "", figures.open);
        self.head(
            "handshakes_total",
            "counter",
            "TLS handshakes that succeeded.",
        );
        self.value("handshakes_total", "{version=\"1.2\"}", figures.tls12);
        self.value("handshakes_total", "{version=\"1.3\"}", figures.tls13);
        let help = "TLS handshakes that went on with an earlier session.";
        self.counter("handshakes_resumed_total", help, figures.resumed);
        self.counter(
            "handshakes_failed_total",
            "TLS handshakes that failed.",
            figures.failed,
        );
    }

    /// Connections by maker of their TLS records.
    fn paths(&mut self, figures: &Figures, kernel: Option<Statistics>) {
        let help = "Connections under TLS, by who makes their records, and why not the kernel.";
        self.head("tls_connections_total", "counter", help);
        for (path, count) in Path::all().zip(figures.by_path) {
            let (name, reason) = (path.name(), path.reason().unwrap_or_default());
            let labels = format!("{{path=\"{name}\",reason=\"{reason}\"}}");
            self.value("tls_connections_total", &labels, count);
        }
        let Some(kernel) = kernel else {
            return;
        };
        let help = "Connections of all programs here whose records the kernel makes, and by what.";
        self.head("kernel_tls_open", "gauge", help);
        for (direction, by, count) in [
            ("send", "processor", kernel.send_software),
            ("send", "device", kernel.send_device),
            ("receive", "processor", kernel.receive_software),
            ("receive", "device", kernel.receive_device),
        ] {
            let labels = format!("{{direction=\"{direction}\",by=\"{by}\"}}");
            self.value("kernel_tls_open", &labels, count);
        }
    }

    fn answers(&mut self, figures: &Figures) {
        self.head("requests_total", "counter", "Requests by version of HTTP.");
        self.value("requests_total", "{version=\"1\"}", figures.http1);
        self.value("requests_total", "{version=\"2\"}", figures.http2);
        self.head("answers_total", "counter", "Answers by class of status.");
        for (class, count) in (1..).zip(figures.by_class) {
            self.value("answers_total", &format!("{{class=\"{class}xx\"}}"), count);
        }
        let help = "Answers that were begun and could not be sent whole.";
        self.counter("answers_broken_total", help, figures.broken);
        let help = "Bytes of content that were sent, before encryption.";
        self.counter("sent_bytes_total", help, figures.bytes_sent);
    }

    fn latencies(&mut self, figures: &Figures) {
        let help =
            "How long answers took, from a request's head to the last byte given to the kernel.";
        self.head("answer_seconds", "histogram", help);
        let mut sum = 0;
        let last = figures.latencies.len() - 1;
        for (power, count) in figures.latencies.iter().enumerate() {
            sum += count;
            let bound = match power == last {
                true => "+Inf".to_owned(),
                false => (float(1 << power) / 1e6).to_string(),
            };
            self.value("answer_seconds_bucket", &format!("{{le=\"{bound}\"}}"), sum);
        }
        let seconds = float(figures.latency_sum) / 1e9;
        let _ = writeln!(self.0, "scrim_serve_answer_seconds_sum {seconds}");
        self.value("answer_seconds_count", "", sum);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "counter", help);
        self.value(name, "", value);
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(
            self.0,
            "# HELP scrim_serve_{name} {help}\n# TYPE scrim_serve_{name} {kind}"
        );
    }

    fn value(&mut self, name: &str, labels: &str, value: u64) {
        let _ = writeln!(self.0, "scrim_serve_{name}{labels} {value}");
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus has no other numbers"
)]
fn float(value: u64) -> f64 {
    value as f64
}
