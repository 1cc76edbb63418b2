//! Bars as SVG, in the colours of [`crate::svg`].

use std::fmt::Write as _;

use scrim_foreign::Html;

use crate::svg::COLOURS;

const WIDTH: f64 = 720.0;
/// Left end of the bars.
const LEFT: f64 = 200.0;
/// Right end of the longest bar.
const RIGHT: f64 = 640.0;
const TOP: f64 = 44.0;
const ROW: f64 = 26.0;

/// One bar: its label, its value, and the number of its colour.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) colour: usize,
}

/// Bars to scale, from the same zero.
pub(crate) fn bars(title: &str, unit: &str, bars: &[Bar]) -> String {
    let height = TOP + ROW * bars.len() as f64 + 12.0;
    let longest = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let title = Html::new(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<title>{title}</title>\n\
         <text x=\"16\" y=\"24\" font-size=\"16\" font-weight=\"600\">{title}</text>\n"
    );
    for (index, bar) in bars.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        let part = if longest > 0.0 {
            bar.value / longest
        } else {
            0.0
        };
        let length = (part * (RIGHT - LEFT)).max(1.0);
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\
             <rect class=\"c{}\" x=\"{LEFT}\" y=\"{y:.0}\" width=\"{length:.1}\" height=\"18\" rx=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\">{:.0} {unit}</text>",
            LEFT - 8.0,
            y + 14.0,
            Html::new(&bar.label),
            bar.colour % COLOURS.len(),
            LEFT + length + 6.0,
            y + 14.0,
            bar.value
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_to_scale_and_words_are_escaped() {
        let bar = |label: &str, value| Bar {
            label: label.to_owned(),
            value,
            colour: 1,
        };
        let svg = bars("a < b", "MB/s", &[bar("one", 440.0), bar("x&y", 220.0)]);
        assert!(svg.contains("<title>a &lt; b</title>"), "{svg}");
        assert!(svg.contains("width=\"440.0\"") && svg.contains("width=\"220.0\""));
        assert!(svg.contains(">x&amp;y</text>") && svg.contains(">220 MB/s</text>"));
        assert!(!bars("", "", &[bar("", 0.0)]).contains("NaN"));
    }
}
