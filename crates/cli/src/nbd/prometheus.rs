//! A volume's figures as a page for Prometheus.

use scrim_figures::prometheus::{Kind, Page, Seconds};

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
    let mut page = Page::new();
    let volume = ("volume", figures.name.as_str());
    for (name, help, counter) in COUNTERS {
        let mut metric = page.metric(name, Kind::Counter, help);
        for (direction, traffic) in figures.directions() {
            metric.sample(&[volume, ("direction", direction)], counter(traffic));
        }
    }
    let mut in_flight = page.metric(
        "scrim_requests_in_flight",
        Kind::Gauge,
        "Requests that are carried out, or held, now.",
    );
    for (direction, traffic) in figures.directions() {
        in_flight.sample(&[volume, ("direction", direction)], traffic.in_flight);
    }
    durations(&mut page, figures);
    page.metric(
        "scrim_table_exchanges_total",
        Kind::Counter,
        "Number of exchanges of the table.",
    )
    .sample(&[volume], figures.exchanges);
    page.metric(
        "scrim_suspended",
        Kind::Gauge,
        "1 if requests are held, otherwise 0.",
    )
    .sample(&[volume], u8::from(figures.suspended));
    page.into_text()
}

fn durations(page: &mut Page, figures: &Figures) {
    let help = format!(
        "How long requests took, and the parts of that; of one request in {}.",
        figures.timed_one_in
    );
    let mut metric = page.metric("scrim_request_duration_seconds", Kind::Summary, &help);
    for (direction, traffic) in figures.directions() {
        for (stage, times) in traffic.stages() {
            let [volume, direction, stage] = [
                ("volume", figures.name.as_str()),
                ("direction", direction),
                ("stage", stage),
            ];
            for (quantile, nanoseconds) in quantiles(times) {
                metric.sample(
                    &[volume, direction, stage, ("quantile", quantile)],
                    Seconds::of_nanoseconds(nanoseconds),
                );
            }
            let labels = [volume, direction, stage];
            metric.part("_sum", &labels, Seconds::of_nanoseconds(times.sum_ns));
            metric.part("_count", &labels, times.count);
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
