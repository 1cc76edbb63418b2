//! A comparison as one page of HTML, with its pictures in it and nothing outside.

use std::fmt::Write as _;

use scrim_foreign::Html;

use super::advice;
use super::against::Earlier;
use super::combination::{Combination, MountPath};
use super::night::{Night, PhaseResult};
use super::outcome::PROCESSES;
use super::phase::Phase;
use super::reference::{References, raw};
use super::sampler::Usage;
use crate::bars::{Bar, Mark, bars};
use crate::figure::number;
use crate::frame;
use crate::palette;
use crate::report::Report;
use crate::stat::median;
use crate::svg::{Line, LineChart, Point};

/// Most points of a line over the run.
const POINTS: usize = 96;

/// Meaning of the bars, lines and colours.
const LEGEND: &str = "\
<p>Each bar is a volume with one cipher on one way to mount it, the median of the rounds; the line in it is the interval in \
which the median lies with 95 %. Longer bars are better. Blue: Scrim, without queues. Orange: Scrim, with dm-crypt's queues. \
Green: no encryption. Violet: mounted by the kernel. Dashed lines are what your storage, network and clients allow or need: \
above them, encryption costs your clients nothing.</p>\n";

/// The whole page. It loads nothing, and follows the browser's light or dark scheme.
#[must_use]
pub fn page(
    night: &Night,
    references: &References,
    earlier: Option<&Earlier>,
    report: &Report,
) -> String {
    let mut html = frame::head("file server", "What encryption costs on this file server");
    let _ = writeln!(html, "<p>{}.</p>", Html::new(&capital(&night.describe())));
    html.push_str(LEGEND);
    recommended(&mut html, night, references);
    html.push_str("<h2>Blocks of 8 KiB</h2>\n");
    charts(&mut html, night, references, &Phase::BLOCKS);
    html.push_str("<h2>Single bytes, random places, small files</h2>\n");
    let others = [
        Phase::CharWrite,
        Phase::CharRead,
        Phase::Seeks,
        Phase::Create,
        Phase::Stat,
        Phase::Delete,
    ];
    charts(&mut html, night, references, &others);
    html.push_str(
        "<p>The phases of single bytes make one system call for each byte, so they measure the cost of a call and of the \
         way to the file system, not of the cipher.</p>\n",
    );
    sentences(&mut html, night, references);
    spread(&mut html, night);
    over_the_run(&mut html, night);
    costs(&mut html, night);
    if let Some(earlier) = earlier {
        against(&mut html, earlier, report);
    }
    frame::end(&mut html, report);
    html
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

fn recommended(html: &mut String, night: &Night, references: &References) {
    if let Some(bottleneck) = advice::bottleneck(night, references) {
        let _ = writeln!(html, "<p><strong>{}</strong></p>", bottleneck.describe());
    }
    let lines = advice::lines(night);
    let best = advice::best(night).and_then(|index| night.plan.combinations.get(index));
    let Some(best) = best.filter(|_| !lines.is_empty()) else {
        return;
    };
    let _ = writeln!(
        html,
        "<h2>To use here</h2>\n<p>{}: of what is not unwise, nothing is faster by more than noise.</p>\n<dl>",
        Html::new(&best.label())
    );
    for (purpose, line) in lines {
        let _ = writeln!(
            html,
            "<dt>{purpose}</dt><dd style=\"margin:0 0 .5rem;overflow-wrap:anywhere\"><code>{}</code></dd>",
            Html::new(&line)
        );
    }
    html.push_str("</dl>\n");
}

/// Colour of a combination, by its way.
fn colour(combination: &Combination) -> usize {
    match (&combination.cipher, combination.path) {
        (None, _) => palette::PLAIN,
        (_, MountPath::Inline) => palette::INLINE,
        (_, MountPath::Queued) => palette::QUEUED,
        (_, MountPath::Kernel) => palette::KERNEL,
    }
}

fn charts(html: &mut String, night: &Night, references: &References, phases: &[Phase]) {
    html.push_str(frame::GRID);
    for phase in phases {
        let all = night.combinations();
        let all: Vec<Bar> = all
            .map(|(index, combination)| Bar {
                label: combination.label(),
                figure: night.rate(index, *phase),
                colour: colour(combination),
            })
            .collect();
        let title = capital(&phase.name().replace('_', " "));
        let marks = match Phase::BLOCKS.contains(phase) {
            true => marks(night, references, *phase),
            false => Vec::new(),
        };
        html.push_str(&bars(&title, phase.unit(), &all, &marks));
    }
    html.push_str("</div>\n");
}

fn marks(night: &Night, references: &References, phase: Phase) -> Vec<Mark> {
    let is_read = phase == Phase::BlockRead;
    let need = night.plan.client.need();
    let client = night.plan.client;
    let mark = |label: &str, value| Mark {
        label: label.to_owned(),
        value,
    };
    let mut marks = Vec::new();
    if let Some((write, read)) = raw(night) {
        marks.push(mark("storage itself", if is_read { read } else { write }));
    }
    if let Some(link) = references.network() {
        marks.push(mark(&format!("network {}", link.name), link.effective()));
    }
    let needed = if is_read { need.read } else { need.write };
    marks.push(mark("need of up to four clients", needed));
    let theirs = if is_read { client.write } else { client.read };
    marks.push(mark("disk of one client", theirs));
    marks
}

fn sentences(html: &mut String, night: &Night, references: &References) {
    html.push_str("<h2>Each combination in a sentence</h2>\n<ul>\n");
    for (index, combination) in night.combinations() {
        let _ = writeln!(
            html,
            "<li><strong>{}</strong>: {}</li>",
            Html::new(&combination.label()),
            Html::new(&advice::sentence(night, references, index))
        );
    }
    html.push_str("</ul>\n");
}

/// The slowest and the fastest cipher of each block phase, on each way.
fn spread(html: &mut String, night: &Night) {
    let ciphers = night.combinations();
    if ciphers
        .filter(|(_, one)| one.cipher.is_some() && one.path == MountPath::Inline)
        .count()
        < 2
    {
        return;
    }
    html.push_str(
        "<h2>Spread of the ciphers</h2>\n<table tabindex=\"0\"><tr><th>phase</th><th>way</th><th>slowest</th><th>MB/s</th><th>fastest</th>\
         <th>MB/s</th><th>slowest / fastest</th></tr>\n",
    );
    for phase in Phase::BLOCKS {
        for path in [MountPath::Inline, MountPath::Queued, MountPath::Kernel] {
            let on_path = night.combinations();
            let on_path = on_path.filter(|(_, one)| one.cipher.is_some() && one.path == path);
            let mut rated: Vec<(f64, String)> = on_path
                .filter_map(|(index, one)| {
                    Some((
                        night.rate(index, phase)?.value,
                        one.cipher.as_ref()?.to_string(),
                    ))
                })
                .collect();
            rated.sort_by(|a, b| a.0.total_cmp(&b.0));
            let [(least, slow), .., (most, fast)] = &rated[..] else {
                continue;
            };
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.0} %</td></tr>",
                phase.name().replace('_', " "),
                path.label(),
                Html::new(slow),
                number(*least),
                Html::new(fast),
                number(*most),
                least / most.max(1e-9) * 100.0
            );
        }
    }
    html.push_str("</table>\n");
}

/// Busy processors and memory over all turns, in the order in which they ran.
fn over_the_run(html: &mut String, night: &Night) {
    let mut samples: Vec<(usize, Usage)> = Vec::new();
    for turn in &night.turns {
        for phase in &turn.phases {
            samples.extend(phase.over_time.iter().map(|usage| (turn.round, *usage)));
        }
    }
    let each = samples.len().div_ceil(POINTS).max(1);
    let parts: Vec<&[(usize, Usage)]> = samples.chunks(each).collect();
    if parts.len() < 2 {
        return;
    }
    let mut last = None;
    let places: Vec<String> = parts
        .iter()
        .map(|part| {
            let round = part.first().map(|(round, _)| *round);
            match round.filter(|_| std::mem::replace(&mut last, round) != round) {
                Some(round) => format!("round {}", round + 1),
                None => String::new(),
            }
        })
        .collect();
    html.push_str("<h2>Over the run</h2>\n");
    let mut chart = |title: &str, y_label: &str, name: &str, value: fn(&Usage) -> f64| {
        let points = parts.iter().map(|part| {
            let sum: f64 = part.iter().map(|(_, usage)| value(usage)).sum();
            let value = sum / part.len() as f64;
            Some(Point {
                value,
                low: value,
                high: value,
            })
        });
        let chart = LineChart {
            title: title.to_owned(),
            x_label: "time".to_owned(),
            y_label: y_label.to_owned(),
            places: places.clone(),
            lines: vec![Line {
                name: name.to_owned(),
                points: points.collect(),
            }],
            band: None,
        };
        html.push_str(&frame::wide(&chart));
    };
    let cores = |usage: &Usage| usage.cores;
    chart(
        "Busy processors",
        "processors",
        "busy, with whatever",
        cores,
    );
    let memory = |usage: &Usage| usage.memory_mib;
    chart(
        "Memory of the processes that serve the mount",
        "MiB",
        "resident",
        memory,
    );
}

fn costs(html: &mut String, night: &Night) {
    html.push_str(
        "<h2>Processor time, memory, and a bystander</h2>\n<p>CPU seconds per GB of each process; busy processors of \
         the whole machine; most resident memory of the processes that serve the mount; latency of reads of 4 KiB beside \
         the load, in µs.</p>\n<table tabindex=\"0\"><tr><th>combination</th><th>phase</th><th>scrim</th><th>fuse2fs</th>\
         <th>generator</th><th>cores</th><th>MiB</th><th>p50</th><th>p99</th></tr>\n",
    );
    for (index, combination) in night.combinations() {
        for phase in Phase::BLOCKS {
            let value = |value: &dyn Fn(&PhaseResult) -> Option<f64>, digits: usize| {
                let figure = median(&night.samples(index, phase, value));
                figure.map_or("–".to_owned(), |figure| format!("{figure:.digits$}"))
            };
            let label = match phase {
                Phase::BlockWrite => combination.label(),
                _ => String::new(),
            };
            let _ = write!(
                html,
                "<tr><td>{}</td><td>{}</td>",
                Html::new(&label),
                phase.name().replace('_', " ")
            );
            for process in PROCESSES {
                let cpu = value(&|result| result.cpu_per_gb(process), 2);
                let _ = write!(html, "<td>{cpu}</td>");
            }
            let _ = writeln!(
                html,
                "<td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                value(&PhaseResult::busy_cores, 2),
                value(&|result| Some(result.usage.memory_mib), 0),
                value(&|result| Some(result.bystander?.p50), 0),
                value(&|result| Some(result.bystander?.p99), 0)
            );
        }
    }
    html.push_str("</table>\n");
}

fn against(html: &mut String, earlier: &Earlier, report: &Report) {
    html.push_str("<h2>Against the earlier result</h2>\n");
    for difference in earlier.differences(report) {
        let _ = writeln!(html, "<p>{}</p>", Html::new(&difference));
    }
    html.push_str(
        "<table tabindex=\"0\"><tr><th>figure</th><th>then</th><th>now</th><th>change</th><th></th></tr>\n",
    );
    for change in earlier.changes(report) {
        let _ = writeln!(
            html,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{:+.0} %</td><td>{}</td></tr>",
            Html::new(&change.name),
            number(change.old),
            number(change.new),
            change.percent(),
            if change.is_clear {
                "clear"
            } else {
                "within the spread"
            }
        );
    }
    html.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::super::night::tests::{empty, full};
    use super::*;
    use crate::{Machine, Study};

    fn shown(night: &Night, earlier: Option<&Earlier>) -> String {
        let references = References::default();
        let mut study = Study::new(Machine::default(), night.whole_rounds());
        night.record(&mut study, &references);
        page(night, &references, earlier, &study.finish())
    }

    #[test]
    fn a_page_stands_alone_and_has_all_parts() {
        let html = shown(&full(), None);
        for part in [
            "prefers-color-scheme:dark",
            "no encryption, Scrim",
            "need of up to four clients",
            "cryptsetup luksFormat --type luks2 --cipher aes-xts-plain64 --key-size 512",
            "Busy processors",
            "Slow: writes at",
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("Against"));
        assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
        let outside = html.replace("http://www.w3.org/2000/svg", "");
        for word in ["http:/", "src=", "<script", "@import", "url("] {
            assert!(!outside.contains(word), "{word}");
        }
        assert!(!html.contains("NaN"));
    }

    #[test]
    fn a_page_without_results_and_one_with_earlier_ones() {
        assert!(!shown(&empty(), None).contains("NaN"));
        let night = full();
        let mut study = Study::new(Machine::default(), 2);
        night.record(&mut study, &References::default());
        let earlier = study.finish().to_json().to_string();
        let earlier = Earlier::parse(earlier.as_bytes()).unwrap();
        assert!(shown(&night, Some(&earlier)).contains("within the spread"));
    }
}
