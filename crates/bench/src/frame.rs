//! The frame of every page: its style, and at its end the ratios, the machine and the warnings.

use std::fmt::Write as _;

use scrim_foreign::Html;

use crate::report::Report;
use crate::svg::{COLOURS, LineChart};

/// Most ratios that are shown without a click.
const UNFOLDED_MAX: usize = 40;

/// Style sheet of the page, on light and on dark ground. On telephones tables are moved sideways; each has a `tabindex`,
/// so that a keyboard can do this too.
const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;overflow-wrap:break-word;max-width:60rem;margin:2rem auto;padding:0 1rem;\
background:#fff;color:#1f2328}
svg{max-width:100%;height:auto;display:block;margin:1rem 0}
svg text{fill:#1f2328}
table{border-collapse:collapse;margin:1rem 0}
td,th{padding:.2rem .8rem;border-bottom:1px solid #d1d9e0;text-align:right}
td:first-child,th:first-child{text-align:left}
code{font-size:.9em}
dt{font-weight:600}
dd{margin:0 0 .5rem;overflow-wrap:anywhere}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr));gap:0 2rem}
.wide{overflow-x:auto;break-inside:avoid}
.wide svg{min-width:34rem}
@media(max-width:40rem){body{margin:1rem auto}h1{font-size:1.5rem}
table{display:block;overflow-x:auto}td,th{padding:.2rem .5rem}}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}svg text{fill:#e6edf3}
td,th{border-color:#3d444d}}
";

/// Columns of charts: as many as fit.
pub(crate) const GRID: &str = "<div class=\"grid\">\n";

/// The start of a page that loads nothing and follows the browser's light or dark scheme.
pub(crate) fn head(title: &str, heading: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Scrim: {title}</title>\n<style>\n{STYLE}{}</style></head>\n<body><main>\n\
         <h1>{heading}</h1>\n",
        colours()
    )
}

/// The charts' own, for the bars.
fn colours() -> String {
    let (mut light, mut dark) = (String::new(), String::new());
    for (index, (on_light, on_dark)) in COLOURS.iter().enumerate() {
        let _ = write!(light, ".c{index}{{fill:{on_light}}}");
        let _ = write!(dark, ".c{index}{{fill:{on_dark}}}");
    }
    format!("{light}\n@media(prefers-color-scheme:dark){{{dark}}}\n")
}

/// A chart over time, which is moved sideways on a telephone: smaller, its words could not be read.
pub(crate) fn wide(chart: &LineChart) -> String {
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</div>\n",
        Html::new(&chart.title),
        chart.to_svg()
    )
}

/// Appends the end of a page that [`head`] began, with the parts that every report has.
pub(crate) fn end(html: &mut String, report: &Report) {
    html.push_str(
        "<h2>Ratios</h2>\n<p>Medians of the rounds' ratios, with 95 % intervals; higher is better, but \
         where the name ends in <code>_cost</code>.</p>\n",
    );
    let many = report.ratios.len() > UNFOLDED_MAX;
    if many {
        let count = report.ratios.len();
        let _ = writeln!(html, "<details><summary>All {count} ratios</summary>");
    }
    html.push_str(
        "<table tabindex=\"0\"><tr><th>ratio</th><th>value</th><th>from</th><th>to</th></tr>\n",
    );
    for ratio in &report.ratios {
        let _ = writeln!(
            html,
            "<tr><td><code>{}</code></td><td>{:.3}</td><td>{:.3}</td><td>{:.3}</td></tr>",
            ratio.name, ratio.value, ratio.interval.low, ratio.interval.high
        );
    }
    html.push_str("</table>\n");
    if many {
        html.push_str("</details>\n");
    }
    html.push_str("<h2>Machine</h2>\n");
    let machine = &report.machine;
    let cpu = Html::new(machine.cpu.as_deref().unwrap_or("unknown"));
    let kernel = Html::new(machine.kernel.as_deref().unwrap_or("unknown"));
    let _ = writeln!(
        html,
        "<p>{cpu}, {} cores, Linux {kernel}</p>",
        machine.cores
    );
    if !report.warnings.is_empty() {
        html.push_str("<h2>Warnings</h2>\n<ul>\n");
        for warning in &report.warnings {
            let _ = writeln!(html, "<li>{}</li>", Html::new(warning));
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</main></body></html>\n");
}
