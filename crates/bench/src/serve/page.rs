//! An outcome as one page of HTML, with its pictures in it and nothing outside.

use std::fmt::Write as _;

use scrim_foreign::Html;

use super::outcome::{Outcome, Place};
use crate::bars::{Bar, bars};
use crate::figure::Figure;
use crate::frame;
use crate::report::Report;
use crate::svg::{Line, LineChart, Point};

/// Places of the line chart that are labelled, at most.
const LABELLED: usize = 12;

/// The whole page. It loads nothing, and follows the browser's light or dark scheme.
#[must_use]
pub fn page(outcome: &Outcome, report: &Report) -> String {
    let mut html = frame::head("serving a file", "What TLS costs when a file is served");
    if let Some(place) = outcome.places.first() {
        let _ = writeln!(
            html,
            "<p>A file of {} bytes, downloaded by one client over a new connection each time.</p>",
            place.bytes
        );
    }
    let shown = |samples: fn(&Place) -> &[f64]| -> Vec<Bar> {
        let places = outcome.places.iter().enumerate();
        let bars = places.map(|(colour, place)| Bar {
            label: place.name.to_owned(),
            figure: Figure::of(samples(place)),
            colour,
        });
        bars.filter(|bar| bar.figure.is_some()).collect()
    };
    let rates = shown(|place| &place.rates);
    html.push_str(&bars("Throughput, medians", "MB/s", &rates, &[]));
    let cpu = shown(|place| &place.cpu);
    if !cpu.is_empty() {
        let title = "Processor time of the server, medians";
        html.push_str(&bars(title, "seconds a GB", &cpu, &[]));
    }
    html.push_str(&downloads(outcome));
    let _ = writeln!(
        html,
        "<h2>As ministat prints it, in KB/s</h2>\n<pre>{}</pre>",
        Html::new(&outcome.as_reported())
    );
    frame::end(&mut html, report);
    html
}

fn downloads(outcome: &Outcome) -> String {
    let count = outcome.places.iter().map(|place| place.rates.len()).max();
    let count = count.unwrap_or(0);
    let each = count.div_ceil(LABELLED).max(1);
    let label = |index: usize| match index % each {
        0 => (index + 1).to_string(),
        _ => String::new(),
    };
    let line = |place: &Place| Line {
        name: format!("{}: {}", place.name, place.protection),
        points: place
            .rates
            .iter()
            .map(|&value| {
                Some(Point {
                    value,
                    low: value,
                    high: value,
                })
            })
            .collect(),
    };
    let chart = LineChart {
        title: "Each download".to_owned(),
        x_label: "round".to_owned(),
        y_label: "MB/s".to_owned(),
        places: (0..count).map(label).collect(),
        lines: outcome.places.iter().map(line).collect(),
        band: None,
    };
    frame::wide(&chart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Study};

    #[test]
    fn a_page_stands_alone() {
        let place = |name, rate| Place {
            name,
            protection: "TLSv1.3 <x>".to_owned(),
            bytes: 1_000_000_000,
            rates: vec![rate; 40],
            cpu: vec![0.5; 40],
        };
        let outcome = Outcome {
            places: vec![place("http", 2000.0), place("tls", 1000.0)],
        };
        let html = page(&outcome, &Study::new(Machine::default(), 1).finish());
        assert!(html.contains("prefers-color-scheme:dark"));
        assert!(html.contains(">2000</text>") && html.contains(">0.500</text>"));
        assert!(html.contains("TLSv1.3 &lt;x&gt;") && html.contains("x  40"));
        assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
        let outside = html.replace("http://www.w3.org/2000/svg", "");
        for word in ["http:/", "src=", "<script", "@import", "url("] {
            assert!(!outside.contains(word), "{word}");
        }
    }
}
