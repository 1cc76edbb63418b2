//! The figures as one page of HTML, with their picture in it and nothing outside.

use std::fmt::Write as _;

use scrim_foreign::Html;

use super::QUANTILES;
use super::outcome::Latencies;
use crate::frame;
use crate::palette;
use crate::report::Report;
use crate::spread::{Row, spread};

/// The whole page. It loads nothing, and follows the browser's light or dark scheme.
#[must_use]
pub fn page(outcome: &Latencies, report: &Report) -> String {
    let mut html = frame::head("responses under load", "How long responses take under load");
    let rows: Vec<Row> = outcome
        .ways
        .iter()
        .filter_map(|times| {
            Some(Row {
                label: times.way.clone(),
                values: times.medians()?,
                colour: colour(&times.way),
            })
        })
        .collect();
    if !rows.is_empty() {
        let _ = writeln!(
            html,
            "<p>A file of {} bytes over {}, asked for {:.0} times a second of each server: half of what the \
             slowest of them can do. A response's time counts from when its request was due.</p>",
            outcome.bytes,
            Html::new(&outcome.protection),
            outcome.rate
        );
        let names = QUANTILES.map(|(name, _, _)| name);
        html.push_str(&spread(
            "Time of responses, medians over rounds",
            &names,
            &rows,
        ));
        html.push_str(
            "<table tabindex=\"0\"><tr><th>from</th><th>most requests a second</th></tr>\n",
        );
        for times in &outcome.ways {
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td>{:.0}</td></tr>",
                Html::new(&times.way),
                times.capacity
            );
        }
        html.push_str("</table>\n");
    }
    frame::end(&mut html, report);
    html
}

fn colour(way: &str) -> usize {
    match way {
        "dir" => palette::PLAIN,
        "volume:queued" => palette::QUEUED,
        _ => palette::INLINE,
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Times;
    use super::*;
    use crate::{Machine, Study};

    #[test]
    fn a_page_stands_alone() {
        let outcome = Latencies {
            bytes: 65536,
            protection: "TLSv1.3 <x>".to_owned(),
            rate: 1000.0,
            ways: vec![Times {
                way: "volume:inline".to_owned(),
                capacity: 2000.0,
                micros: [vec![80.0], vec![100.0], vec![1200.0]],
            }],
        };
        let report = Study::new(Machine::default(), 1).finish();
        let html = page(&outcome, &report);
        assert!(html.contains("TLSv1.3 &lt;x&gt;") && html.contains(">volume:inline</text>"));
        assert_eq!(html.matches("<svg").count(), 1);
        let outside = html.replace("http://www.w3.org/2000/svg", "");
        for word in ["http:/", "src=", "<script", "@import", "url("] {
            assert!(!outside.contains(word), "{word}");
        }
        assert!(!page(&Latencies::default(), &report).contains("<svg"));
    }
}
