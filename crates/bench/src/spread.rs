//! Distances between values, as SVG over a scale of powers of ten, in the colours of [`crate::svg`].

use std::fmt::Write as _;

use scrim_foreign::Html;

use crate::svg::COLOURS;

/// Narrow, so that its words can be read on a telephone.
const WIDTH: f64 = 480.0;
const LEFT: f64 = 24.0;
const RIGHT: f64 = 456.0;
/// Top of the first row.
const TOP: f64 = 66.0;
const ROW: f64 = 56.0;
/// Height of a row's marks, below its words.
const LANE: f64 = 38.0;

/// Three times of one thing, in µs, from the shortest to the longest, and the number of its colour.
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) values: [f64; 3],
    pub(crate) colour: usize,
}

/// Draws one row for each of `rows`, with a mark for each of its values; `names` are the meanings of the values.
pub(crate) fn spread(title: &str, names: &[&str; 3], rows: &[Row]) -> String {
    let bottom = TOP + ROW * rows.len() as f64;
    let height = bottom + 28.0;
    let title = Html::new(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         style=\"width:38rem\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <title>{title}</title>\n\
         <text x=\"19\" y=\"20\" font-size=\"14\" font-weight=\"600\">{title}</text>\n"
    );
    legend(&mut svg, names);
    let scale = Scale::over(rows);
    for power in scale.from..=scale.to {
        let x = scale.x(10f64.powi(power));
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            duration(10f64.powi(power))
        );
        // Not through words.
        for row in 0..rows.len() {
            let y = TOP + ROW * row as f64 + LANE;
            let _ = write!(
                svg,
                "<path d=\"M{x:.1} {:.1}v24\" stroke=\"currentColor\" stroke-opacity=\".25\"/>",
                y - 12.0
            );
        }
    }
    for (index, row) in rows.iter().enumerate() {
        draw(&mut svg, &scale, index, row, names);
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, names: &[&str; 3]) {
    for (place, name) in names.iter().enumerate() {
        let x = LEFT + 90.0 * place as f64;
        svg.push_str("<g fill=\"currentColor\">");
        mark(svg, place, x, 40.0);
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"44\">{}</text></g>",
            x + 12.0,
            Html::new(name)
        );
    }
}

/// A dot, a diamond, a stroke.
fn mark(svg: &mut String, place: usize, x: f64, y: f64) {
    let _ = match place {
        0 => write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>"),
        1 => write!(svg, "<path d=\"M{x:.1} {:.1}l6 6-6 6-6-6z\"/>", y - 6.0),
        _ => write!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"4\" height=\"16\"/>",
            x - 2.0,
            y - 8.0
        ),
    };
}

fn draw(svg: &mut String, scale: &Scale, index: usize, row: &Row, names: &[&str; 3]) {
    let y = TOP + ROW * index as f64;
    let words: Vec<_> = names
        .iter()
        .zip(row.values)
        .map(|(name, value)| format!("{name} {}", duration(value)))
        .collect();
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.0}\" font-weight=\"600\">{}</text>\
         <text x=\"{RIGHT}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\n<g class=\"c{}\">",
        y + 18.0,
        Html::new(&row.label),
        y + 18.0,
        Html::new(&words.join(" · ")),
        row.colour % COLOURS.len()
    );
    let (line, from, to) = (y + LANE, scale.x(row.values[0]), scale.x(row.values[2]));
    let _ = write!(
        svg,
        "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"2\"/>",
        line - 1.0,
        (to - from).max(0.0)
    );
    for (place, value) in row.values.into_iter().enumerate() {
        mark(svg, place, scale.x(value), line);
    }
    svg.push_str("</g>\n");
}

/// A time as people say it, from µs.
fn duration(micros: f64) -> String {
    let (value, unit) = match micros {
        micros if micros >= 1e6 => (micros / 1e6, "s"),
        micros if micros >= 1e3 => (micros / 1e3, "ms"),
        micros => (micros, "µs"),
    };
    let digits = usize::from(value < 10.0 && value.fract() != 0.0);
    format!("{value:.digits$} {unit}")
}

/// Whole powers of ten, from one to another.
struct Scale {
    from: i32,
    to: i32,
}

impl Scale {
    fn over(rows: &[Row]) -> Self {
        let values = rows.iter().flat_map(|row| row.values);
        let (low, high) = values.fold((f64::INFINITY, 1.0), |(low, high), value| {
            (f64::min(low, value), f64::max(high, value))
        });
        #[expect(clippy::cast_possible_truncation, reason = "within 0 and 12")]
        let power =
            |value: f64, round: fn(f64) -> f64| round(value.clamp(1.0, 1e12).log10()) as i32;
        let from = power(low, f64::floor);
        Self {
            from,
            to: power(high, f64::ceil).max(from + 1),
        }
    }

    fn x(&self, value: f64) -> f64 {
        let part = (value.max(1.0).log10() - f64::from(self.from)) / f64::from(self.to - self.from);
        LEFT + part.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["p50", "p99", "p99.9"];

    fn row(values: [f64; 3]) -> Row {
        Row {
            label: "a & b".to_owned(),
            values,
            colour: 0,
        }
    }

    #[test]
    fn marks_lie_where_their_powers_of_ten_are() {
        let svg = spread("x < y", &NAMES, &[row([10.0, 100.0, 1000.0])]);
        assert!(svg.contains("<title>x &lt; y</title>") && svg.contains(">a &amp; b</text>"));
        for mark in ["cx=\"24.0\"", "M240.0 98.0l6 6", "x=\"454.0\""] {
            assert!(svg.contains(mark), "{mark}: {svg}");
        }
        assert!(svg.contains(">10 µs</text>") && svg.contains(">1 ms</text>"));
        assert!(svg.contains("p50 10 µs · p99 100 µs · p99.9 1 ms"));
    }

    #[test]
    fn nothing_and_much_stay_in_the_picture() {
        for values in [[0.0; 3], [1e15, 1e16, f64::MAX], [7.0, 7.0, 7.0]] {
            let svg = spread("", &NAMES, &[row(values)]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        assert!(!spread("", &NAMES, &[]).contains("NaN"));
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        assert_eq!(duration(81.4), "81 µs");
        assert_eq!(duration(1234.0), "1.2 ms");
        assert_eq!(duration(2.5e6), "2.5 s");
    }
}
