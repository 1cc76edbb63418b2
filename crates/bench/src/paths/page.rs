//! An outcome as one page of HTML, with its pictures in it and nothing outside.

use std::fmt::Write as _;

use super::conclusion;
use super::outcome::{Outcome, Switching, Venue};
use super::setup::{Cipher, Contender, Engine, SetUp};
use super::text::label;
use crate::bars::{Bar, bars};
use crate::figure::Figure;
use crate::frame;
use crate::palette;
use crate::report::Report;
use crate::svg::{Line, LineChart, Point};

/// Figures of the time series that are drawn.
const DRAWN: usize = 48;
/// Distance between figures of the series that are labelled.
const LABELLED: usize = 6;

/// Introduction: the things measured, and the meaning of the colours.
const INTRODUCTION: &str = "\
<p>An encrypted volume can work on a request at once, in the thread that received it (<b>inline</b>), or hand it to other \
threads through queues, as dm-crypt does (<b>queued</b>, and the same with one of dm-crypt's flags). <b>plain</b> is the same \
volume without encryption. Blue: inline and auto. Orange: queues. Green: plain. Every figure is the median of rounds in which all took turns; longer bars are better.</p>\n";

/// The whole page. It loads nothing, and follows the browser's light or dark scheme.
#[must_use]
pub fn page(outcome: &Outcome, report: &Report) -> String {
    let mut html = frame::head("data paths", "What stands between a request and the cipher");
    html.push_str(INTRODUCTION);
    html.push_str(&conclusion(report).html());
    for venue in [Venue::Served, Venue::InProcess, Venue::Device] {
        compared(&mut html, outcome, venue);
    }
    auto(&mut html, outcome);
    if let Some(switching) = &outcome.switching {
        html.push_str("<h2>The table exchanged under load</h2>\n");
        html.push_str(&series(switching));
        let _ = writeln!(
            html,
            "<p>{} exchanges, each in {:.0} µs. Longest request of a window with one: {:.0} µs; of an \
             equal window without: {:.0} µs (medians).</p>",
            switching.switches.len(),
            switching.took,
            switching.worst,
            switching.worst_without
        );
    }
    frame::end(&mut html, report);
    html
}

fn compared(html: &mut String, outcome: &Outcome, venue: Venue) {
    let workloads = outcome.workloads_of(venue);
    if workloads.is_empty() {
        return;
    }
    let heading = match venue {
        Venue::Served => "Through a served volume",
        Venue::InProcess => "In process",
        Venue::Device => "On a block device",
    };
    let _ = writeln!(html, "<h2>{heading}</h2>\n{}", frame::GRID);
    for cipher in Cipher::ALL {
        for workload in &workloads {
            let rows = outcome.rows_of(venue, *workload).into_iter();
            let shown = rows.filter(|row| {
                row.contender.cipher == cipher || row.contender.set_up == SetUp::Plain
            });
            let shown: Vec<Bar> = shown
                .map(|row| Bar {
                    label: label(row),
                    figure: Some(Figure::exactly(row.rate)),
                    colour: colour(row.contender),
                })
                .collect();
            let words = match cipher {
                Cipher::Aes => "AES-256-XTS",
                Cipher::Null => "the null cipher",
            };
            let title = format!("{}, {words}", workload.name());
            html.push_str(&bars(&title, "MB/s", &shown, &[]));
        }
    }
    html.push_str("</div>\n");
    latencies(html, outcome, venue);
}

fn colour(contender: Contender) -> usize {
    match (contender.set_up, contender.engine) {
        (SetUp::Plain, _) => palette::PLAIN,
        (SetUp::Inline | SetUp::Auto, Engine::Scrim) => palette::INLINE,
        _ => palette::QUEUED,
    }
}

fn latencies(html: &mut String, outcome: &Outcome, venue: Venue) {
    html.push_str(
        "<table tabindex=\"0\"><tr><th>set-up</th><th>workload</th><th>MB/s</th><th>mean, µs</th><th>p50</th>\
         <th>p99</th><th>hand-overs</th></tr>\n",
    );
    for row in outcome.rows.iter().filter(|row| row.venue == venue) {
        let handovers = row.handovers.map_or("-".to_owned(), |n| format!("{n:.1}"));
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{:.0}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td>\
             <td>{handovers}</td></tr>",
            row.contender.name(),
            row.workload.name(),
            row.rate,
            row.mean,
            row.p50,
            row.p99
        );
    }
    html.push_str("</table>\n");
}

fn auto(html: &mut String, outcome: &Outcome) {
    if outcome.auto.is_empty() {
        return;
    }
    html.push_str(
        "<h2>Auto beside the better of inline and queued</h2>\n<table tabindex=\"0\"><tr><th>bytes</th><th>depth</th>\
         <th>direction</th><th>inline, MB/s</th><th>queued</th><th>auto</th><th>to the better</th>\
         </tr>\n",
    );
    for cell in &outcome.auto {
        let [inline, queued, auto] = cell.rates;
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{inline:.0}</td><td>{queued:.0}</td>\
             <td>{auto:.0}</td><td>{:.2}</td></tr>",
            cell.block,
            cell.depth,
            cell.workload.name(),
            cell.ratio
        );
    }
    html.push_str("</table>\n");
}

fn series(switching: &Switching) -> String {
    let shown = &switching.rates[..switching.rates.len().min(DRAWN)];
    let place = |index: usize| match index % LABELLED {
        0 => (index as u64 * u64::from(switching.bucket)).to_string(),
        _ => String::new(),
    };
    let inline_at = |index: usize| {
        let before = switching.switches.iter().rev();
        let mut before = before.skip_while(|(place, _)| *place > index);
        before.next().is_some_and(|(_, inline)| *inline)
    };
    // A line of each colour, and the joint belongs to both.
    let points = |inline: bool| {
        let each = shown.iter().enumerate().map(|(index, &rate)| {
            let next = index + 1 < shown.len() && inline_at(index + 1) == inline;
            let here = inline_at(index) == inline || next;
            here.then_some(Point {
                value: rate,
                low: rate,
                high: rate,
            })
        });
        each.collect()
    };
    let line = |name: &str, inline| Line {
        name: name.to_owned(),
        points: points(inline),
    };
    let chart = LineChart {
        title: "Throughput while the table is exchanged".to_owned(),
        x_label: "milliseconds".to_owned(),
        y_label: "MB/s".to_owned(),
        places: (0..shown.len()).map(place).collect(),
        lines: vec![line("inline", true), line("queued", false)],
        band: None,
    };
    frame::wide(&chart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::{Contender, Row, Workload};
    use crate::{Machine, Study};

    #[test]
    fn a_page_stands_alone() {
        let outcome = Outcome {
            rows: vec![Row {
                venue: Venue::Served,
                contender: Contender::scrim(SetUp::Inline, Cipher::Aes),
                workload: Workload::Read,
                rate: 300.0,
                mean: 12.0,
                p50: 11.0,
                p99: 40.0,
                handovers: None,
            }],
            switching: Some(Switching {
                bucket: 50,
                rates: vec![10.0, 30.0, 30.0, 10.0],
                switches: vec![(1, true), (3, false)],
                took: 80.0,
                worst: 900.0,
                worst_without: 700.0,
            }),
            ..Outcome::default()
        };
        let mut study = Study::new(Machine::default(), 1);
        study.warn("a < b");
        let html = page(&outcome, &study.finish());
        assert!(html.contains("prefers-color-scheme:dark"));
        assert!(html.contains("<li>a &lt; b</li>"), "{html}");
        assert!(html.contains(">300</text>"));
        assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
        let outside = html.replace("http://www.w3.org/2000/svg", "");
        for word in ["http", "src=", "<script", "@import", "url("] {
            assert!(!outside.contains(word), "{word}");
        }
    }
}
