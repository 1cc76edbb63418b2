//! Bars with intervals and reference lines as SVG, narrow enough for a telephone, in the colours of [`crate::svg`].

use std::fmt::Write as _;

use scrim_foreign::Html;

use crate::figure::{Figure, number};
use crate::svg::COLOURS;

/// Width of the picture, in which words can be read on a telephone.
const WIDTH: f64 = 360.0;
const LEFT: f64 = 4.0;
/// Right end of the scale; numbers follow.
const RIGHT: f64 = 300.0;
/// Height of a row: a label and below it a bar.
const ROW: f64 = 36.0;
/// Height of a line of the legend.
const LINE: f64 = 16.0;
/// Lines beyond the longest bar times this are named but not drawn.
const BEYOND: f64 = 1.6;

/// A bar: its label, its value with the interval, and the number of its colour.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) figure: Option<Figure>,
    pub(crate) colour: usize,
}

/// A line across the bars.
pub(crate) struct Mark {
    pub(crate) label: String,
    pub(crate) value: f64,
}

/// Bars to scale from the same zero, below the legend of their marks.
pub(crate) fn bars(title: &str, unit: &str, bars: &[Bar], marks: &[Mark]) -> String {
    let values = bars.iter().filter_map(|bar| bar.figure);
    let longest = values
        .map(|figure| figure.interval.high)
        .fold(0.0, f64::max);
    let drawn = |mark: &Mark| mark.value <= longest * BEYOND;
    let shown = marks.iter().filter(|mark| drawn(mark));
    let end = shown
        .map(|mark| mark.value)
        .fold(longest, f64::max)
        .max(1e-9);
    let x = |value: f64| LEFT + value / end * (RIGHT - LEFT);
    let top = 30.0 + LINE * marks.len() as f64;
    let height = top + ROW * bars.len() as f64 + 8.0;
    let heading = Html::new(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
         style=\"width:100%;max-width:30rem;break-inside:avoid\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <title>{heading}</title>\n<text x=\"{LEFT}\" y=\"17\" font-size=\"14\" font-weight=\"600\">{heading}, {unit}</text>\n"
    );
    for (index, mark) in marks.iter().enumerate() {
        let y = 34.0 + LINE * index as f64;
        let dashes = format!("{} 3", 2 + 3 * index);
        let where_to = if drawn(mark) { "" } else { " →" };
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {:.0}h22\" stroke=\"currentColor\" stroke-dasharray=\"{dashes}\"/>\
             <text x=\"{:.0}\" y=\"{y:.0}\" font-size=\"11\">{}: {}{where_to}</text>",
            y - 4.0,
            LEFT + 28.0,
            Html::new(&mark.label),
            number(mark.value)
        );
        if drawn(mark) {
            // Across the bars, and not through words.
            let mut path = String::new();
            for row in 0..bars.len() {
                let _ = write!(
                    path,
                    "M{:.1} {:.0}v20",
                    x(mark.value),
                    top + ROW * row as f64 + 14.0
                );
            }
            let _ = writeln!(
                svg,
                "<path d=\"{path}\" stroke=\"currentColor\" stroke-opacity=\".7\" stroke-dasharray=\"{dashes}\"/>"
            );
        }
    }
    for (index, bar) in bars.iter().enumerate() {
        draw(&mut svg, bar, top + ROW * index as f64, &x);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, bar: &Bar, y: f64, x: &dyn Fn(f64) -> f64) {
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.0}\" font-size=\"11\">{}</text>",
        y + 12.0,
        Html::new(&bar.label)
    );
    let Some(figure) = bar.figure else {
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{:.0}\">–</text>", y + 28.0);
        return;
    };
    let colour = bar.colour % COLOURS.len();
    let (length, low, high) = (
        (x(figure.value) - LEFT).max(1.0),
        x(figure.interval.low),
        x(figure.interval.high),
    );
    let _ = writeln!(
        svg,
        "<rect class=\"c{colour}\" x=\"{LEFT}\" y=\"{:.0}\" width=\"{length:.1}\" height=\"14\" rx=\"2\"/>\
         <path d=\"M{low:.1} {:.0}H{high:.1}\" stroke=\"currentColor\" stroke-width=\"1.5\"/>\
         <text x=\"{:.1}\" y=\"{:.0}\">{}</text>",
        y + 17.0,
        y + 24.0,
        high.max(LEFT + length) + 5.0,
        y + 28.0,
        number(figure.value)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(values: &[f64]) -> Bar {
        Bar {
            label: "x<y".to_owned(),
            figure: Figure::of(values),
            colour: 9,
        }
    }

    fn mark(value: f64) -> Mark {
        Mark {
            label: "need".to_owned(),
            value,
        }
    }

    #[test]
    fn bars_are_to_scale_with_lines_that_fit() {
        let all = [bar(&[148.0]), bar(&[74.0, 74.0]), bar(&[])];
        let svg = bars("a & b", "MB/s", &all, &[mark(37.0), mark(10_000.0)]);
        assert!(
            svg.contains("width=\"296.0\"") && svg.contains("width=\"148.0\""),
            "{svg}"
        );
        assert!(svg.contains("x&lt;y") && svg.contains("a &amp; b, MB/s"));
        assert!(
            svg.contains("M78.0 ") && svg.contains("need: 10000 →"),
            "{svg}"
        );
        assert_eq!(svg.matches("stroke-opacity").count(), 1);
    }

    #[test]
    fn nothing_stays_in_the_picture() {
        for svg in [
            bars("", "", &[], &[]),
            bars("", "", &[bar(&[0.0])], &[mark(0.0)]),
        ] {
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
