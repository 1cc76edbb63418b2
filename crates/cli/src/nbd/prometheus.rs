//! A volume's figures as Prometheus reads them: its text format, version 0.0.4.

use std::fmt::{Display, Write as _};

use crate::nbd::control::{Figures, Times, Traffic};

/// A counter of one direction: its name, its help text and its value.
type Counter = (&'static str, &'static str, fn(&Traffic) -> u64);

const COUNTERS: [Counter; 6] = [
    (
        "scrim_requests_total",
        "Requests that have ended, well or badly.",
        |traffic| traffic.requests,
    ),
    (
        "scrim_failed_requests_total",
        "Requests that have failed.",
        |traffic| traffic.failed,
    ),
    (
        "scrim_bytes_total",
        "Bytes of requests that have not failed.",
        |traffic| traffic.bytes,
    ),
    (
        "scrim_handovers_total",
        "How often requests, or parts of them, went from one thread to another.",
        |traffic| traffic.handovers,
    ),
    (
        "scrim_copied_bytes_total",
        "Bytes that were copied beside the cipher and the kernel.",
        |traffic| traffic.copied_bytes,
    ),
    (
        "scrim_split_requests_total",
        "Requests that were split over processors.",
        |traffic| traffic.split,
    ),
];

/// The figures as text.
pub(crate) fn text(figures: &Figures) -> String {
    let mut text = String::new();
    for (name, help, counter) in COUNTERS {
        head(&mut text, name, help, "counter");
        for (direction, traffic) in figures.directions() {
            line(&mut text, name, figures, direction, "", counter(traffic));
        }
    }
    let name = "scrim_requests_in_flight";
    head(
        &mut text,
        name,
        "Requests that are carried out, or held, now.",
        "gauge",
    );
    for (direction, traffic) in figures.directions() {
        line(&mut text, name, figures, direction, "", traffic.in_flight);
    }
    durations(&mut text, figures);
    let volume = &figures.name;
    let suspended = u8::from(figures.suspended);
    for (name, help, kind, value) in [
        (
            "scrim_table_exchanges_total",
            "Number of exchanges of the table.",
            "counter",
            figures.exchanges,
        ),
        (
            "scrim_suspended",
            "1 if requests are held, otherwise 0.",
            "gauge",
            suspended.into(),
        ),
    ] {
        head(&mut text, name, help, kind);
        let _ = writeln!(text, "{name}{{volume=\"{volume}\"}} {value}");
    }
    text
}

fn durations(text: &mut String, figures: &Figures) {
    let name = "scrim_request_duration_seconds";
    let help = format!(
        "How long requests took, and the parts of that; of one request in {}.",
        figures.timed_one_in
    );
    head(text, name, &help, "summary");
    for (direction, traffic) in figures.directions() {
        for (stage, times) in traffic.stages() {
            let stage = format!(",stage=\"{stage}\"");
            for (quantile, nanos) in quantiles(times) {
                let labels = format!("{stage},quantile=\"{quantile}\"");
                line(text, name, figures, direction, &labels, Seconds(nanos));
            }
            let sum = format!("{name}_sum");
            line(
                text,
                &sum,
                figures,
                direction,
                &stage,
                Seconds(times.sum_ns),
            );
            let count = format!("{name}_count");
            line(text, &count, figures, direction, &stage, times.count);
        }
    }
}

/// Quantiles of a time; the longest is the quantile 1.
fn quantiles(times: &Times) -> [(&'static str, u64); 4] {
    [
        ("0.5", times.p50_ns),
        ("0.99", times.p99_ns),
        ("0.999", times.p999_ns),
        ("1", times.max_ns),
    ]
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A volume's name has no letter that would have to be escaped.
fn line(
    text: &mut String,
    name: &str,
    figures: &Figures,
    direction: &str,
    labels: &str,
    value: impl Display,
) {
    let volume = &figures.name;
    let _ = writeln!(
        text,
        "{name}{{volume=\"{volume}\",direction=\"{direction}\"{labels}}} {value}"
    );
}

/// Nanoseconds, shown as seconds.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}.{:09}",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scrim_volume::Statistics;

    #[test]
    fn every_line_has_a_name_labels_and_a_number() {
        let mut figures = Figures::new("a-volume", &Statistics::default(), 3, true);
        figures.write.latency.p99_ns = 1_234_567;
        let text = text(&figures);
        for line in text.lines().filter(|line| !line.starts_with("# ")) {
            let (name, rest) = line.split_once('{').unwrap();
            let (labels, value) = rest.split_once("} ").unwrap();
            assert!(name.starts_with("scrim_"), "{line}");
            assert!(labels.starts_with("volume=\"a-volume\""), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
        assert!(text.contains(
            "_seconds{volume=\"a-volume\",direction=\"write\",stage=\"total\",quantile=\"0.99\"} \
             0.001234567\n"
        ));
        assert!(text.contains("scrim_suspended{volume=\"a-volume\"} 1\n"));
    }
}
